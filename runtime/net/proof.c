#include "runtime/net/proof.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PIECES = 16, PIECE_BYTES = 64 << 10 }; /* evenly spaced, the first and the last bytes among them */

static bool read_piece(int fd, void *bytes, size_t size, int64_t offset, size_t *got) {
    *got = 0;
    while (*got < size) {
        ssize_t count = pread(fd, (char *)bytes + *got, size - *got, offset + (int64_t)*got);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return false;
        if (count == 0)
            break;
        *got += (size_t)count;
    }
    return true;
}

/* XXH3-64 of the whole of a small file, of PIECES pieces of a large one. 0 or an errno. */
static int fingerprint(int fd, int64_t size, uint64_t *hash) {
    unsigned char *piece = malloc(PIECE_BYTES);
    XXH3_state_t *state = XXH3_createState();
    int code = piece && state ? 0 : ENOMEM;
    if (code == 0)
        XXH3_64bits_reset(state);
    int64_t last = size > PIECE_BYTES ? size - PIECE_BYTES : 0;
    for (int i = 0; code == 0 && i < PIECES; i++) {
        int64_t offset = last / (PIECES - 1) * i;
        size_t got;
        if (i == PIECES - 1)
            offset = last;
        if (read_piece(fd, piece, PIECE_BYTES, offset, &got))
            XXH3_64bits_update(state, piece, got);
        else
            code = errno;
    }
    if (code == 0)
        *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(piece);
    return code;
}

static int64_t mark_offset(const TensorFile *file) {
    return file->data_offset + tensor_file_bytes(file);
}

void proof_look(const TensorFile *file, int old_errno, int staging_errno, WireSeen *seen) {
    *seen = (WireSeen){.error = (uint32_t)old_errno, .staging_error = (uint32_t)staging_errno};
    struct stat status;
    if (file->old_fd >= 0) {
        if (fstat(file->old_fd, &status) != 0) {
            seen->error = (uint32_t)errno;
        } else {
            seen->size = status.st_size;
            seen->mtime_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
            seen->error = (uint32_t)fingerprint(file->old_fd, status.st_size, &seen->hash);
        }
    }
    if (file->staging_fd >= 0) {
        size_t got;
        if (!read_piece(file->staging_fd, &seen->nonce, sizeof seen->nonce, mark_offset(file), &got))
            seen->staging_error = (uint32_t)errno;
        else if (got != sizeof seen->nonce)
            seen->nonce = 0;
    }
}

bool proof_mark(const TensorFile *file, uint64_t nonce, Error *error) {
    ssize_t written;
    do
        written = pwrite(file->staging_fd, &nonce, sizeof nonce, mark_offset(file));
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)sizeof nonce || error_errno(error, "cannot write \"%s\"", file->staging_path);
}

bool proof_unmark(const TensorFile *file, Error *error) {
    return ftruncate(file->staging_fd, mark_offset(file)) == 0 || error_errno(error, "cannot set the size of \"%s\"", file->staging_path);
}

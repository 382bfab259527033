/* Tensor files: regions in and out, and what is on disk before, during and after a job, whichever way it ends. */
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/phobos-tensor-XXXXXX", before[PATH_MAX];

static void setup(void) {
    memcpy(folder, "/tmp/phobos-tensor-XXXXXX", sizeof folder);
    ck_assert(getcwd(before, sizeof before) != NULL && mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void teardown(void) {
    ck_assert_int_eq(chdir(before), 0);
    char *command = format_text("rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    free(command);
}

static void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static size_t read_bytes(const char *path, void *bytes, size_t capacity) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    return size;
}

static int count_entries(void) {
    DIR *here = opendir(".");
    ck_assert_ptr_nonnull(here);
    int count = -2; /* . and .. */
    while (readdir(here) != NULL)
        count++;
    closedir(here);
    return count;
}

/* As job_load leaves it. */
static TensorFile open_tensor(const char *path, int mode, int dtype, int rank, const int64_t *shape) {
    TensorFile file;
    Error error = {""};
    ck_assert_msg(tensor_file_open(&file, path, mode, &error) == FILE_FINE, "%s", error.text);
    file.dtype = dtype;
    file.rank = rank;
    memcpy(file.shape, shape, (size_t)rank * sizeof *shape);
    char header[256];
    NpyHeader found;
    if (file.is_npy && file.old_fd >= 0) {
        ck_assert(npy_read_header(file.old_fd, path, &found, &error));
        file.data_offset = found.data_offset;
    } else if (file.is_npy) {
        file.data_offset = npy_write_header(header, dtype, rank, shape);
    }
    return file;
}

static void must(bool fine, const Error *error) {
    ck_assert_msg(fine, "%s", error->text);
}

/* ---- regions ---- */

static const struct {
    int rank;
    int64_t shape[PHB_MAX_RANK], origin[PHB_MAX_RANK], extent[PHB_MAX_RANK];
} regions[] = {
    {1, {100}, {0}, {100}},
    {1, {100}, {7}, {13}},
    {1, {100}, {99}, {1}},
    {1, {100}, {50}, {0}},
    {2, {9, 11}, {0, 0}, {9, 11}},
    {2, {9, 11}, {2, 0}, {4, 11}},
    {2, {9, 11}, {2, 3}, {4, 5}},
    {2, {600, 3}, {1, 0}, {599, 3}},   /* more rows than one call takes */
    {2, {600, 3}, {1, 1}, {599, 1}},   /* the same, with gaps between them */
    {2, {3, 8192}, {0, 2}, {3, 4096}}, /* gaps as wide as one call still reads along, */
    {2, {3, 8192}, {0, 2}, {3, 4095}}, /* and wider */
    {3, {4, 5, 6}, {0, 0, 0}, {4, 5, 6}},
    {3, {4, 5, 6}, {1, 0, 0}, {2, 5, 6}},
    {3, {4, 5, 6}, {1, 2, 0}, {2, 3, 6}},
    {3, {4, 5, 6}, {1, 2, 3}, {3, 2, 2}},
    {3, {4, 5, 6}, {1, 0, 1}, {3, 5, 2}},
    {4, {3, 4, 5, 6}, {0, 0, 0, 0}, {3, 4, 5, 6}},
    {4, {3, 4, 5, 6}, {1, 1, 0, 0}, {2, 2, 5, 6}},
    {4, {3, 4, 5, 6}, {1, 1, 1, 1}, {2, 2, 2, 2}},
    {4, {3, 4, 1, 1}, {1, 1, 0, 0}, {2, 2, 1, 1}},
};

/* The element's number in the whole tensor, and its row and place in the region. */
static void each_element(int at, void (*visit)(uint16_t number, int64_t row, int64_t column, void *context), void *context) {
    const int64_t *shape = regions[at].shape, *origin = regions[at].origin, *extent = regions[at].extent;
    int rank = regions[at].rank;
    int64_t rows = 1, last = extent[rank - 1];
    for (int axis = 0; axis < rank - 1; axis++)
        rows *= extent[axis];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < last; column++) {
            int64_t index[PHB_MAX_RANK], rest = row, number = 0;
            index[rank - 1] = column;
            for (int axis = rank - 2; axis >= 0; axis--) {
                index[axis] = rest % extent[axis];
                rest /= extent[axis];
            }
            for (int axis = 0; axis < rank; axis++)
                number = number * shape[axis] + origin[axis] + index[axis];
            visit((uint16_t)number, row, column, context);
        }
}

typedef struct Rows {
    char *bytes;
    int64_t pitch;
} Rows;

static void check_element(uint16_t number, int64_t row, int64_t column, void *context) {
    const Rows *rows = context;
    uint16_t found;
    memcpy(&found, rows->bytes + row * rows->pitch + column * 2, 2);
    ck_assert_int_eq(found, number);
}

static void put_element(uint16_t number, int64_t row, int64_t column, void *context) {
    const Rows *rows = context;
    uint16_t value = (uint16_t)~number;
    memcpy(rows->bytes + row * rows->pitch + column * 2, &value, 2);
}

enum { MAX_ELEMENTS = 3 * 8192 };

static int64_t elements_of(int at) {
    int64_t count = 1;
    for (int axis = 0; axis < regions[at].rank; axis++)
        count *= regions[at].shape[axis];
    return count;
}

static Region region_of(int at) {
    Region region = {{0, 0, 0, 0}, {1, 1, 1, 1}};
    memcpy(region.origin, regions[at].origin, (size_t)regions[at].rank * sizeof(int64_t));
    memcpy(region.extent, regions[at].extent, (size_t)regions[at].rank * sizeof(int64_t));
    return region;
}

static void check_region(int at, int64_t padding) {
    uint16_t old[MAX_ELEMENTS], new[MAX_ELEMENTS];
    int64_t count = elements_of(at);
    for (int i = 0; i < count; i++)
        old[i] = (uint16_t)i;
    write_bytes("t.bin", old, (size_t)count * 2);
    TensorFile file = open_tensor("t.bin", PHB_READ_WRITE, PHB_U16, regions[at].rank, regions[at].shape);
    Region region = region_of(at);
    Error error = {""};
    Rows rows = {new_zeroed(8 * MAX_ELEMENTS, 8), regions[at].extent[regions[at].rank - 1] * 2 + padding};
    must(tensor_file_read(&file, &region, rows.bytes, rows.pitch, &error), &error);
    each_element(at, check_element, &rows);
    must(tensor_file_stage(&file, true, &error), &error);
    each_element(at, put_element, &rows);
    must(tensor_file_write(&file, &region, rows.bytes, rows.pitch, &error), &error);
    must(tensor_file_publish(&file, &error), &error);
    tensor_file_close(&file);
    free(rows.bytes);
    ck_assert_uint_eq(read_bytes("t.bin", new, sizeof new), (size_t)count * 2);
    int changed = 0, inside = 1;
    for (int i = 0; i < count; i++) {
        uint16_t flipped = (uint16_t)~old[i];
        ck_assert(new[i] == old[i] || new[i] == flipped);
        changed += new[i] != old[i];
    }
    for (int axis = 0; axis < regions[at].rank; axis++)
        inside *= (int)regions[at].extent[axis];
    ck_assert_int_eq(changed, inside);
    ck_assert_int_eq(count_entries(), 1);
}

START_TEST(regions_without_padding) {
    check_region(_i, 0);
}
END_TEST

START_TEST(regions_with_padding) {
    check_region(_i, 10);
}
END_TEST

START_TEST(no_old_file_reads_as_zero) {
    static const int64_t shape[] = {3, 5};
    TensorFile file = open_tensor("new.bin", PHB_READ_WRITE, PHB_U8, 2, shape);
    Region region = {{1, 1, 0, 0}, {2, 3, 1, 1}};
    char rows[2][8];
    memset(rows, 0x55, sizeof rows);
    Error error;
    ck_assert(tensor_file_read(&file, &region, rows, 8, &error));
    for (int row = 0; row < 2; row++)
        ck_assert_mem_eq(rows[row], "\0\0\0\x55\x55\x55\x55\x55", 8);
    tensor_file_close(&file);
    ck_assert_int_eq(count_entries(), 0);
}
END_TEST

/* ---- staging ---- */

START_TEST(a_new_npy_is_whole) {
    static const int64_t shape[] = {2, 3};
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    mode_t mask = umask(027);
    TensorFile file = open_tensor("c.npy", PHB_WRITE, PHB_F32, 2, shape);
    umask(mask);
    Region whole = tensor_file_whole(&file);
    Error error = {""};
    must(tensor_file_stage(&file, false, &error), &error);
    ck_assert_int_eq(count_entries(), 2); /* staging and lock; no target yet */
    ck_assert_int_ne(access("c.npy", F_OK), 0);
    struct stat status;
    ck_assert_int_eq(stat(file.staging_path, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    must(tensor_file_write(&file, &whole, values, 12, &error), &error);
    must(tensor_file_sync(&file, &error), &error);
    ck_assert_int_ne(access("c.npy", F_OK), 0);
    must(tensor_file_publish(&file, &error), &error);
    tensor_file_close(&file);
    ck_assert_int_eq(count_entries(), 1);
    char bytes[512];
    ck_assert_uint_eq(read_bytes("c.npy", bytes, sizeof bytes), 128 + 24);
    ck_assert_mem_eq(bytes + 128, values, 24);
    ck_assert_int_eq(stat("c.npy", &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0640);
}
END_TEST

/* An old header of another length stays, as do permissions and what no region covers. */
START_TEST(an_old_npy_keeps_its_header) {
    static const char header[] = "\x93NUMPY\x01\0\x3b\0{'shape': (4,), 'fortran_order': False, 'descr': '<u2'}    \n";
    char bytes[256];
    memcpy(bytes, header, sizeof header - 1);
    memcpy(bytes + sizeof header - 1, "aabbccdd", 8);
    size_t size = sizeof header - 1 + 8;
    bytes[8] = (char)(sizeof header - 1 - 10);
    write_bytes("q.npy", bytes, size);
    ck_assert_int_eq(chmod("q.npy", 0604), 0);
    TensorFile file = open_tensor("q.npy", PHB_READ_WRITE, PHB_U16, 1, (int64_t[]){4});
    Region one = {{1, 0, 0, 0}, {1, 1, 1, 1}};
    Error error = {""};
    must(tensor_file_stage(&file, true, &error), &error);
    must(tensor_file_write(&file, &one, "XX", 2, &error), &error);
    char old[2];
    must(tensor_file_read(&file, &one, old, 2, &error), &error);
    ck_assert_mem_eq(old, "bb", 2); /* the old contents, whatever is staged */
    must(tensor_file_publish(&file, &error), &error);
    tensor_file_close(&file);
    char found[256];
    memcpy(bytes + sizeof header - 1 + 2, "XX", 2);
    ck_assert_uint_eq(read_bytes("q.npy", found, sizeof found), size);
    ck_assert_mem_eq(found, bytes, size);
    struct stat status;
    ck_assert_int_eq(stat("q.npy", &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0604);
}
END_TEST

START_TEST(close_discards) {
    write_bytes("c.bin", "old!", 4);
    TensorFile file = open_tensor("c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){8});
    Region whole = tensor_file_whole(&file);
    Error error = {""};
    must(tensor_file_stage(&file, false, &error), &error);
    must(tensor_file_write(&file, &whole, "newnewne", 8, &error), &error);
    tensor_file_close(&file);
    tensor_file_close(&file); /* twice does no harm */
    char bytes[16];
    ck_assert_uint_eq(read_bytes("c.bin", bytes, sizeof bytes), 4);
    ck_assert_mem_eq(bytes, "old!", 4);
    ck_assert_int_eq(count_entries(), 1);
}
END_TEST

START_TEST(staging_is_kept_on_request) {
    TensorFile file = open_tensor("c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){8});
    Error error = {""};
    must(tensor_file_stage(&file, false, &error), &error);
    file.keep_staging = true;
    tensor_file_close(&file);
    ck_assert_int_eq(count_entries(), 1);
}
END_TEST

START_TEST(the_target_of_a_link_is_replaced) {
    ck_assert_int_eq(mkdir("real", 0777), 0);
    write_bytes("real/c.bin", "12345678", 8);
    ck_assert_int_eq(symlink("real/c.bin", "link.bin"), 0);
    TensorFile file = open_tensor("link.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){4});
    Region whole = tensor_file_whole(&file);
    Error error = {""};
    must(tensor_file_stage(&file, false, &error), &error);
    must(tensor_file_write(&file, &whole, "abcd", 4, &error), &error);
    must(tensor_file_publish(&file, &error), &error);
    tensor_file_close(&file);
    struct stat status;
    ck_assert(lstat("link.bin", &status) == 0 && S_ISLNK(status.st_mode));
    char bytes[16];
    ck_assert_uint_eq(read_bytes("real/c.bin", bytes, sizeof bytes), 4);
}
END_TEST

/* ---- the page cache ---- */

/* Of the file's pages, in percent. */
static int64_t resident(int fd, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = size / page;
    unsigned char *there = new_zeroed(pages, 1);
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert(mapped != MAP_FAILED && mincore(mapped, size, there) == 0);
    munmap(mapped, size);
    int64_t count = 0;
    for (size_t p = 0; p < pages; p++)
        count += there[p] & 1;
    free(there);
    return 100 * count / (int64_t)pages;
}

/* Of a file that is larger than memory (so it is said) nothing stays but what is still on its way to the disk. */
START_TEST(what_is_larger_than_memory_passes) {
    enum { PIECE = 8 << 20 };
    static const int64_t sizes[] = {2 * PIECE, 11 * PIECE}; /* of an ordinary file and of one that passes */
    struct statfs system;
    if (syscall(SYS_statfs, ".", &system) != 0 || system.f_type == TMPFS_MAGIC)
        return; /* memory is all it has */
    char *piece = new_zeroed(PIECE, 1);
    Error error;
    for (int passing = 0; passing < 2; passing++) {
        TensorFile out = open_tensor("large.bin", PHB_WRITE, PHB_U8, 1, &sizes[passing]);
        must(tensor_file_stage(&out, false, &error), &error);
        ck_assert(!out.passing);
        out.passing = passing;
        for (int64_t at = 0; at < sizes[passing]; at += PIECE)
            must(tensor_file_write(&out, &(Region){{at, 0, 0, 0}, {PIECE, 1, 1, 1}}, piece, PIECE, &error), &error);
        int64_t left = resident(out.staging_fd, (size_t)sizes[passing]);
        ck_assert_msg(passing ? left <= 85 : left >= 90, "%lld %% stay of what was written", (long long)left);
        must(tensor_file_publish(&out, &error), &error);
        tensor_file_close(&out);
        TensorFile in = open_tensor("large.bin", PHB_READ, PHB_U8, 1, &sizes[passing]);
        in.passing = passing;
        for (int64_t at = 0; at < sizes[passing]; at += PIECE)
            must(tensor_file_read(&in, &(Region){{at, 0, 0, 0}, {PIECE, 1, 1, 1}}, piece, PIECE, &error), &error);
        left = resident(in.old_fd, (size_t)sizes[passing]);
        ck_assert_msg(passing ? left <= 10 : left >= 90, "%lld %% stay of what was read", (long long)left);
        tensor_file_close(&in);
    }
    free(piece);
}
END_TEST

START_TEST(larger_than_memory_is_seen) {
    int fd = open("sparse.bin", O_RDWR | O_CREAT, 0600);
    int64_t memory = machine_bytes();
    ck_assert(fd >= 0 && ftruncate(fd, memory) == 0 && !pages_pass(fd));
    ck_assert(ftruncate(fd, memory + sysconf(_SC_PAGESIZE)) == 0 && pages_pass(fd) && !pages_pass(-1));
    close(fd);
}
END_TEST

/* What the runtime is told of file systems. */
static unsigned claimed_system;

int fstatfs(int fd, struct statfs *system) {
    int result = (int)syscall(SYS_fstatfs, fd, system);
    if (claimed_system != 0)
        system->f_type = (__fsword_t)claimed_system;
    return result;
}

static const struct {
    unsigned system;
    bool synchronous;
} systems[] = {{NFS_SUPER_MAGIC, true}, {SMB2_SUPER_MAGIC, true}, {CIFS_SUPER_MAGIC, true}, {FUSE_SUPER_MAGIC, true}, {V9FS_MAGIC, true},
    {EXT4_SUPER_MAGIC, false}, {XFS_SUPER_MAGIC, false}, {0, false}};

/* Where machines write side by side into a page, each must write its own bytes alone. */
START_TEST(shared_file_systems_are_written_to_at_once) {
    static const int64_t shape[] = {8};
    Error error;
    claimed_system = systems[_i].system;
    TensorFile file = open_tensor("out.bin", PHB_WRITE, PHB_U8, 1, shape);
    must(tensor_file_stage(&file, false, &error), &error);
    ck_assert_int_eq((fcntl(file.staging_fd, F_GETFL) & O_DSYNC) != 0, systems[_i].synchronous);
    ck_assert_int_eq(count_entries(), 2);
    must(tensor_file_write(&file, &(Region){{0, 0, 0, 0}, {8, 1, 1, 1}}, "12345678", 8, &error), &error);
    must(tensor_file_publish(&file, &error), &error);
    tensor_file_close(&file);
    claimed_system = 0;
    ck_assert_int_eq(count_entries(), 1);
}
END_TEST

START_TEST(a_second_job_is_refused) {
    Error error = {""};
    TensorFile first = open_tensor("c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){8});
    TensorFile second = open_tensor("c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){8});
    must(tensor_file_stage(&first, false, &error), &error);
    ck_assert(!tensor_file_stage(&second, false, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "another job is writing"));
    ck_assert_ptr_nonnull(strstr(error.text, "c.bin.phobos-lock"));
    ck_assert_int_eq(count_entries(), 2); /* the first one's files are still there */
    tensor_file_close(&first);
    TensorFile third = open_tensor("c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){8});
    must(tensor_file_stage(&third, false, &error), &error);
    tensor_file_close(&third);
    ck_assert_int_eq(count_entries(), 0);
}
END_TEST

/* ---- what goes wrong ---- */

START_TEST(changed_inputs_are_seen) {
    Error error = {""};
    for (int way = 0; way < 4; way++) {
        write_bytes("a.bin", "12345678", 8);
        TensorFile file = open_tensor("a.bin", PHB_READ, PHB_U8, 1, (int64_t[]){8});
        must(tensor_file_unchanged(&file, &error), &error);
        struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
        switch (way) {
        case 0:
            ck_assert_int_eq(truncate("a.bin", 7), 0);
            break;
        case 1:
            ck_assert_int_eq(unlink("a.bin"), 0);
            break;
        case 2:
            write_bytes("other", "12345678", 8);
            ck_assert_int_eq(rename("other", "a.bin"), 0);
            break;
        default:
            ck_assert_int_eq(utimensat(AT_FDCWD, "a.bin", later, 0), 0);
        }
        ck_assert(!tensor_file_unchanged(&file, &error));
        ck_assert_ptr_nonnull(strstr(error.text, "input changed"));
        tensor_file_close(&file);
    }
}
END_TEST

START_TEST(a_truncated_input_is_an_error_not_a_signal) {
    write_bytes("a.bin", "12345678", 8);
    TensorFile file = open_tensor("a.bin", PHB_READ, PHB_U8, 1, (int64_t[]){8});
    ck_assert_int_eq(truncate("a.bin", 3), 0);
    Region whole = tensor_file_whole(&file);
    char bytes[8];
    Error error;
    ck_assert(!tensor_file_read(&file, &whole, bytes, 8, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "input changed: it ends at byte 3"));
    tensor_file_close(&file);
}
END_TEST

START_TEST(a_file_size_limit_is_an_error_not_a_signal) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1 << 20;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    TensorFile file = open_tensor("c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){2 << 20});
    Error error;
    ck_assert(!tensor_file_stage(&file, false, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "cannot reserve 2097152 bytes"));
    ck_assert_int_eq(count_entries(), 0);
}
END_TEST

static bool mount_small(void) {
    ck_assert_int_eq(mkdir("small", 0777), 0);
    if (mount("none", "small", "tmpfs", 0, "size=1m") == 0)
        return true;
    fprintf(stderr, "skipped: mounting a small tmpfs: %s\n", strerror(errno));
    return false;
}

START_TEST(outputs_are_to_fit_together) {
    if (!mount_small())
        return;
    TensorFile files[3] = {
        open_tensor("small/a.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){600000}),
        open_tensor("b.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){600000}),
        open_tensor("small/c.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){600000}),
    };
    static const PhbTensor written[3] = {{.mode = PHB_WRITE}, {.mode = PHB_WRITE}, {.mode = PHB_WRITE}};
    static const PhbKernel kernel = {.tensors = written, .tensor_count = 3};
    Job job = {.kernel = &kernel, .tensors = files};
    Error error;
    bool staged = outputs_stage(&job, false, &error);
    for (int t = 0; t < 3; t++)
        tensor_file_close(&files[t]);
    int entries = chdir("small") == 0 ? count_entries() : -1;
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(umount2("small", MNT_DETACH), 0);
    ck_assert(!staged);
    ck_assert_ptr_nonnull(strstr(error.text, "small/c.bin\" with the outputs before it needs 1200000 bytes"));
    ck_assert_int_eq(entries, 0);
}
END_TEST

/* Somebody else fills the disk after it was found to have room. */
START_TEST(what_fills_up_meanwhile_is_said_plainly) {
    if (!mount_small())
        return;
    TensorFile file = open_tensor("small/a.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){900000});
    static const PhbTensor written = {.mode = PHB_WRITE};
    static const PhbKernel kernel = {.tensors = &written, .tensor_count = 1};
    Job job = {.kernel = &kernel, .tensors = &file};
    Error error = {""}, none;
    char *others = calloc(1, 500000);
    bool staged = outputs_stage(&job, false, &error);
    write_bytes("small/other", others, 500000);
    bool reserved = outputs_reserve(&job, &error);
    ck_assert_int_eq(unlink("small/other"), 0);
    bool reserved_later = outputs_reserve(&job, &none);
    struct stat status = {0};
    fstat(file.staging_fd, &status);
    tensor_file_close(&file);
    free(others);
    ck_assert_int_eq(umount2("small", MNT_DETACH), 0);
    ck_assert(staged);
    ck_assert(!reserved);
    ck_assert_ptr_nonnull(strstr(error.text, "disk full: "));
    ck_assert(reserved_later);
    ck_assert_int_ge(status.st_blocks * 512, 900000);
    ck_assert_int_eq(status.st_size, 900000);
}
END_TEST

START_TEST(a_full_disk_is_said_plainly) {
    if (!mount_small())
        return;
    write_bytes("small/old.bin", "old!", 4);
    TensorFile file = open_tensor("small/old.bin", PHB_WRITE, PHB_U8, 1, (int64_t[]){2 << 20});
    Error error;
    bool staged = tensor_file_stage(&file, false, &error);
    char bytes[16];
    size_t size = read_bytes("small/old.bin", bytes, sizeof bytes);
    int entries = chdir("small") == 0 ? count_entries() : -1;
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(umount2("small", MNT_DETACH), 0);
    ck_assert(!staged);
    ck_assert_ptr_nonnull(strstr(error.text, "disk full: "));
    ck_assert_ptr_nonnull(strstr(error.text, "needs 2097152 bytes"));
    ck_assert_int_eq(entries, 1);
    ck_assert_uint_eq(size, 4);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written_is_found_early) {
    if (geteuid() == 0) { /* to root every folder can be written: look from a process that is not */
        ck_assert_int_eq(chmod(".", 0755), 0);
        pid_t child = fork();
        if (child == 0) {
            TensorFile file;
            Error error;
            bool fine = setgid(65534) == 0 && setuid(65534) == 0 && tensor_file_open(&file, "c.bin", PHB_WRITE, &error) == FILE_FAILED &&
                        strstr(error.text, "cannot create files in") != NULL;
            _exit(fine ? 0 : 1);
        }
        int status;
        ck_assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    } else {
        TensorFile file;
        Error error;
        ck_assert_int_eq(chmod(".", 0555), 0);
        ck_assert_int_eq(tensor_file_open(&file, "c.bin", PHB_WRITE, &error), FILE_FAILED);
        ck_assert_int_eq(chmod(".", 0755), 0);
    }
}
END_TEST

START_TEST(names_that_leave_no_room_for_the_staging_file) {
    char name[NAME_MAX + 1];
    memset(name, 'x', NAME_MAX);
    name[NAME_MAX] = '\0';
    TensorFile file = open_tensor(name, PHB_WRITE, PHB_U8, 1, (int64_t[]){8});
    Error error;
    ck_assert(!tensor_file_stage(&file, false, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "File name too long"));
    ck_assert_int_eq(count_entries(), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tensor_file");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_loop_test(all, regions_without_padding, 0, sizeof regions / sizeof *regions);
    tcase_add_loop_test(all, regions_with_padding, 0, sizeof regions / sizeof *regions);
    tcase_add_test(all, no_old_file_reads_as_zero);
    tcase_add_test(all, a_new_npy_is_whole);
    tcase_add_test(all, an_old_npy_keeps_its_header);
    tcase_add_test(all, close_discards);
    tcase_add_test(all, staging_is_kept_on_request);
    tcase_add_test(all, the_target_of_a_link_is_replaced);
    tcase_add_test(all, what_is_larger_than_memory_passes);
    tcase_add_test(all, larger_than_memory_is_seen);
    tcase_add_loop_test(all, shared_file_systems_are_written_to_at_once, 0, sizeof systems / sizeof *systems);
    tcase_add_test(all, a_second_job_is_refused);
    tcase_add_test(all, changed_inputs_are_seen);
    tcase_add_test(all, a_truncated_input_is_an_error_not_a_signal);
    tcase_add_test(all, a_file_size_limit_is_an_error_not_a_signal);
    tcase_add_test(all, a_full_disk_is_said_plainly);
    tcase_add_test(all, outputs_are_to_fit_together);
    tcase_add_test(all, what_fills_up_meanwhile_is_said_plainly);
    tcase_add_test(all, a_folder_that_cannot_be_written_is_found_early);
    tcase_add_test(all, names_that_leave_no_room_for_the_staging_file);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

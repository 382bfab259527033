/* Any bytes as a .npy file: a header that describes a tensor, or one error. What is accepted comes back when it is written. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    NpyHeader header, again;
    Error error = {""};
    if (!npy_parse_header(data, size, "fuzz.npy", &header, &error)) {
        if (error.text[0] == '\0')
            abort();
        return 0;
    }
    if (header.rank < 1 || header.rank > PHB_MAX_RANK || header.data_offset > (int64_t)size || header.data_offset > NPY_MAX_HEADER)
        abort();
    char bytes[256];
    int length = npy_write_header(bytes, header.dtype >= 0 ? header.dtype : PHB_BF16, header.rank, header.shape);
    if (!npy_parse_header((const unsigned char *)bytes, (size_t)length, "again.npy", &again, &error) || again.dtype != header.dtype ||
        again.rank != header.rank || memcmp(again.shape, header.shape, (size_t)header.rank * sizeof *header.shape) != 0)
        abort();
    return 0;
}

/* The wire decoder on any bytes: it refuses them, or gives a message that encodes to the same bytes. The first byte says whether the checksum is to be made
 * right, so that what lies behind it is reached. */
#include "runtime/net/wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void seal(uint8_t *frame, size_t length) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, frame, 56);
    bool has_bulk = frame[6] == WIRE_CHUNK && length > WIRE_HEADER_BYTES + 32; /* which is not covered */
    XXH3_64bits_update(state, frame + WIRE_HEADER_BYTES, has_bulk ? 32 : length - WIRE_HEADER_BYTES);
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    for (int i = 0; i < 8; i++)
        frame[56 + i] = (uint8_t)(hash >> (8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static WireMessage message;
    if (size < 1)
        return 0;
    size_t length = size - 1;
    uint8_t *frame = malloc(length ? length : 1), *again = malloc(length ? length : 1);
    if (!frame || !again)
        abort();
    memcpy(frame, data + 1, length);
    if ((data[0] & 1) && length >= WIRE_HEADER_BYTES) {
        uint32_t payload = (uint32_t)(length - WIRE_HEADER_BYTES);
        for (int i = 0; i < 4; i++)
            frame[12 + i] = (uint8_t)(payload >> (8 * i));
        seal(frame, length);
    }
    const uint8_t *bulk;
    size_t bulk_length;
    if (wire_decode(frame, length, &message, &bulk, &bulk_length) == WIRE_OK) {
        if (wire_size(&message) + bulk_length != length || wire_encode(&message, bulk, bulk_length, again) != length ||
            memcmp(frame, again, length) != 0)
            abort();
    }
    free(frame);
    free(again);
    return 0;
}

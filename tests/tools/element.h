/* Elements of tensors as tests see them: numbers in double precision, and bytes in a file. Every type but i64 and u64 fits a double exactly. */
#ifndef PHOBOS_TESTS_ELEMENT_H
#define PHOBOS_TESTS_ELEMENT_H

#include <stddef.h>
#include <stdint.h>

/* Enumerator, the language's spelling, bytes, what a .npy header says, bits of a float's significand with the hidden one, exponent of its least bit.
 */
#define ELEMENT_TYPES(X)                                                                                                                             \
    X(F16, "f16", 2, "<f2", 11, -24)                                                                                                                 \
    X(BF16, "bf16", 2, "V2", 8, -133)                                                                                                                \
    X(F32, "f32", 4, "<f4", 24, -149)                                                                                                                \
    X(F64, "f64", 8, "<f8", 53, -1074)                                                                                                               \
    X(I8, "i8", 1, "|i1", 0, 0)                                                                                                                      \
    X(U8, "u8", 1, "|u1", 0, 0)                                                                                                                      \
    X(I16, "i16", 2, "<i2", 0, 0)                                                                                                                    \
    X(U16, "u16", 2, "<u2", 0, 0)                                                                                                                    \
    X(I32, "i32", 4, "<i4", 0, 0)                                                                                                                    \
    X(U32, "u32", 4, "<u4", 0, 0)                                                                                                                    \
    X(I64, "i64", 8, "<i8", 0, 0)                                                                                                                    \
    X(U64, "u64", 8, "<u8", 0, 0)                                                                                                                    \
    X(BOOL, "bool", 1, "|b1", 0, 0)

typedef enum ElementType {
#define X(id, ...) ELEMENT_##id,
    ELEMENT_TYPES(X)
#undef X
        ELEMENT_TYPE_COUNT
} ElementType;

typedef struct ElementInfo {
    const char *name;
    size_t size; /* bytes */
    const char *npy;
    int significand, least; /* of floats: see above; 0 of others */
} ElementInfo;

extern const ElementInfo element_types[ELEMENT_TYPE_COUNT];

double element_get(ElementType type, const void *bytes);

/* Floats are rounded to nearest even, NaN becomes the type's usual one; an int type has to hold the value. */
void element_set(ElementType type, void *bytes, double value);

#endif

/* Element types and types. */
#include "compiler/base/base.h"

#include <string.h>

static const struct {
    const char *name;
    int bytes;
} dtypes[PHB_DTYPE_COUNT] = {
#define X(id, text, size, npy) {text, size},
    PHB_DTYPES(X)
#undef X
};

bool dtype_is_float(PhbDType dtype) {
    return dtype == PHB_F16 || dtype == PHB_BF16 || dtype == PHB_F32 || dtype == PHB_F64;
}

bool dtype_is_int(PhbDType dtype) {
    return !dtype_is_float(dtype) && dtype != PHB_BOOL;
}

bool dtype_is_signed(PhbDType dtype) {
    return dtype_is_float(dtype) || dtype == PHB_I8 || dtype == PHB_I16 || dtype == PHB_I32 || dtype == PHB_I64;
}

int dtype_bits(PhbDType dtype) {
    return dtypes[dtype].bytes * 8;
}

const char *dtype_name(PhbDType dtype) {
    return dtypes[dtype].name;
}

bool dtype_find(const char *name, PhbDType *dtype) {
    for (int i = 0; i < PHB_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = (PhbDType)i;
            return true;
        }
    }
    return false;
}

struct TypePool {
    Arena *arena;
    Type poison, nothing;
    Type scalars[PHB_DTYPE_COUNT];
    VEC(const Layout *) layouts; /* interned */
    const Type **slots; /* shaped types; open addressing, at most half full */
    size_t capacity, count;
};

TypePool *type_pool_new(Arena *arena) {
    TypePool *pool = NEW(arena, TypePool);
    pool->arena = arena;
    pool->poison.kind = TYPE_POISON;
    pool->nothing.kind = TYPE_VOID;
    for (int i = 0; i < PHB_DTYPE_COUNT; i++)
        pool->scalars[i] = (Type){.kind = TYPE_SCALAR, .scalar = (PhbDType)i};
    pool->capacity = 64;
    pool->slots = NEW_ARRAY(arena, const Type *, pool->capacity);
    return pool;
}

const Type *type_poison(TypePool *pool) {
    return &pool->poison;
}

const Type *type_void(TypePool *pool) {
    return &pool->nothing;
}

const Type *type_scalar(TypePool *pool, PhbDType scalar) {
    return &pool->scalars[scalar];
}

static size_t type_hash(const Type *type) {
    uint64_t hash = (uint64_t)type->kind * 64 + (uint64_t)type->scalar * 4 + (uint64_t)type->rank;
    for (int i = 0; i < type->rank; i++)
        hash = ((hash ^ (uintptr_t)type->dims[i]) * UINT64_C(0x9e3779b97f4a7c15)) >> 3;
    hash = ((hash ^ (uintptr_t)type->layout) * UINT64_C(0x9e3779b97f4a7c15)) >> 3;
    return (size_t)hash;
}

static bool same_type(const Type *a, const Type *b) {
    if (a->kind != b->kind || a->scalar != b->scalar || a->rank != b->rank || a->layout != b->layout)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

static const Type **find_slot(const Type **slots, size_t capacity, const Type *type) {
    size_t at = type_hash(type) & (capacity - 1);
    while (slots[at] && !same_type(slots[at], type))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static void pool_grow(TypePool *pool) {
    size_t capacity = pool->capacity * 2;
    const Type **slots = NEW_ARRAY(pool->arena, const Type *, capacity);
    for (size_t i = 0; i < pool->capacity; i++)
        if (pool->slots[i])
            *find_slot(slots, capacity, pool->slots[i]) = pool->slots[i];
    pool->slots = slots;
    pool->capacity = capacity;
}

static const Type *intern_type(TypePool *pool, const Type *type) {
    const Type **slot = find_slot(pool->slots, pool->capacity, type);
    if (*slot)
        return *slot;
    Type *copy = NEW(pool->arena, Type);
    *copy = *type;
    *slot = copy;
    if (++pool->count * 2 > pool->capacity)
        pool_grow(pool);
    return copy;
}

const Type *type_shaped(TypePool *pool, TypeKind kind, PhbDType scalar, int rank, const Dim *const *dims) {
    Type type = {.kind = kind, .scalar = scalar, .rank = rank};
    for (int i = 0; i < rank; i++)
        type.dims[i] = dims[i];
    return intern_type(pool, &type);
}

static const Layout *intern_layout(TypePool *pool, const Layout *layout) {
    for (int i = 0; i < pool->layouts.count; i++)
        if (layout_same(pool->layouts.items[i], layout))
            return pool->layouts.items[i];
    Layout *copy = NEW(pool->arena, Layout);
    *copy = *layout;
    vec_push(pool->arena, &pool->layouts, copy);
    return copy;
}

const Type *type_laid_out(TypePool *pool, const Type *tile, const Layout *layout) {
    Type type = *tile;
    type.layout = layout ? intern_layout(pool, layout) : NULL;
    return intern_type(pool, &type);
}

void type_print(Buffer *buffer, const Type *type) {
    static const char *const words[] = {
        [TYPE_POISON] = "<error>", [TYPE_VOID] = "void", [TYPE_TENSOR] = "tensor", [TYPE_TILE] = "tile", [TYPE_SHARED] = "shared"};
    if (type->kind == TYPE_SCALAR) {
        buffer_puts(buffer, dtype_name(type->scalar));
        return;
    }
    buffer_puts(buffer, words[type->kind]);
    if (type->rank == 0)
        return;
    buffer_printf(buffer, "<%s>[", dtype_name(type->scalar));
    for (int i = 0; i < type->rank; i++) {
        if (i > 0)
            buffer_puts(buffer, ", ");
        dim_print(buffer, type->dims[i]);
    }
    buffer_puts(buffer, "]");
    if (type->layout)
        layout_print(buffer, type->layout);
}

/* Dim expressions in a normal form. A sum is a chain of ADD and SUB to the left whose right operands are terms: positive terms first, each group in
 * one fixed order, the constant last (first where no term is positive). A term is a chain of MUL to the left over atoms in that order, its factor
 * last when it is not 1. Atoms are names, extents, and every other operation over operands in normal form. The order looks at spelling and structure
 * alone, never at addresses, so that a dim prints the same however it came about. */
#include "compiler/base/base.h"

#include <inttypes.h>
#include <string.h>

/* No program comes near these; they keep every walk over a dim short and its recursion shallow. */
enum { MAX_TERMS = 64, MAX_DEGREE = 32, MAX_NODES = 1000, MAX_NESTING = 64 };

typedef struct Node {
    Dim dim;
    uint64_t hash;
    int size;    /* nodes of the tree */
    int nesting; /* levels of the tree, where a chain of sums or products is one */
} Node;

struct DimPool {
    Arena *arena;
    Node **slots; /* open addressing; at most half full */
    size_t capacity, count;
};

DimPool *dim_pool_new(Arena *arena) {
    DimPool *pool = NEW(arena, DimPool);
    pool->arena = arena;
    pool->capacity = 256;
    pool->slots = NEW_ARRAY(arena, Node *, pool->capacity);
    return pool;
}

/* ---- interning ---- */

static uint64_t hash_step(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static uint64_t dim_hash(const Dim *dim) {
    uint64_t hash = hash_step((uint64_t)dim->kind, (uint64_t)dim->value);
    hash = hash_step(hash, (uintptr_t)dim->name);
    hash = hash_step(hash, (uintptr_t)dim->a);
    return hash_step(hash, (uintptr_t)dim->b);
}

static bool same_fields(const Dim *a, const Dim *b) {
    return a->kind == b->kind && a->value == b->value && a->name == b->name && a->a == b->a && a->b == b->b;
}

static Node **find_slot(Node **slots, size_t capacity, const Dim *dim, uint64_t hash) {
    size_t at = (size_t)hash & (capacity - 1);
    while (slots[at] && !(slots[at]->hash == hash && same_fields(&slots[at]->dim, dim)))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static void pool_grow(DimPool *pool) {
    size_t capacity = pool->capacity * 2;
    Node **slots = NEW_ARRAY(pool->arena, Node *, capacity);
    for (size_t i = 0; i < pool->capacity; i++)
        if (pool->slots[i])
            *find_slot(slots, capacity, &pool->slots[i]->dim, pool->slots[i]->hash) = pool->slots[i];
    pool->slots = slots;
    pool->capacity = capacity;
}

static bool is_chain(PhbExprOp kind) {
    return kind == PHB_EXPR_ADD || kind == PHB_EXPR_SUB || kind == PHB_EXPR_MUL;
}

/* NULL where the tree would pass MAX_NODES or MAX_NESTING. */
static const Dim *intern_node(DimPool *pool, Dim fields) {
    const Node *a = (const Node *)fields.a, *b = (const Node *)fields.b; /* every Dim is the first member of a Node */
    int size = 1 + (a ? a->size : 0) + (b ? b->size : 0);
    int left = !a ? 0 : a->nesting + !is_chain(fields.kind), right = b ? b->nesting + 1 : 0;
    int nesting = left > right ? left : right;
    if (size > MAX_NODES || nesting > MAX_NESTING)
        return NULL;
    uint64_t hash = dim_hash(&fields);
    Node **slot = find_slot(pool->slots, pool->capacity, &fields, hash);
    if (*slot)
        return &(*slot)->dim;
    Node *node = NEW(pool->arena, Node);
    *node = (Node){fields, hash, size, nesting};
    *slot = node;
    if (++pool->count * 2 > pool->capacity)
        pool_grow(pool);
    return &node->dim;
}

static const Dim *make(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b) {
    return a && (b || kind == PHB_EXPR_NOT) ? intern_node(pool, (Dim){.kind = kind, .a = a, .b = b}) : NULL;
}

const Dim *dim_int(DimPool *pool, int64_t value) {
    return intern_node(pool, (Dim){.kind = PHB_EXPR_INT, .value = value});
}

const Dim *dim_name(DimPool *pool, const char *interned_name) {
    return intern_node(pool, (Dim){.kind = PHB_EXPR_DIM, .name = interned_name});
}

const Dim *dim_extent(DimPool *pool, const char *interned_tensor, int axis) {
    return intern_node(pool, (Dim){.kind = PHB_EXPR_EXTENT, .value = axis, .name = interned_tensor});
}

bool dim_is_int(const Dim *dim, int64_t *value) {
    if (dim->kind != PHB_EXPR_INT)
        return false;
    *value = dim->value;
    return true;
}

/* ---- the fixed order ---- */

static int compare(const Dim *a, const Dim *b) {
    if (a == b)
        return 0;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->name != b->name)
        return strcmp(a->name, b->name);
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    int order = compare(a->a, b->a);
    return order || !a->b ? order : compare(a->b, b->b);
}

static int degree(const Dim *product) {
    int count = 1;
    for (; product->kind == PHB_EXPR_MUL; product = product->a)
        count++;
    return count;
}

/* ---- polynomials ---- */

/* `factor` times a product of atoms in order; NULL is the empty product. */
typedef struct Term {
    const Dim *product;
    int64_t factor;
} Term;

typedef struct Poly {
    int count; /* terms in order, none with factor 0 */
    Term terms[MAX_TERMS];
} Poly;

/* Higher degrees first, the constant last. */
static int compare_products(const Dim *a, const Dim *b) {
    if (!a || !b)
        return !a - !b;
    int degree_a = degree(a), degree_b = degree(b);
    return degree_a != degree_b ? degree_b - degree_a : compare(a, b);
}

static bool poly_add(Poly *poly, const Dim *product, int64_t factor) {
    int at = 0;
    while (at < poly->count && compare_products(poly->terms[at].product, product) < 0)
        at++;
    if (at < poly->count && poly->terms[at].product == product) {
        if (__builtin_add_overflow(poly->terms[at].factor, factor, &factor))
            return false;
        poly->terms[at].factor = factor;
        if (factor == 0) {
            poly->count--;
            memmove(&poly->terms[at], &poly->terms[at + 1], sizeof(Term) * (size_t)(poly->count - at));
        }
        return true;
    }
    if (factor == 0)
        return true;
    if (poly->count == MAX_TERMS)
        return false;
    memmove(&poly->terms[at + 1], &poly->terms[at], sizeof(Term) * (size_t)(poly->count - at));
    poly->terms[at] = (Term){product, factor};
    poly->count++;
    return true;
}

static Term term_of(const Dim *dim) {
    if (dim->kind == PHB_EXPR_INT)
        return (Term){NULL, dim->value};
    if (dim->kind == PHB_EXPR_MUL && dim->b->kind == PHB_EXPR_INT)
        return (Term){dim->a, dim->b->value};
    return (Term){dim, 1};
}

static bool poly_add_scaled(Poly *poly, const Dim *sum, int64_t scale) {
    for (bool last = false; !last;) {
        last = sum->kind != PHB_EXPR_ADD && sum->kind != PHB_EXPR_SUB;
        Term term = term_of(last ? sum : sum->b);
        if (__builtin_mul_overflow(term.factor, scale, &term.factor))
            return false;
        if (sum->kind == PHB_EXPR_SUB && __builtin_sub_overflow(0, term.factor, &term.factor))
            return false;
        if (!poly_add(poly, term.product, term.factor))
            return false;
        sum = sum->a;
    }
    return true;
}

static int list_atoms(const Dim *product, const Dim *atoms[MAX_DEGREE], int count) {
    for (; product; product = product->kind == PHB_EXPR_MUL ? product->a : NULL) {
        if (count == MAX_DEGREE)
            return MAX_DEGREE + 1;
        const Dim *atom = product->kind == PHB_EXPR_MUL ? product->b : product;
        int at = count++;
        for (; at > 0 && compare(atoms[at - 1], atom) > 0; at--)
            atoms[at] = atoms[at - 1];
        atoms[at] = atom;
    }
    return count;
}

/* *product is NULL for the empty one. */
static bool multiply_products(DimPool *pool, const Dim *a, const Dim *b, const Dim **product) {
    const Dim *atoms[MAX_DEGREE];
    int count = list_atoms(a, atoms, 0);
    count = count > MAX_DEGREE ? count : list_atoms(b, atoms, count);
    if (count > MAX_DEGREE)
        return false;
    *product = count ? atoms[0] : NULL;
    for (int i = 1; i < count; i++)
        if (!(*product = make(pool, PHB_EXPR_MUL, *product, atoms[i])))
            return false;
    return true;
}

static bool poly_multiply(DimPool *pool, const Poly *a, const Poly *b, Poly *result) {
    for (int i = 0; i < a->count; i++) {
        for (int j = 0; j < b->count; j++) {
            const Dim *product;
            int64_t factor;
            if (__builtin_mul_overflow(a->terms[i].factor, b->terms[j].factor, &factor))
                return false;
            if (!multiply_products(pool, a->terms[i].product, b->terms[j].product, &product) || !poly_add(result, product, factor))
                return false;
        }
    }
    return true;
}

static const Dim *term_dim(DimPool *pool, const Dim *product, int64_t factor) {
    if (!product)
        return dim_int(pool, factor);
    return factor == 1 ? product : make(pool, PHB_EXPR_MUL, product, dim_int(pool, factor));
}

/* Appends a term to the sum so far, which is NULL at the start. */
static const Dim *sum_append(DimPool *pool, const Dim *sum, const Term *term) {
    if (!sum)
        return term_dim(pool, term->product, term->factor);
    bool subtract = term->factor < 0 && term->factor != INT64_MIN;
    const Dim *right = term_dim(pool, term->product, subtract ? -term->factor : term->factor);
    return make(pool, subtract ? PHB_EXPR_SUB : PHB_EXPR_ADD, sum, right);
}

static const Dim *poly_dim(DimPool *pool, const Poly *poly) {
    if (poly->count == 0)
        return dim_int(pool, 0);
    bool is_constant_last = poly->terms[poly->count - 1].product == NULL;
    int products = poly->count - is_constant_last;
    const Term *constant = is_constant_last ? &poly->terms[products] : NULL;
    const Dim *sum = NULL;
    for (int i = 0; i < products; i++)
        if (poly->terms[i].factor > 0 && !(sum = sum_append(pool, sum, &poly->terms[i])))
            return NULL;
    if (constant && !sum) {
        sum = sum_append(pool, NULL, constant);
        constant = NULL;
    }
    for (int i = 0; i < products; i++)
        if (poly->terms[i].factor < 0 && !(sum = sum_append(pool, sum, &poly->terms[i])))
            return NULL;
    return constant ? sum_append(pool, sum, constant) : sum;
}

static const Dim *arithmetic(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b) {
    Poly result = {0};
    if (kind != PHB_EXPR_MUL) {
        bool fits = poly_add_scaled(&result, a, 1) && poly_add_scaled(&result, b, kind == PHB_EXPR_ADD ? 1 : -1);
        return fits ? poly_dim(pool, &result) : NULL;
    }
    Poly left = {0}, right = {0};
    if (!poly_add_scaled(&left, a, 1) || !poly_add_scaled(&right, b, 1) || !poly_multiply(pool, &left, &right, &result))
        return NULL;
    return poly_dim(pool, &result);
}

/* ---- the other operations ---- */

static bool divide(PhbExprOp kind, int64_t a, int64_t b, int64_t *value) {
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    int64_t quotient = a / b, rest = a % b;
    if (kind == PHB_EXPR_MOD)
        *value = rest;
    else if (kind == PHB_EXPR_CEILDIV && rest != 0 && (rest < 0) == (b < 0))
        *value = quotient + 1;
    else
        *value = quotient;
    return true;
}

static const Dim *division(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b) {
    int64_t x, y;
    if (dim_is_int(b, &y)) {
        if (y == 0)
            return NULL;
        if (y == 1)
            return kind == PHB_EXPR_MOD ? dim_int(pool, 0) : a;
        if (dim_is_int(a, &x))
            return divide(kind, x, y, &x) ? dim_int(pool, x) : NULL;
    }
    return make(pool, kind, a, b);
}

/* MIN, MAX and comparisons are decided where the operands differ by a constant. */
static const Dim *comparison(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b) {
    int64_t difference;
    const Dim *rest = arithmetic(pool, PHB_EXPR_SUB, a, b);
    bool known = rest && dim_is_int(rest, &difference);
    if (!known && a->kind == PHB_EXPR_INT && b->kind == PHB_EXPR_INT) { /* a difference beyond 64 bits */
        known = true;
        difference = a->value < b->value ? -1 : 1;
    }
    if (known) {
        switch (kind) {
        case PHB_EXPR_MIN:
            return difference <= 0 ? a : b;
        case PHB_EXPR_MAX:
            return difference >= 0 ? a : b;
        case PHB_EXPR_EQ:
            return dim_int(pool, difference == 0);
        case PHB_EXPR_NE:
            return dim_int(pool, difference != 0);
        case PHB_EXPR_LT:
            return dim_int(pool, difference < 0);
        default:
            return dim_int(pool, difference <= 0);
        }
    }
    bool commutes = kind != PHB_EXPR_LT && kind != PHB_EXPR_LE;
    bool swap = a->kind == PHB_EXPR_INT || (b->kind != PHB_EXPR_INT && compare(a, b) > 0); /* a constant stands on the right */
    return commutes && swap ? make(pool, kind, b, a) : make(pool, kind, a, b);
}

static bool is_truth(const Dim *dim) {
    return dim->kind >= PHB_EXPR_EQ || (dim->kind == PHB_EXPR_INT && (dim->value == 0 || dim->value == 1));
}

static const Dim *logic(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b) {
    int64_t x, decides = kind == PHB_EXPR_OR;
    if (dim_is_int(a, &x)) {
        if (kind == PHB_EXPR_NOT)
            return dim_int(pool, x == 0);
        if ((x != 0) == decides)
            return dim_int(pool, decides);
        if (is_truth(b))
            return b;
    } else if (kind != PHB_EXPR_NOT && dim_is_int(b, &x)) {
        if ((x != 0) == decides)
            return dim_int(pool, decides);
        if (is_truth(a))
            return a;
    }
    return make(pool, kind, a, kind == PHB_EXPR_NOT ? NULL : b);
}

const Dim *dim_op(DimPool *pool, PhbExprOp kind, const Dim *a, const Dim *b) {
    switch (kind) {
    case PHB_EXPR_ADD:
    case PHB_EXPR_SUB:
    case PHB_EXPR_MUL:
        return arithmetic(pool, kind, a, b);
    case PHB_EXPR_DIV:
    case PHB_EXPR_MOD:
    case PHB_EXPR_CEILDIV:
        return division(pool, kind, a, b);
    case PHB_EXPR_MIN:
    case PHB_EXPR_MAX:
    case PHB_EXPR_EQ:
    case PHB_EXPR_NE:
    case PHB_EXPR_LT:
    case PHB_EXPR_LE:
        return comparison(pool, kind, a, b);
    case PHB_EXPR_AND:
    case PHB_EXPR_OR:
    case PHB_EXPR_NOT:
        return logic(pool, kind, a, b);
    case PHB_EXPR_INT:
    case PHB_EXPR_DIM:
    case PHB_EXPR_EXTENT:
    case PHB_EXPR_OP_COUNT:
        break;
    }
    return NULL;
}

/* ---- walks ---- */

bool dim_mentions(const Dim *dim, const char *interned_name) {
    if (dim->kind == PHB_EXPR_DIM)
        return dim->name == interned_name;
    return (dim->a && dim_mentions(dim->a, interned_name)) || (dim->b && dim_mentions(dim->b, interned_name));
}

const Dim *dim_substitute(DimPool *pool, const Dim *dim, DimLookup *lookup, void *context) {
    if (dim->kind == PHB_EXPR_DIM) {
        const Dim *value = lookup(context, dim->name);
        return value ? value : dim;
    }
    if (!dim->a)
        return dim;
    const Dim *a = dim_substitute(pool, dim->a, lookup, context);
    const Dim *b = dim->b ? dim_substitute(pool, dim->b, lookup, context) : NULL;
    if (!a || (dim->b && !b))
        return NULL;
    return a == dim->a && b == dim->b ? dim : dim_op(pool, dim->kind, a, b);
}

/* ---- printing ---- */

static const char *const expr_text[] = {
#define X(id, text, arity) text,
    PHB_EXPR_OPS(X)
#undef X
};

enum { PRECEDENCE_UNARY = 11, PRECEDENCE_PRIMARY };

/* Of the language's grammar; what is written as a call is primary. */
static int precedence(const Dim *dim) {
    switch (dim->kind) {
    case PHB_EXPR_OR:
        return 1;
    case PHB_EXPR_AND:
        return 2;
    case PHB_EXPR_EQ:
    case PHB_EXPR_NE:
        return 6;
    case PHB_EXPR_LT:
    case PHB_EXPR_LE:
        return 7;
    case PHB_EXPR_ADD:
    case PHB_EXPR_SUB:
        return 9;
    case PHB_EXPR_MUL:
    case PHB_EXPR_DIV:
    case PHB_EXPR_MOD:
        return 10;
    case PHB_EXPR_NOT:
        return PRECEDENCE_UNARY;
    default:
        return PRECEDENCE_PRIMARY;
    }
}

static void print(Buffer *buffer, const Dim *dim, int at_least) {
    int own = precedence(dim);
    if (own < at_least)
        buffer_puts(buffer, "(");
    switch (dim->kind) {
    case PHB_EXPR_INT:
        buffer_printf(buffer, "%" PRId64, dim->value);
        break;
    case PHB_EXPR_DIM:
        buffer_puts(buffer, dim->name);
        break;
    case PHB_EXPR_EXTENT:
        buffer_printf(buffer, "extent(%s, %" PRId64 ")", dim->name, dim->value);
        break;
    case PHB_EXPR_CEILDIV:
    case PHB_EXPR_MIN:
    case PHB_EXPR_MAX:
        buffer_printf(buffer, "%s(", expr_text[dim->kind]);
        print(buffer, dim->a, 0);
        buffer_puts(buffer, ", ");
        print(buffer, dim->b, 0);
        buffer_puts(buffer, ")");
        break;
    case PHB_EXPR_NOT:
        buffer_puts(buffer, "!");
        print(buffer, dim->a, own);
        break;
    default:
        print(buffer, dim->a, own);
        buffer_printf(buffer, " %s ", expr_text[dim->kind]);
        print(buffer, dim->b, own + 1);
    }
    if (own < at_least)
        buffer_puts(buffer, ")");
}

void dim_print(Buffer *buffer, const Dim *dim) {
    print(buffer, dim, 0);
}

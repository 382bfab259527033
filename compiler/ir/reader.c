/* Tokens, dims, types and declarations of the IR text. */
#include "compiler/ir/reader.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum { MAX_DEPTH = 200 };

void reader_fail(Reader *r, Span span, const char *format, ...) {
    if (r->failed)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    diag_error(r->context->diag, span, "%s", text);
    r->failed = true;
    r->token.kind = IR_TOKEN_END;
}

/* ---- tokens ---- */

void reader_advance(Reader *r) {
    if (!r->failed)
        r->token = ir_lex(&r->lexer);
    if (r->token.kind == IR_TOKEN_ERROR)
        reader_fail(r, r->token.span, "%s", r->token.error);
}

bool reader_at(const Reader *r, const char *text) {
    return (r->token.kind == IR_TOKEN_SYMBOL || r->token.kind == IR_TOKEN_WORD) && strlen(text) == r->token.length &&
           memcmp(text, r->token.text, r->token.length) == 0;
}

bool reader_accept(Reader *r, const char *text) {
    bool found = reader_at(r, text);
    if (found)
        reader_advance(r);
    return found;
}

void reader_fail_expected(Reader *r, const char *expected) {
    if (r->token.kind == IR_TOKEN_END)
        reader_fail(r, r->token.span, "expected %s, found the end of the file", expected);
    else if (r->token.kind == IR_TOKEN_NEWLINE)
        reader_fail(r, r->token.span, "expected %s, found the end of the line", expected);
    else
        reader_fail(r, r->token.span, "expected %s, found '%.*s'", expected, r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
}

void reader_expect(Reader *r, const char *text) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", text);
    if (!reader_accept(r, text))
        reader_fail_expected(r, quoted);
}

void reader_expect_newline(Reader *r) {
    if (r->token.kind != IR_TOKEN_NEWLINE)
        reader_fail_expected(r, "the end of the line");
    while (r->token.kind == IR_TOKEN_NEWLINE)
        reader_advance(r);
}

const char *reader_take_name(Reader *r, const char *expected) {
    const char *name = "";
    if (r->token.kind != IR_TOKEN_WORD || memchr(r->token.text, '.', r->token.length))
        reader_fail_expected(r, expected);
    else
        name = intern(r->context->interner, r->token.text, r->token.length);
    reader_advance(r);
    return name;
}

uint64_t reader_take_number(Reader *r, uint64_t limit) {
    bool is_int = r->token.kind == IR_TOKEN_INT;
    uint64_t value = is_int ? r->token.value : 0;
    if (!is_int)
        reader_fail_expected(r, "an integer");
    else if (value > limit)
        reader_fail(r, r->token.span, "the number is greater than %" PRIu64, limit);
    reader_advance(r);
    return value < limit ? value : limit;
}

const char *reader_take_string(Reader *r) {
    const char *text = "";
    if (r->token.kind != IR_TOKEN_STRING)
        reader_fail_expected(r, "a string");
    else
        text = ir_token_string(r->context->arena, &r->token);
    reader_advance(r);
    return text;
}

static int64_t take_signed(Reader *r) {
    bool negative = reader_accept(r, "-");
    uint64_t magnitude = reader_take_number(r, (uint64_t)INT64_MAX + negative);
    return (int64_t)(negative ? 0 - magnitude : magnitude);
}

Span reader_take_span(Reader *r) {
    Span span = {0};
    if (reader_accept(r, "!")) {
        span.line = (uint32_t)reader_take_number(r, UINT32_MAX);
        reader_expect(r, ":");
        span.column = (uint32_t)reader_take_number(r, UINT32_MAX);
        reader_expect(r, "+");
        span.length = (uint32_t)reader_take_number(r, UINT32_MAX);
    }
    return span;
}

/* 'x', 'y' or 'z' as 0 to 2. */
static int take_grid_axis(Reader *r) {
    for (int axis = 0; axis < 3; axis++)
        if (reader_accept(r, (const char[]){"xyz"[axis], '\0'}))
            return axis;
    reader_fail_expected(r, "'x', 'y' or 'z'");
    return 0;
}

/* ---- dims ---- */

/* Binary operators of the dim grammar with their precedence in the language. */
static const struct {
    PhbExprOp op;
    const char *text;
    int precedence;
} dim_operators[] = {
    {PHB_EXPR_OR, "||", 1},
    {PHB_EXPR_AND, "&&", 2},
    {PHB_EXPR_EQ, "==", 6},
    {PHB_EXPR_NE, "!=", 6},
    {PHB_EXPR_LT, "<", 7},
    {PHB_EXPR_LE, "<=", 7},
    {PHB_EXPR_ADD, "+", 9},
    {PHB_EXPR_SUB, "-", 9},
    {PHB_EXPR_MUL, "*", 10},
    {PHB_EXPR_DIV, "/", 10},
    {PHB_EXPR_MOD, "%", 10},
};

static const Dim *make_dim(Reader *r, Span span, PhbExprOp op, const Dim *a, const Dim *b) {
    const Dim *dim = r->failed ? NULL : dim_op(r->context->dims, op, a, b);
    if (!dim)
        reader_fail(r, span, "the expression overflows, divides by zero or is too large");
    return dim ? dim : dim_int(r->context->dims, 1);
}

/* The name is taken, '(' is next. */
static const Dim *read_dim_call(Reader *r, Span span, const char *name) {
    static const struct {
        PhbExprOp op;
        const char *text;
    } calls[] = {{PHB_EXPR_CEILDIV, "ceildiv"}, {PHB_EXPR_MIN, "min"}, {PHB_EXPR_MAX, "max"}};
    reader_expect(r, "(");
    const Dim *result = dim_int(r->context->dims, 1);
    if (strcmp(name, "extent") == 0) {
        const char *tensor = reader_take_name(r, "the name of a tensor");
        reader_expect(r, ",");
        result = dim_extent(r->context->dims, tensor, (int)reader_take_number(r, PHB_MAX_RANK - 1));
        reader_expect(r, ")");
        return result;
    }
    const Dim *a = reader_dim(r, 0);
    reader_expect(r, ",");
    const Dim *b = reader_dim(r, 0);
    reader_expect(r, ")");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(name, calls[i].text) == 0)
            return make_dim(r, span, calls[i].op, a, b);
    reader_fail(r, span, "'%.60s' is no function of dims", name);
    return result;
}

static const Dim *read_dim_primary(Reader *r) {
    Span span = r->token.span;
    if (r->token.kind == IR_TOKEN_INT || reader_at(r, "-"))
        return dim_int(r->context->dims, take_signed(r));
    if (reader_accept(r, "!"))
        return make_dim(r, span, PHB_EXPR_NOT, reader_dim(r, INT_MAX), NULL);
    if (reader_accept(r, "(")) {
        const Dim *dim = reader_dim(r, 0);
        reader_expect(r, ")");
        return dim;
    }
    const char *name = reader_take_name(r, "a dim expression");
    return reader_at(r, "(") ? read_dim_call(r, span, name) : dim_name(r->context->dims, name);
}

const Dim *reader_dim(Reader *r, int at_least) {
    if (++r->depth > MAX_DEPTH)
        reader_fail(r, r->token.span, "nesting deeper than %d", MAX_DEPTH);
    const Dim *dim = read_dim_primary(r);
    for (bool more = true; more && !r->failed;) {
        more = false;
        for (size_t i = 0; i < sizeof dim_operators / sizeof *dim_operators && !more; i++) {
            int precedence = dim_operators[i].precedence;
            Span span = r->token.span;
            if (precedence < at_least || !reader_accept(r, dim_operators[i].text))
                continue;
            dim = make_dim(r, span, dim_operators[i].op, dim, reader_dim(r, precedence + 1));
            more = true;
        }
    }
    r->depth--;
    return dim;
}

/* ---- types ---- */

static PhbDType take_dtype(Reader *r) {
    PhbDType dtype = PHB_F32;
    Span span = r->token.span;
    const char *name = reader_take_name(r, "a type");
    if (!r->failed && !dtype_find(name, &dtype))
        reader_fail(r, span, "'%.60s' is no element type", name);
    return dtype;
}

/* `r4`, `c16`, `r4+c16` or `0`. */
static LayoutBasis read_basis(Reader *r) {
    LayoutBasis basis = {{0, 0}};
    if (r->token.kind == IR_TOKEN_INT) {
        reader_take_number(r, 0);
        return basis;
    }
    do {
        const char *word = reader_take_name(r, "a basis");
        int axis = *word == 'c', at = 0;
        for (const char *digit = *word ? word + 1 : word; *digit >= '0' && *digit <= '9' && at < 1 << 24; digit++)
            at = at * 10 + (*digit - '0');
        char spelt[16];
        snprintf(spelt, sizeof spelt, "%c%d", "rc"[axis], at);
        if (!r->failed && (strcmp(spelt, word) != 0 || !at || basis.at[axis]))
            reader_fail(r, r->token.span, "'%.20s' is no basis of a layout", word);
        basis.at[axis] = at;
    } while (reader_accept(r, "+"));
    return basis;
}

static const Layout *read_layout(Reader *r) {
    Layout *layout = NEW(r->context->arena, Layout);
    int bit = 0, first = 0, counts[3];
    reader_expect(r, "<");
    for (int group = 0; group < 3; group++) {
        for (first = bit; !r->failed && !reader_at(r, group < 2 ? "," : ">"); bit++) {
            if (bit - first == (group == 0 ? LAYOUT_REGISTERS : group == 1 ? LAYOUT_LANES : LAYOUT_WARPS))
                reader_fail(r, r->token.span, "the layout has too many bits");
            else
                layout->bases[bit] = read_basis(r);
        }
        counts[group] = bit - first;
        reader_expect(r, group < 2 ? "," : ">");
    }
    if (counts[1] != LAYOUT_LANES)
        reader_fail(r, r->token.span, "a warp has %d bits of lanes, the layout %d", LAYOUT_LANES, counts[1]);
    layout->registers = counts[0];
    layout->warps = counts[2];
    return layout;
}

const Type *reader_type(Reader *r) {
    TypeKind kind = TYPE_SCALAR;
    if (reader_accept(r, "tensor"))
        kind = TYPE_TENSOR;
    else if (reader_accept(r, "tile"))
        kind = TYPE_TILE;
    else if (reader_accept(r, "shared"))
        kind = TYPE_SHARED;
    if (kind == TYPE_SCALAR)
        return type_scalar(r->context->types, take_dtype(r));
    reader_expect(r, "<");
    PhbDType dtype = take_dtype(r);
    reader_expect(r, ">");
    reader_expect(r, "[");
    const Dim *dims[PHB_MAX_RANK];
    int rank = 0;
    do {
        if (rank == PHB_MAX_RANK)
            reader_fail(r, r->token.span, "more than %d axes", PHB_MAX_RANK);
        else
            dims[rank++] = reader_dim(r, 0);
    } while (reader_accept(r, ","));
    reader_expect(r, "]");
    const Type *type = type_shaped(r->context->types, kind, dtype, rank, dims);
    return reader_at(r, "<") ? type_laid_out(r->context->types, type, read_layout(r)) : type;
}

/* ---- declarations ---- */

static void read_search(Reader *r) {
    Arena *arena = r->context->arena;
    SearchDim search = {.name = reader_take_name(r, "the name of a search dim")};
    reader_expect(r, "leaf");
    reader_expect(r, "[");
    do
        vec_push(arena, &search.leaf, take_signed(r));
    while (reader_accept(r, ","));
    reader_expect(r, "]");
    if (reader_accept(r, "cluster")) {
        reader_expect(r, "[");
        do
            vec_push(arena, &search.cluster, take_signed(r));
        while (reader_accept(r, ","));
        reader_expect(r, "]");
    }
    search.span = reader_take_span(r);
    if (search.cluster.count > 0)
        search.cluster_span = reader_take_span(r);
    vec_push(arena, &r->kernel->signature.search, search);
}

static void read_grid(Reader *r) {
    GridAxis *grid = &r->kernel->signature.grid[take_grid_axis(r)];
    if (reader_accept(r, "stated")) {
        grid->stated = true;
        return;
    }
    vec_push(r->context->arena, &grid->counts, reader_dim(r, 0));
    vec_push(r->context->arena, &grid->spans, reader_take_span(r));
}

static void read_cluster_dims(Reader *r) {
    Signature *signature = &r->kernel->signature;
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            reader_expect(r, ",");
        signature->cluster_dims[i] = reader_dim(r, 0);
    }
    signature->nonportable = reader_accept(r, "nonportable");
    signature->cluster_dims_span = reader_take_span(r);
}

static void read_tensorcore(Reader *r) {
    for (int i = TENSORCORE_NONE + 1; i < TENSORCORE_COUNT; i++)
        if (reader_accept(r, tensorcore_name((TensorcoreMode)i))) {
            r->kernel->signature.tensorcore = (TensorcoreMode)i;
            return;
        }
    reader_fail_expected(r, "a mode of tensor cores");
}

static void read_halo(Reader *r) {
    Span name_span = r->token.span;
    Halo halo = {.param = signature_param(&r->kernel->signature, reader_take_name(r, "the name of a tensor"))};
    int rank = halo.param < 0 ? 0 : r->kernel->signature.params.items[halo.param].type->rank;
    if (rank == 0)
        reader_fail(r, name_span, "a halo is of a tensor declared before it");
    reader_expect(r, "[");
    for (int k = 0; k < rank; k++) {
        if (k > 0)
            reader_expect(r, ",");
        halo.width[k] = reader_dim(r, 0);
    }
    reader_expect(r, "]");
    halo.span = reader_take_span(r);
    vec_push(r->context->arena, &r->kernel->signature.halo, halo);
}

void reader_declaration(Reader *r) {
    Arena *arena = r->context->arena;
    Signature *signature = &r->kernel->signature;
    if (reader_accept(r, "cluster")) {
        signature->has_cluster = true;
        signature->cluster_span = reader_take_span(r);
    } else if (reader_accept(r, "fastmath")) {
        signature->fastmath = true;
    } else if (reader_accept(r, "tensorcore")) {
        read_tensorcore(r);
    } else if (reader_accept(r, "pipeline")) {
        signature->pipeline = reader_dim(r, 0);
        signature->pipeline_span = reader_take_span(r);
    } else if (reader_accept(r, "launch")) {
        signature->launch_threads = take_signed(r);
        reader_expect(r, ",");
        signature->launch_min_blocks = take_signed(r);
        reader_expect(r, ",");
        signature->launch_max_regs = take_signed(r);
    } else if (reader_accept(r, "cluster_dims")) {
        read_cluster_dims(r);
    } else if (reader_accept(r, "threads")) {
        r->kernel->threads = (int)reader_take_number(r, 1024);
        reader_expect(r, ",");
        r->kernel->shared_bytes = (int64_t)reader_take_number(r, INT32_MAX);
    } else if (reader_accept(r, "dim")) {
        vec_push(arena, &signature->symbolic, reader_take_name(r, "the name of a dim"));
    } else if (reader_accept(r, "search")) {
        read_search(r);
    } else if (reader_accept(r, "param")) {
        if (signature->params.count == 2 * PHB_MAX_PARAMS)
            reader_fail(r, r->token.span, "more than %d parameters", 2 * PHB_MAX_PARAMS);
        Param param = {.name = reader_take_name(r, "the name of a parameter")};
        reader_expect(r, ":");
        param.type = reader_type(r);
        param.span = reader_take_span(r);
        vec_push(arena, &signature->params, param);
    } else if (reader_accept(r, "grid")) {
        read_grid(r);
    } else if (reader_accept(r, "aligned")) {
        Aligned aligned = {.dim = reader_take_name(r, "the name of a dim")};
        reader_expect(r, "=");
        aligned.tile = reader_dim(r, 0);
        aligned.span = reader_take_span(r);
        vec_push(arena, &signature->aligned, aligned);
    } else if (reader_accept(r, "halo")) {
        read_halo(r);
    } else if (reader_accept(r, "require")) {
        Require require = {.cond = reader_dim(r, 0)};
        require.span = reader_take_span(r);
        vec_push(arena, &signature->require, require);
    } else {
        reader_fail_expected(r, "a declaration or '{'");
    }
    reader_expect_newline(r);
}

/* Reads the text form that print.c describes. Strict: one declaration or op a line, nothing that the printer would not write but for spacing. The
 * first error ends the reading; the verifier has the last word on each kernel. */
#include "compiler/ir/ir.h"
#include "compiler/ir/lex.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_KERNELS = 4096 };

typedef struct Reader {
    Context *context;
    IrLexer lexer;
    IrToken token; /* the next one to be taken */
    int depth;     /* of the dim expression at hand */
    int region_depth;
    bool failed;
    IrKernel *kernel;
    VEC(IrValue *) values; /* of the kernel, by number */
    VEC(Span) op_spans;    /* in the IR text, in the order of the ops */
} Reader;

static void fail(Reader *r, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Reports the first error; from then on the input is at its end, so that every loop stops. */
static void fail(Reader *r, Span span, const char *format, ...) {
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

static void advance(Reader *r) {
    if (!r->failed)
        r->token = ir_lex(&r->lexer);
    if (r->token.kind == IR_TOKEN_ERROR)
        fail(r, r->token.span, "%s", r->token.error);
}

static bool at(const Reader *r, const char *text) {
    return (r->token.kind == IR_TOKEN_SYMBOL || r->token.kind == IR_TOKEN_WORD) && strlen(text) == r->token.length &&
           memcmp(text, r->token.text, r->token.length) == 0;
}

static bool accept(Reader *r, const char *text) {
    bool found = at(r, text);
    if (found)
        advance(r);
    return found;
}

static void fail_expected(Reader *r, const char *expected) {
    if (r->token.kind == IR_TOKEN_END)
        fail(r, r->token.span, "expected %s, found the end of the file", expected);
    else if (r->token.kind == IR_TOKEN_NEWLINE)
        fail(r, r->token.span, "expected %s, found the end of the line", expected);
    else
        fail(r, r->token.span, "expected %s, found '%.*s'", expected, r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
}

static void expect(Reader *r, const char *text) {
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", text);
    if (!accept(r, text))
        fail_expected(r, quoted);
}

static void expect_newline(Reader *r) {
    if (r->token.kind != IR_TOKEN_NEWLINE)
        fail_expected(r, "the end of the line");
    while (r->token.kind == IR_TOKEN_NEWLINE)
        advance(r);
}

static const char *take_name(Reader *r, const char *expected) {
    const char *name = "";
    if (r->token.kind != IR_TOKEN_WORD || memchr(r->token.text, '.', r->token.length))
        fail_expected(r, expected);
    else
        name = intern(r->context->interner, r->token.text, r->token.length);
    advance(r);
    return name;
}

static uint64_t take_number(Reader *r, uint64_t limit) {
    uint64_t value = 0;
    if (r->token.kind != IR_TOKEN_INT)
        fail_expected(r, "an integer");
    else if ((value = r->token.value) > limit)
        fail(r, r->token.span, "the number is greater than %" PRIu64, limit);
    advance(r);
    return value;
}

static int64_t take_signed(Reader *r) {
    bool negative = accept(r, "-");
    uint64_t magnitude = take_number(r, (uint64_t)INT64_MAX + negative);
    return (int64_t)(negative ? 0 - magnitude : magnitude);
}

static Span take_span(Reader *r) {
    Span span = {0};
    if (accept(r, "!")) {
        span.line = (uint32_t)take_number(r, UINT32_MAX);
        expect(r, ":");
        span.column = (uint32_t)take_number(r, UINT32_MAX);
        expect(r, "+");
        span.length = (uint32_t)take_number(r, UINT32_MAX);
    }
    return span;
}

/* 'x', 'y' or 'z' as 0 to 2. */
static int take_grid_axis(Reader *r) {
    for (int axis = 0; axis < 3; axis++)
        if (accept(r, (const char[]){"xyz"[axis], '\0'}))
            return axis;
    fail_expected(r, "'x', 'y' or 'z'");
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

static const Dim *read_dim(Reader *r, int at_least);

static const Dim *make_dim(Reader *r, Span span, PhbExprOp op, const Dim *a, const Dim *b) {
    const Dim *dim = r->failed ? NULL : dim_op(r->context->dims, op, a, b);
    if (!dim)
        fail(r, span, "the expression overflows, divides by zero or is too large");
    return dim ? dim : dim_int(r->context->dims, 1);
}

/* The name is taken, '(' is next. */
static const Dim *read_dim_call(Reader *r, Span span, const char *name) {
    static const struct {
        PhbExprOp op;
        const char *text;
    } calls[] = {{PHB_EXPR_CEILDIV, "ceildiv"}, {PHB_EXPR_MIN, "min"}, {PHB_EXPR_MAX, "max"}};
    expect(r, "(");
    const Dim *result = dim_int(r->context->dims, 1);
    if (strcmp(name, "extent") == 0) {
        const char *tensor = take_name(r, "the name of a tensor");
        expect(r, ",");
        result = dim_extent(r->context->dims, tensor, (int)take_number(r, PHB_MAX_RANK - 1));
        expect(r, ")");
        return result;
    }
    const Dim *a = read_dim(r, 0);
    expect(r, ",");
    const Dim *b = read_dim(r, 0);
    expect(r, ")");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(name, calls[i].text) == 0)
            return make_dim(r, span, calls[i].op, a, b);
    fail(r, span, "'%.60s' is no function of dims", name);
    return result;
}

static const Dim *read_dim_primary(Reader *r) {
    Span span = r->token.span;
    if (r->token.kind == IR_TOKEN_INT || at(r, "-"))
        return dim_int(r->context->dims, take_signed(r));
    if (accept(r, "!"))
        return make_dim(r, span, PHB_EXPR_NOT, read_dim(r, INT_MAX), NULL);
    if (accept(r, "(")) {
        const Dim *dim = read_dim(r, 0);
        expect(r, ")");
        return dim;
    }
    const char *name = take_name(r, "a dim expression");
    return at(r, "(") ? read_dim_call(r, span, name) : dim_name(r->context->dims, name);
}

static const Dim *read_dim(Reader *r, int at_least) {
    if (++r->depth > MAX_DEPTH)
        fail(r, r->token.span, "nesting deeper than %d", MAX_DEPTH);
    const Dim *dim = read_dim_primary(r);
    for (bool more = true; more && !r->failed;) {
        more = false;
        for (size_t i = 0; i < sizeof dim_operators / sizeof *dim_operators && !more; i++) {
            int precedence = dim_operators[i].precedence;
            Span span = r->token.span;
            if (precedence < at_least || !accept(r, dim_operators[i].text))
                continue;
            dim = make_dim(r, span, dim_operators[i].op, dim, read_dim(r, precedence + 1));
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
    const char *name = take_name(r, "a type");
    if (!r->failed && !dtype_find(name, &dtype))
        fail(r, span, "'%.60s' is no element type", name);
    return dtype;
}

static const Type *read_type(Reader *r) {
    TypeKind kind = TYPE_SCALAR;
    if (accept(r, "tensor"))
        kind = TYPE_TENSOR;
    else if (accept(r, "tile"))
        kind = TYPE_TILE;
    if (kind == TYPE_SCALAR)
        return type_scalar(r->context->types, take_dtype(r));
    expect(r, "<");
    PhbDType dtype = take_dtype(r);
    expect(r, ">");
    expect(r, "[");
    const Dim *dims[PHB_MAX_RANK];
    int rank = 0;
    do {
        if (rank == PHB_MAX_RANK)
            fail(r, r->token.span, "more than %d axes", PHB_MAX_RANK);
        else
            dims[rank++] = read_dim(r, 0);
    } while (accept(r, ","));
    expect(r, "]");
    return type_shaped(r->context->types, kind, dtype, rank, dims);
}

/* ---- declarations ---- */

static void read_search(Reader *r) {
    Arena *arena = r->context->arena;
    SearchDim search = {.name = take_name(r, "the name of a search dim")};
    expect(r, "leaf");
    expect(r, "[");
    do
        vec_push(arena, &search.leaf, take_signed(r));
    while (accept(r, ","));
    expect(r, "]");
    if (accept(r, "cluster")) {
        expect(r, "[");
        do
            vec_push(arena, &search.cluster, take_signed(r));
        while (accept(r, ","));
        expect(r, "]");
    }
    search.span = take_span(r);
    if (search.cluster.count > 0)
        search.cluster_span = take_span(r);
    vec_push(arena, &r->kernel->signature.search, search);
}

static void read_grid(Reader *r) {
    GridAxis *grid = &r->kernel->signature.grid[take_grid_axis(r)];
    if (accept(r, "stated")) {
        grid->stated = true;
        return;
    }
    vec_push(r->context->arena, &grid->counts, read_dim(r, 0));
    vec_push(r->context->arena, &grid->spans, take_span(r));
}

static void read_declaration(Reader *r) {
    Arena *arena = r->context->arena;
    Signature *signature = &r->kernel->signature;
    if (accept(r, "cluster")) {
        signature->has_cluster = true;
        signature->cluster_span = take_span(r);
    } else if (accept(r, "fastmath")) {
        signature->fastmath = true;
    } else if (accept(r, "launch")) {
        signature->launch_threads = take_signed(r);
        expect(r, ",");
        signature->launch_min_blocks = take_signed(r);
        expect(r, ",");
        signature->launch_max_regs = take_signed(r);
    } else if (accept(r, "dim")) {
        vec_push(arena, &signature->symbolic, take_name(r, "the name of a dim"));
    } else if (accept(r, "search")) {
        read_search(r);
    } else if (accept(r, "param")) {
        if (signature->params.count == 2 * PHB_MAX_PARAMS)
            fail(r, r->token.span, "more than %d parameters", 2 * PHB_MAX_PARAMS);
        Param param = {.name = take_name(r, "the name of a parameter")};
        expect(r, ":");
        param.type = read_type(r);
        param.span = take_span(r);
        vec_push(arena, &signature->params, param);
    } else if (accept(r, "grid")) {
        read_grid(r);
    } else if (accept(r, "aligned")) {
        Aligned aligned = {.dim = take_name(r, "the name of a dim")};
        expect(r, "=");
        aligned.tile = read_dim(r, 0);
        aligned.span = take_span(r);
        vec_push(arena, &signature->aligned, aligned);
    } else if (accept(r, "require")) {
        Require require = {.cond = read_dim(r, 0)};
        require.span = take_span(r);
        vec_push(arena, &signature->require, require);
    } else {
        fail_expected(r, "a declaration or '{'");
    }
    expect_newline(r);
}

/* ---- values ---- */

static IrValue *take_value(Reader *r) {
    IrValue *value = NULL;
    const Signature *signature = &r->kernel->signature;
    if (r->token.kind != IR_TOKEN_VALUE) {
        fail_expected(r, "a value");
    } else if (r->token.is_number) {
        value = r->token.value < (uint64_t)r->values.count ? r->values.items[r->token.value] : NULL;
    } else {
        int param = signature_param(signature, intern(r->context->interner, r->token.text + 1, r->token.length - 1));
        value = param >= 0 ? r->kernel->body->args.items[param] : NULL;
    }
    if (!value)
        fail(r, r->token.span, "'%.*s' is not defined here", r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
    advance(r);
    return value;
}

/* What an op's line says, before the op is made. */
typedef struct Line {
    OpKind kind;
    int result_count;
    VEC(IrValue *) operands;
    VEC(const Type *) types; /* of the results */
    bool negative;           /* a constant's sign; its token */
    IrToken constant;
    const Dim *dim;
    int axis;
    const Dim *extent[PHB_MAX_RANK];
    Span span;
} Line;

static void read_operand(Reader *r, Line *line) {
    vec_push(r->context->arena, &line->operands, take_value(r));
}

static void read_slice(Reader *r, Line *line) {
    read_operand(r, line);
    expect(r, "[");
    int rank = 0;
    do {
        if (rank == PHB_MAX_RANK) {
            fail(r, r->token.span, "more than %d axes", PHB_MAX_RANK);
            return;
        }
        read_operand(r, line);
        line->extent[rank++] = accept(r, ":+") ? read_dim(r, 0) : NULL;
    } while (accept(r, ","));
    expect(r, "]");
    if (line->kind == OP_STORE) {
        expect(r, "=");
        read_operand(r, line);
    }
}

/* `count` below 0: as many as there are. */
static void read_operands(Reader *r, Line *line, int count) {
    if (count == 0 || (count < 0 && r->token.kind != IR_TOKEN_VALUE))
        return;
    do
        read_operand(r, line);
    while (count < 0 ? accept(r, ",") : line->operands.count < count && (expect(r, ","), !r->failed));
}

static void read_attribute(Reader *r, Line *line) {
    const OpInfo *info = &op_info[line->kind];
    switch (info->attr) {
    case ATTR_CONST:
        line->negative = accept(r, "-");
        line->constant = r->token;
        if (r->token.kind != IR_TOKEN_INT && r->token.kind != IR_TOKEN_FLOAT && r->token.kind != IR_TOKEN_WORD)
            fail_expected(r, "a constant");
        advance(r);
        break;
    case ATTR_DIM:
        line->dim = read_dim(r, 0);
        break;
    case ATTR_AXIS:
        if (info->operands == 0) /* ctx.block.x: read with the spelling */
            break;
        read_operand(r, line);
        expect(r, ",");
        line->axis = accept(r, "-") ? -(int)take_number(r, INT_MAX) : (int)take_number(r, INT_MAX);
        break;
    case ATTR_SLICE:
        read_slice(r, line);
        break;
    case ATTR_UNROLL:
        read_operands(r, line, info->operands);
        line->dim = accept(r, "unroll") ? read_dim(r, 0) : NULL;
        break;
    case ATTR_NONE:
        read_operands(r, line, info->operands);
        break;
    }
}

/* The op whose spelling the token is; `ctx.block.x` is ctx.block with an axis. */
static void take_op_kind(Reader *r, Line *line) {
    const char *text = r->token.text;
    size_t length = r->token.length;
    for (int kind = 0; kind < OP_COUNT && r->token.kind == IR_TOKEN_WORD; kind++) {
        const OpInfo *info = &op_info[kind];
        bool has_axis = info->attr == ATTR_AXIS && info->operands == 0;
        size_t spelling = strlen(info->text);
        if (length != spelling + (has_axis ? 2 : 0) || memcmp(text, info->text, spelling) != 0)
            continue;
        if (has_axis && (text[spelling] != '.' || text[spelling + 1] < 'x' || text[spelling + 1] > 'z'))
            continue;
        line->kind = (OpKind)kind;
        line->axis = has_axis ? text[spelling + 1] - 'x' : 0;
        advance(r);
        return;
    }
    fail_expected(r, "an op");
}

/* ---- constants ---- */

static bool word_is(const IrToken *token, const char *text) {
    return token->kind == IR_TOKEN_WORD && token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

static bool const_is_number(const IrToken *token) {
    return (token->kind == IR_TOKEN_INT && !token->is_hex) || token->kind == IR_TOKEN_FLOAT;
}

/* The token as a number of `dtype`; false where it is none. */
static bool const_bits(const Line *line, PhbDType dtype, uint64_t *bits) {
    const IrToken *token = &line->constant;
    if (token->kind == IR_TOKEN_INT && token->is_hex) { /* raw bits; the verifier knows whether they fit */
        *bits = token->value;
        return !line->negative;
    }
    if (dtype == PHB_BOOL) {
        *bits = word_is(token, "true");
        return !line->negative && (*bits || word_is(token, "false"));
    }
    if (dtype_is_float(dtype)) {
        double value = word_is(token, "inf") ? (double)INFINITY : word_is(token, "nan") ? (double)NAN : token->real;
        *bits = bits_from_double(dtype, line->negative ? -value : value);
        return const_is_number(token) || word_is(token, "inf") || (word_is(token, "nan") && !line->negative);
    }
    int width = dtype_bits(dtype);
    uint64_t highest = UINT64_MAX >> (64 - width + dtype_is_signed(dtype));
    uint64_t limit = !line->negative ? highest : dtype_is_signed(dtype) ? highest + 1 : 0;
    *bits = bits_from_int(dtype, line->negative ? 0 - token->value : token->value);
    return token->kind == IR_TOKEN_INT && token->value <= limit;
}

/* ---- ops and kernels ---- */

/* Values are numbered as the printer does it, from 0 in order. Results count from their op's line on, but stand for something only after its regions.
 */
static void read_number(Reader *r) {
    if (r->token.kind != IR_TOKEN_VALUE || !r->token.is_number || r->token.value != (uint64_t)r->values.count)
        fail(r, r->token.span, "expected '%%%d', the next number in order", r->values.count);
    advance(r);
    vec_push(r->context->arena, &r->values, NULL);
}

static void read_results(Reader *r, Line *line) {
    if (r->token.kind != IR_TOKEN_VALUE)
        return;
    do {
        read_number(r);
        line->result_count++;
    } while (accept(r, ","));
    expect(r, "=");
}

static void read_result_types(Reader *r, Line *line) {
    if (line->result_count == 0)
        return;
    expect(r, ":");
    do
        vec_push(r->context->arena, &line->types, read_type(r));
    while (line->types.count < line->result_count && (expect(r, ","), !r->failed));
}

static void read_line(Reader *r, Line *line) {
    read_results(r, line);
    Span op_span = r->token.span;
    take_op_kind(r, line);
    const OpInfo *info = &op_info[line->kind];
    if (info->results >= 0 && line->result_count != info->results)
        fail(r, op_span,
            line->result_count == 0 ? "the result of '%s' needs a number"
            : info->results == 0    ? "'%s' has no result"
                                    : "'%s' has one result",
            info->text);
    if (!r->failed)
        read_attribute(r, line);
    read_result_types(r, line);
    line->span = take_span(r);
    expect_newline(r);
}

static void read_block(Reader *r, IrBlock *block);

static void read_regions(Reader *r, IrOp *op) {
    if (ir_region_count(op->kind) > 0 && ++r->region_depth > IR_MAX_DEPTH)
        fail(r, r->token.span, "regions nested deeper than %d", IR_MAX_DEPTH);
    for (int i = 0; !r->failed && i < ir_region_count(op->kind); i++) {
        expect(r, ir_region_word(op->kind, i));
        IrBlock *region = ir_region_new(r->context, op);
        if (r->token.kind == IR_TOKEN_VALUE) {
            do {
                int number = r->values.count;
                read_number(r);
                expect(r, ":");
                IrValue *arg = ir_block_arg(r->context, region, read_type(r), NULL);
                r->values.items[number] = arg;
            } while (accept(r, ","));
        }
        read_block(r, region);
    }
    r->region_depth -= ir_region_count(op->kind) > 0;
}

static void read_op(Reader *r, IrBlock *block) {
    Span start = r->token.span;
    Line line = {0};
    int first_number = r->values.count;
    read_line(r, &line);
    if (r->failed)
        return;
    uint64_t bits = 0;
    if (op_info[line.kind].attr == ATTR_CONST) {
        const Type *type = line.types.items[0];
        if (type->kind != TYPE_SCALAR || !const_bits(&line, type->scalar, &bits)) {
            fail(r, line.constant.span, "'%s%.*s' is no constant of the type given", line.negative ? "-" : "",
                line.constant.length > 60 ? 60 : (int)line.constant.length, line.constant.text);
            return;
        }
    }
    IrOp *op = ir_append(r->context, block, line.kind, line.span, line.operands.items, line.operands.count, line.types.items, line.types.count);
    op->bits = bits;
    op->dim = line.dim;
    op->axis = line.axis;
    memcpy(op->extent, line.extent, sizeof op->extent);
    vec_push(r->context->arena, &r->op_spans, start);
    read_regions(r, op);
    for (int i = 0; i < op->results.count; i++)
        r->values.items[first_number + i] = op->results.items[i];
}

/* From `{` to the line after `}`. */
static void read_block(Reader *r, IrBlock *block) {
    expect(r, "{");
    expect_newline(r);
    while (!r->failed && !at(r, "}"))
        read_op(r, block);
    expect(r, "}");
    expect_newline(r);
}

/* Where in the text `op` is, of the ops of `block` in the order of the text; *next counts them. */
static bool find_op(const IrBlock *block, const IrOp *op, int *next) {
    for (const IrOp *here = block->first; here; here = here->next) {
        if (here == op)
            return true;
        ++*next;
        for (int i = 0; i < here->regions.count; i++)
            if (find_op(here->regions.items[i], op, next))
                return true;
    }
    return false;
}

static void verify(Reader *r, Span name_span) {
    const IrOp *at_fault;
    const char *message = ir_verify_kernel(r->context, r->kernel, &at_fault);
    int i = 0;
    bool found = at_fault && find_op(r->kernel->body, at_fault, &i);
    if (message)
        fail(r, found ? r->op_spans.items[i] : name_span, "%s", message);
}

static void read_kernel(Reader *r, IrModule *module) {
    Arena *arena = r->context->arena;
    r->kernel = NEW(arena, IrKernel);
    r->values.count = 0;
    r->op_spans.count = 0;
    Signature *signature = &r->kernel->signature;
    if (module->kernels.count == MAX_KERNELS)
        fail(r, r->token.span, "more than %d kernels", MAX_KERNELS);
    expect(r, "kernel");
    Span name_span = r->token.span;
    signature->name = take_name(r, "the name of a kernel");
    for (int i = 0; i < module->kernels.count; i++)
        if (module->kernels.items[i]->signature.name == signature->name)
            fail(r, name_span, "kernel '%.60s' is defined twice", signature->name);
    signature->span = take_span(r);
    expect_newline(r);
    while (!r->failed && !at(r, "{"))
        read_declaration(r);
    if (r->failed)
        return;
    r->kernel->body = ir_block_new(r->context, NULL);
    for (int i = 0; i < signature->params.count; i++)
        ir_block_arg(r->context, r->kernel->body, signature->params.items[i].type, signature->params.items[i].name);
    read_block(r, r->kernel->body);
    if (!r->failed)
        verify(r, name_span);
    vec_push(arena, &module->kernels, r->kernel);
}

static const char *take_string(Reader *r) {
    const char *text = "";
    if (r->token.kind != IR_TOKEN_STRING)
        fail_expected(r, "a string");
    else
        text = ir_token_string(r->context->arena, &r->token);
    advance(r);
    return text;
}

IrModule *ir_read(Context *context) {
    Reader reader = {.context = context}, *r = &reader;
    ir_lexer_init(&r->lexer, context->source);
    IrModule *module = NEW(context->arena, IrModule);
    advance(r);
    expect(r, "phobos-ir");
    Span version_span = r->token.span;
    if (take_number(r, INT_MAX) != 1)
        fail(r, version_span, "this compiler reads version 1");
    expect_newline(r);
    expect(r, "file");
    module->file = take_string(r);
    expect_newline(r);
    while (!r->failed && r->token.kind != IR_TOKEN_END)
        read_kernel(r, module);
    return r->failed ? NULL : module;
}

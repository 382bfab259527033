/* Reads the text form that print.c describes. Strict: one declaration or op a line, nothing that the printer would not write but for spacing. The
 * first error ends the reading; the verifier has the last word on each kernel. */
#include "compiler/ir/reader.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_KERNELS = 4096 };

/* ---- values ---- */

static IrValue *take_value(Reader *r) {
    IrValue *value = NULL;
    const Signature *signature = &r->kernel->signature;
    if (r->token.kind != IR_TOKEN_VALUE) {
        reader_fail_expected(r, "a value");
    } else if (r->token.is_number) {
        value = r->token.value < (uint64_t)r->values.count ? r->values.items[r->token.value] : NULL;
    } else {
        int param = signature_param(signature, intern(r->context->interner, r->token.text + 1, r->token.length - 1));
        value = param >= 0 ? r->kernel->body->args.items[param] : NULL;
    }
    if (!value)
        reader_fail(r, r->token.span, "'%.*s' is not defined here", r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
    reader_advance(r);
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
    const char *name;
    bool once;
    int64_t shared_at, shared_bytes;
    Span span;
} Line;

static void read_operand(Reader *r, Line *line) {
    vec_push(r->context->arena, &line->operands, take_value(r));
}

static void read_slice(Reader *r, Line *line) {
    line->once = reader_accept(r, "once");
    read_operand(r, line);
    reader_expect(r, "[");
    int rank = 0;
    do {
        if (rank == PHB_MAX_RANK) {
            reader_fail(r, r->token.span, "more than %d axes", PHB_MAX_RANK);
            return;
        }
        read_operand(r, line);
        line->extent[rank++] = reader_accept(r, ":+") ? reader_dim(r, 0) : NULL;
    } while (reader_accept(r, ","));
    reader_expect(r, "]");
    for (int i = 0; i < ir_values_stored(line->kind); i++) {
        reader_expect(r, i > 0 ? "," : "=");
        read_operand(r, line);
    }
}

/* `count` below 0: as many as there are. */
static void read_operands(Reader *r, Line *line, int count) {
    if (count == 0 || (count < 0 && r->token.kind != IR_TOKEN_VALUE))
        return;
    do
        read_operand(r, line);
    while (count < 0 ? reader_accept(r, ",") : line->operands.count < count && (reader_expect(r, ","), !r->failed));
}

static void read_attribute(Reader *r, Line *line) {
    const OpInfo *info = &op_info[line->kind];
    switch (info->attr) {
    case ATTR_CONST:
        line->negative = reader_accept(r, "-");
        line->constant = r->token;
        if (r->token.kind != IR_TOKEN_INT && r->token.kind != IR_TOKEN_FLOAT && r->token.kind != IR_TOKEN_WORD)
            reader_fail_expected(r, "a constant");
        reader_advance(r);
        break;
    case ATTR_DIM:
        read_operands(r, line, info->operands);
        if (info->operands)
            reader_expect(r, ",");
        line->dim = reader_dim(r, 0);
        break;
    case ATTR_AXIS:
        if (info->operands == 0) /* ctx.block.x: read with the spelling */
            break;
        read_operands(r, line, info->operands);
        reader_expect(r, ",");
        line->axis = reader_accept(r, "-") ? -(int)reader_take_number(r, INT_MAX) : (int)reader_take_number(r, INT_MAX);
        break;
    case ATTR_AXIS_OR_ALL:
        break;
    case ATTR_NAME:
        line->name = intern_cstr(r->context->interner, reader_take_string(r));
        break;
    case ATTR_SLICE:
        read_slice(r, line);
        break;
    case ATTR_UNROLL:
        read_operands(r, line, info->operands);
        line->dim = reader_accept(r, "unroll") ? reader_dim(r, 0) : NULL;
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
        size_t spelling = strlen(info->text);
        bool may_be_all = info->attr == ATTR_AXIS_OR_ALL;
        bool has_axis = (info->attr == ATTR_AXIS && info->operands == 0) || (may_be_all && length != spelling);
        if (length != spelling + (has_axis ? 2 : 0) || memcmp(text, info->text, spelling) != 0)
            continue;
        if (has_axis && (text[spelling] != '.' || text[spelling + 1] < 'x' || text[spelling + 1] > 'z'))
            continue;
        line->kind = (OpKind)kind;
        line->axis = has_axis ? text[spelling + 1] - 'x' : may_be_all ? -1 : 0;
        reader_advance(r);
        return;
    }
    reader_fail_expected(r, "an op");
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
        reader_fail(r, r->token.span, "expected '%%%d', the next number in order", r->values.count);
    reader_advance(r);
    vec_push(r->context->arena, &r->values, NULL);
}

static void read_results(Reader *r, Line *line) {
    if (r->token.kind != IR_TOKEN_VALUE)
        return;
    do {
        read_number(r);
        line->result_count++;
    } while (reader_accept(r, ","));
    reader_expect(r, "=");
}

static void read_result_types(Reader *r, Line *line) {
    if (line->result_count == 0)
        return;
    reader_expect(r, ":");
    do
        vec_push(r->context->arena, &line->types, reader_type(r));
    while (line->types.count < line->result_count && (reader_expect(r, ","), !r->failed));
}

static void read_line(Reader *r, Line *line) {
    read_results(r, line);
    Span op_span = r->token.span;
    take_op_kind(r, line);
    const OpInfo *info = &op_info[line->kind];
    if (info->results >= 0 && line->result_count != info->results)
        reader_fail(r, op_span,
            line->result_count == 0 ? "the result of '%s' needs a number"
            : info->results == 0    ? "'%s' has no result"
                                    : "'%s' has one result",
            info->text);
    if (!r->failed)
        read_attribute(r, line);
    if (reader_accept(r, "at")) {
        line->shared_at = (int64_t)reader_take_number(r, INT32_MAX);
        reader_expect(r, "+");
        line->shared_bytes = (int64_t)reader_take_number(r, INT32_MAX);
    }
    read_result_types(r, line);
    line->span = reader_take_span(r);
    reader_expect_newline(r);
}

static void read_block(Reader *r, IrBlock *block);

static void read_regions(Reader *r, IrOp *op) {
    if (ir_region_count(op->kind) > 0 && ++r->region_depth > IR_MAX_DEPTH)
        reader_fail(r, r->token.span, "regions nested deeper than %d", IR_MAX_DEPTH);
    for (int i = 0; !r->failed && i < ir_region_count(op->kind); i++) {
        reader_expect(r, ir_region_word(op->kind, i));
        IrBlock *region = ir_region_new(r->context, op);
        if (r->token.kind == IR_TOKEN_VALUE) {
            do {
                int number = r->values.count;
                read_number(r);
                reader_expect(r, ":");
                IrValue *arg = ir_block_arg(r->context, region, reader_type(r), NULL);
                r->values.items[number] = arg;
            } while (reader_accept(r, ","));
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
            reader_fail(r, line.constant.span, "'%s%.*s' is no constant of the type given", line.negative ? "-" : "",
                line.constant.length > 60 ? 60 : (int)line.constant.length, line.constant.text);
            return;
        }
    }
    IrOp *op = ir_append(r->context, block, line.kind, line.span, line.operands.items, line.operands.count, line.types.items, line.types.count);
    op->bits = bits;
    op->dim = line.dim;
    op->axis = line.axis;
    memcpy(op->extent, line.extent, sizeof op->extent);
    op->name = line.name;
    op->once = line.once;
    op->shared_at = line.shared_at;
    op->shared_bytes = line.shared_bytes;
    vec_push(r->context->arena, &r->op_spans, start);
    read_regions(r, op);
    for (int i = 0; i < op->results.count; i++)
        r->values.items[first_number + i] = op->results.items[i];
}

/* From `{` to the line after `}`. */
static void read_block(Reader *r, IrBlock *block) {
    reader_expect(r, "{");
    reader_expect_newline(r);
    while (!r->failed && !reader_at(r, "}"))
        read_op(r, block);
    reader_expect(r, "}");
    reader_expect_newline(r);
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
        reader_fail(r, found ? r->op_spans.items[i] : name_span, "%s", message);
}

static void read_kernel(Reader *r, IrModule *module) {
    Arena *arena = r->context->arena;
    r->kernel = NEW(arena, IrKernel);
    r->values.count = 0;
    r->op_spans.count = 0;
    Signature *signature = &r->kernel->signature;
    if (module->kernels.count == MAX_KERNELS)
        reader_fail(r, r->token.span, "more than %d kernels", MAX_KERNELS);
    reader_expect(r, "kernel");
    Span name_span = r->token.span;
    signature->name = reader_take_name(r, "the name of a kernel");
    for (int i = 0; i < module->kernels.count; i++)
        if (module->kernels.items[i]->signature.name == signature->name)
            reader_fail(r, name_span, "kernel '%.60s' is defined twice", signature->name);
    signature->span = reader_take_span(r);
    reader_expect_newline(r);
    while (!r->failed && !reader_at(r, "{"))
        reader_declaration(r);
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

IrModule *ir_read(Context *context) {
    Reader reader = {.context = context}, *r = &reader;
    ir_lexer_init(&r->lexer, context->source);
    IrModule *module = NEW(context->arena, IrModule);
    reader_advance(r);
    reader_expect(r, "phobos-ir");
    Span version_span = r->token.span;
    if (reader_take_number(r, INT_MAX) != 1)
        reader_fail(r, version_span, "this compiler reads version 1");
    reader_expect_newline(r);
    reader_expect(r, "file");
    module->file = reader_take_string(r);
    reader_expect_newline(r);
    while (!r->failed && r->token.kind != IR_TOKEN_END)
        read_kernel(r, module);
    return r->failed ? NULL : module;
}

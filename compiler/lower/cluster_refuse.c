/* How a refusal reads: the rule, the other place, what the text means in both readings, and the smallest edit that makes it legal. */
#include "compiler/lower/split.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST_FORM = 80 }; /* characters of an expression that a message repeats */

const char *split_text(Split *split, const char *format, ...) {
    char words[512];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return arena_printf(split->context->arena, "%s", words);
}

const char *split_dim_text(Split *split, const Dim *dim) {
    Buffer buffer = {0};
    dim_print(&buffer, dim);
    const char *result = arena_strndup(split->context->arena, buffer.data, buffer.length);
    buffer_free(&buffer);
    return result;
}

static bool is_readable(const Dim *form) {
    if (form->kind == PHB_EXPR_DIM)
        return form->name[0] != '%';
    return (!form->a || is_readable(form->a)) && (!form->b || is_readable(form->b));
}

const char *form_text(Split *split, const Dim *form) {
    for (int axis = FIRST_LOOP; axis < MAX_AXES && form; axis++)
        if (split->axes[axis].loop)
            form = form_replace(split, form, axis_form(split, axis), form_name(split, axis_text(split, axis)));
    if (!form)
        return NULL;
    const char *words = is_readable(form) ? split_dim_text(split, form) : NULL;
    return words && strlen(words) <= LONGEST_FORM ? words : NULL;
}

/* The variable that the source declares at a `for`, or NULL where there is no source. */
static const char *loop_variable(Split *split, const IrOp *loop) {
    const Source *source = split->context->source;
    const char *at = source->text, *end = at + source->length;
    for (uint32_t line = 1; at && line < loop->span.line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    if (!at || !loop->span.line || (size_t)(end - at) < loop->span.column + sizeof "for" || memcmp(at + loop->span.column - 1, "for", 3) != 0)
        return NULL;
    at += loop->span.column - 1 + sizeof "for" - 1;
    const char *angle = at + strspn(at, " ");
    if (*angle == '<')
        at = angle + strcspn(angle, ">\n") + 1;
    at += strspn(at, " \t>");
    size_t length = 0;
    while (at[length] == '_' || isalnum((unsigned char)at[length]))
        length++;
    return length ? arena_strndup(split->context->arena, at, length) : NULL;
}

const char *axis_text(Split *split, int axis) {
    if (axis < FIRST_LOOP)
        return block_names[axis];
    const char *variable = loop_variable(split, split->axes[axis].loop);
    return variable ? variable : "the loop's variable";
}

const char *super_text(Split *split, int axis) {
    return axis < FIRST_LOOP ? split_text(split, "the one at '%s'", super_names[axis]) : split_text(split, "the chunk at '%s'", axis_text(split, axis));
}

const char *own_offset(Split *split, int axis, const Dim *step) {
    if (axis >= FIRST_LOOP || step == dim_int(split->context->dims, 1))
        return axis_text(split, axis);
    return split_text(split, "%s * %s", block_names[axis], split_dim_text(split, step));
}

void refuse(Split *split, const Refusal *refusal) {
    Diag *diag = split->context->diag;
    diag_error(diag, refusal->at, "%s", refusal->rule);
    if (refusal->other_text)
        diag_note(diag, refusal->other, "%s", refusal->other_text);
    diag_note(diag, (Span){0}, "on one node, %s", refusal->node);
    diag_note(diag, (Span){0}, "on the cluster, %s", refusal->cluster);
    diag_note(diag, (Span){0}, "smallest edit: %s", refusal->edit);
}

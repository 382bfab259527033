/* How a refusal reads: the rule, the other place, what the text means in both readings, and the smallest edit that makes it legal. */
#include "compiler/lower/split.h"

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
    const char *words = is_readable(form) ? split_dim_text(split, form) : NULL;
    return words && strlen(words) <= LONGEST_FORM ? words : NULL;
}

const char *own_offset(Split *split, int axis, const Dim *step) {
    if (step == dim_int(split->context->dims, 1))
        return block_names[axis];
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

/* What the compiler makes of a document: parsed and checked as a whole at each change. Lowering and splitting, half of the time, are only there for
 * what they say, so kernels about which they had nothing to say are left out until they or a fn change; a hover lowers the one that it needs. */
#define XXH_INLINE_ALL
#include "compiler/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The first part of a URI's path, as messages show it; the whole URI where it names no file. */
static const char *shown_path(Arena *arena, const char *uri) {
    const char *slash = strrchr(uri, '/');
    return arena_printf(arena, "%s", slash ? slash + 1 : uri);
}

/* ---- messages ---- */

/* A memory stream for diagnostics. */
typedef struct Said {
    FILE *stream;
    char *text;
    size_t size;
} Said;

static void listen(Document *document, Said *said) {
    said->stream = open_memstream(&said->text, &said->size);
    if (!said->stream)
        abort();
    document->context.diag = diag_new(document->arena, &document->source, said->stream, DIAG_JSON, false);
}

/* The messages, a new reference. */
static json_t *heard(Document *document, Said *said) {
    diag_finish(document->context.diag);
    fclose(said->stream);
    json_t *messages = json_loadb(said->text, said->size, 0, NULL);
    free(said->text);
    return messages;
}

/* ---- what need not be lowered ---- */

/* The lines of declaration `d`, with all of the one that the next begins in. */
static uint64_t hash_declaration(const Document *document, int d, uint64_t seed) {
    const Ast *ast = document->ast;
    size_t bounds[2] = {0, document->length};
    for (int side = 0; side < 2 && d + side < ast->decls.count; side++) {
        const Decl *decl = ast->decls.items[d + side];
        size_t line = (decl->attrs.count ? decl->attrs.items[0].span.line : decl->span.line) - 1 + (size_t)side;
        bounds[side] = line < document->line_count ? document->lines[line] : document->length;
    }
    return XXH3_64bits_withSeed(document->text + bounds[0], bounds[1] - bounds[0], seed);
}

static uint64_t hash_fns(const Document *document) {
    uint64_t hash = 0;
    for (int d = 0; d < document->ast->decls.count; d++)
        if (!document->ast->decls.items[d]->is_kernel)
            hash = hash_declaration(document, d, hash);
    return hash;
}

static int compare_hashes(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* ---- lowering ---- */

/* NULL after an error. */
static const ClusterKernel *split_kernel(Document *document, CheckedKernel *kernel) {
    Diag *diag = document->context.diag;
    int errors = diag_error_count(diag);
    CheckedProgram alone = {0};
    vec_push(document->arena, &alone.kernels, kernel);
    IrModule *module = lower_program(&document->context, &alone, document->source.path);
    if (diag_error_count(diag) > errors)
        return NULL;
    const ClusterProgram *program = cluster_split(&document->context, module);
    return diag_error_count(diag) > errors ? NULL : program->kernels.items[0];
}

/* Says what lowering and splitting have to say about kernels that they were not silent about before. */
static void split_kernels(Document *document) {
    const Diag *diag = document->context.diag;
    uint64_t fns = hash_fns(document), *passed = calloc((size_t)document->program->kernels.count + 1, sizeof *passed);
    size_t count = 0;
    if (!passed)
        abort();
    for (int d = 0, k = 0; d < document->ast->decls.count; d++) {
        if (!document->ast->decls.items[d]->is_kernel)
            continue;
        CheckedKernel *kernel = document->program->kernels.items[k++];
        uint64_t hash = hash_declaration(document, d, fns);
        int before = diag_message_count(diag);
        if (!document->passed || !bsearch(&hash, document->passed, document->passed_count, sizeof hash, compare_hashes))
            split_kernel(document, kernel);
        if (diag_message_count(diag) == before)
            passed[count++] = hash;
    }
    qsort(passed, count, sizeof *passed, compare_hashes);
    free(document->passed);
    document->passed = passed;
    document->passed_count = count;
}

const ClusterKernel *document_split(Document *document, CheckedKernel *kernel) {
    if (!document->sound || document->split_of == kernel)
        return document->sound ? document->split : NULL;
    Said said;
    listen(document, &said);
    document->split_of = kernel;
    document->split = split_kernel(document, kernel);
    json_decref(heard(document, &said)); /* it was said when the text changed */
    return document->split;
}

/* ---- all of it ---- */

void document_forget(Document *document) {
    json_decref(document->messages);
    arena_free(document->arena);
}

void document_analyse(Document *document) {
    document_forget(document);
    Arena *arena = document->arena = arena_new();
    document->source = (Source){shown_path(arena, document->uri), document->text, document->length};
    document->context = (Context){arena, interner_new(arena), dim_pool_new(arena), type_pool_new(arena), NULL, &document->source};
    document->split_of = NULL;
    Said said;
    listen(document, &said);
    const Diag *diag = document->context.diag;
    document->ast = parse_source(&document->context);
    static const SemaOptions options;
    /* What the parser left out would be missed. */
    document->program = diag_error_count(diag) ? NULL : sema_check(&document->context, document->ast, &options);
    document->sound = diag_error_count(diag) == 0;
    if (document->sound)
        split_kernels(document);
    document->messages = heard(document, &said);
}

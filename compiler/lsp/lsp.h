/* The language server, `phobosc --lsp`: messages of the Language Server Protocol 3.17 on standard input and output. Above all of the compiler but
 * code generation; nothing includes it but the command. */
#ifndef PHOBOS_LSP_H
#define PHOBOS_LSP_H

#include "compiler/lower/lower.h"

#include <jansson.h>

/* ---- message.c: JSON behind a header that says how long it is ---- */

typedef enum ReadStatus { READ_MESSAGE, READ_NO_JSON, READ_END, READ_BROKEN } ReadStatus;

/* READ_MESSAGE: *message is the caller's. READ_NO_JSON: one was read that is none. READ_END: the input ends. READ_BROKEN: no telling where the next
 * begins. */
ReadStatus message_read(FILE *in, json_t **message);
void message_write(FILE *out, json_t *message); /* uses it up */

/* ---- document.c: a source as the editor has it, and positions in it ---- */

typedef struct Document {
    char *uri;
    char *text;
    size_t length;
    size_t *lines; /* where each begins, at least one */
    size_t line_count;
    bool utf16; /* columns of the protocol count UTF-16 units, else bytes */
    /* Hashes of kernels of a text before, with all that they can call: lowering and splitting had nothing to say about them. Ascending. */
    uint64_t *passed;
    size_t passed_count;
    /* The analysis of this text; lives in `arena`. */
    Arena *arena;
    Context context;
    Source source;
    Ast *ast;
    CheckedProgram *program;       /* NULL where it does not parse */
    bool sound;                    /* sema found no error either */
    const CheckedKernel *split_of; /* the kernel that `split` is of; NULL: of none */
    const ClusterKernel *split;
    json_t *messages; /* as --diagnostics=json */
} Document;

/* A copy of the text, analysed. */
Document *document_new(const char *uri, const char *text, bool utf16);
/* Changes of ranges, or of the whole text, one after the other, then the analysis; false where there are none. */
bool document_change(Document *document, const json_t *changes);
void document_free(Document *document);

/* Positions: lines from 0, columns as the protocol counts them; spans as the compiler does. Out of range is brought into it. */
Span document_place(const Document *document, const json_t *position); /* of length 0 */
json_t *document_range(const Document *document, Span span);
json_t *document_whole(const Document *document); /* the range of all text */
/* The line's text before a place. */
const char *document_before(const Document *document, Span place, size_t *length);

json_t *document_diagnostics(const Document *document);

/* ---- analysis.c: what the compiler makes of it ---- */

void document_analyse(Document *document);
void document_forget(Document *document); /* the analysis */
/* The kernel split for clusters, until the text changes; NULL where it is refused, or the text has errors. */
const ClusterKernel *document_split(Document *document, CheckedKernel *kernel);

/* ---- find.c: what stands at a place ---- */

typedef enum FoundKind { FOUND_NOTHING, FOUND_EXPR, FOUND_SYMBOL, FOUND_PARAM, FOUND_DIM, FOUND_SEARCH_DIM, FOUND_KERNEL, FOUND_FN } FoundKind;

typedef struct Found {
    FoundKind kind;
    Span span;                   /* of the name or operator */
    CheckedKernel *kernel;       /* the one that it stands in; in a fn, one that calls it; NULL: none does */
    const Expr *expr;            /* EXPR: a builtin's call, a field of ctx, an operator */
    const Symbol *symbol;        /* SYMBOL */
    const char *name;            /* PARAM, DIM, SEARCH_DIM */
    const Decl *decl;            /* KERNEL, FN */
} Found;

Found find_at(const Document *document, Span place);
/* Where it is declared; line 0: nowhere. */
Span find_declaration(const Found *found);

/* ---- hover.c, complete.c ---- */

/* Markdown; false where there is nothing to say. */
bool hover_print(Document *document, const Found *found, Buffer *out);
json_t *complete_at(const Document *document, Span place); /* an array of CompletionItem */

/* ---- server.c ---- */

/* Serves until the client ends it; an exit status: 0 after an orderly end. */
int lsp_run(FILE *in, FILE *out);

#endif

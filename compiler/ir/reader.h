/* What the files of the IR reader share: reader.c reads tokens, dims, types and declarations, read.c ops and kernels. */
#ifndef PHOBOS_IR_READER_H
#define PHOBOS_IR_READER_H

#include "compiler/ir/ir.h"
#include "compiler/ir/lex.h"

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

/* Reports the first error; from then on the input is at its end, so that every loop stops. */
void reader_fail(Reader *r, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void reader_fail_expected(Reader *r, const char *expected); /* at the next token */
void reader_advance(Reader *r);
bool reader_at(const Reader *r, const char *text);
bool reader_accept(Reader *r, const char *text); /* takes the token if it is that */
void reader_expect(Reader *r, const char *text);
void reader_expect_newline(Reader *r);
const char *reader_take_name(Reader *r, const char *expected);
const char *reader_take_string(Reader *r);
uint64_t reader_take_number(Reader *r, uint64_t limit); /* never more than the limit, which is an error */
Span reader_take_span(Reader *r);
const Dim *reader_dim(Reader *r, int at_least); /* operators of that precedence and tighter */
const Type *reader_type(Reader *r);
void reader_declaration(Reader *r); /* a line of a kernel's signature */

#endif

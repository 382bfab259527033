#define _POSIX_C_SOURCE 200809L

#include "compiler/parse/lexer.h"
#include "tests/unit/front_fixture.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* The tokens of a text, each as spelled, "\\n" for a NEWLINE, with a space between. */
static char *tokens_of(Front *front) {
    Lexer lexer;
    lexer_init(&lexer, &front->context);
    Buffer out = {0};
    for (Token token = lexer_next(&lexer); token.kind != TOKEN_END; token = lexer_next(&lexer)) {
        buffer_puts(&out, out.length ? " " : "");
        buffer_puts(&out, token.kind == TOKEN_NEWLINE ? "\\n" : token.text ? token.text : token_text(token.kind));
    }
    ck_assert_int_eq(lexer_next(&lexer).kind, TOKEN_END);
    char *text = arena_strndup(front->context.arena, out.data ? out.data : "", out.length);
    buffer_free(&out);
    return text;
}

START_TEST(newlines_end_statements) {
    static const struct {
        const char *text, *tokens;
    } cases[] = {
        {"a\nb", "a b"}, /* top level */
        {"{a\nb}", "{ a \\n b }"}, {"{\na\n\n\nb\n}\n", "{ \\n a \\n b \\n }"}, {"{a // c\nb}", "{ a \\n b }"}, {"{a /* c */ b}", "{ a b }"},
        {"{a /* c\n */ b}", "{ a \\n b }"}, {"{a; b}", "{ a ; b }"}, {"{f(a\n,b\n)\nc}", "{ f ( a , b ) \\n c }"},
        {"{f[a\n]\nc}", "{ f [ a ] \\n c }"}, {"{f([(\n)\n]\n)\nc}", "{ f ( [ ( ) ] ) \\n c }"}, {"{a +\nb}", "{ a + b }"},
        {"{a >>\nb &&\n c ==\n d}", "{ a >> b && c == d }"}, {"{a =\nb}", "{ a = b }"}, {"{a <<=\nb}", "{ a <<= b }"},
        {"{a + // c\n /* d */\n b}", "{ a + b }"}, {"{a,\nb}", "{ a , b }"}, {"{a ->\nb}", "{ a -> b }"}, {"{a !\nb}", "{ a ! \\n b }"},
        {"{a\n+ b}", "{ a \\n + b }"}, {"{if a\n{\n}\nelse\n{\n}\n}", "{ if a { \\n } else { \\n } \\n }"}, {"{a\r\nb\r\n}", "{ a \\n b \\n }"},
        {"{f(a\nlet b}", "{ f ( a \\n let b }"}, /* 'let' cannot stand in brackets */
        {"{f(a\nb}", "{ f ( a b }"}, {"{f(a}\nb {c\nd}", "{ f ( a } b { c \\n d }"},
        {"{a\nkernel b\n(c\n)\n{d\n}", "{ a kernel b ( c ) { d \\n }"}, /* nor 'kernel' in braces */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Front front;
        front_init(&front, cases[i].text, strlen(cases[i].text));
        ck_assert_str_eq(tokens_of(&front), cases[i].tokens);
        ck_assert_int_eq(front_finish(&front), 0);
        front_fini(&front);
    }
}
END_TEST

START_TEST(the_longest_token_wins) {
    static const struct {
        const char *text, *tokens;
    } cases[] = {
        {"a:+b a: +b", "a :+ b a : + b"},
        {"<<= << <= < >>= >> >= >", "<<= << <= < >>= >> >= >"},
        {"a<-b a->b a- >b", "a < - b a -> b a - > b"},
        {"&&& &= |||= ||", "&& & &= || |= ||"},
        {"!== ===", "!= = == ="},
        {"tensor<f32>[N]", "tensor < f32 > [ N ]"},
        {"a/b/ *c", "a / b / * c"},
        {"iff if_ If if", "iff if_ If if"},
        {"1.5.x", "1.5.x"}, /* one wrong number */
        {"a.b. c", "a . b . c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Front front;
        front_init(&front, cases[i].text, strlen(cases[i].text));
        ck_assert_str_eq(tokens_of(&front), cases[i].tokens);
        front_finish(&front);
        front_fini(&front);
    }
}
END_TEST

static Token only_token(Front *front, const char *text) {
    front_init(front, text, strlen(text));
    Lexer lexer;
    lexer_init(&lexer, &front->context);
    Token token = lexer_next(&lexer);
    ck_assert_msg(lexer_next(&lexer).kind == TOKEN_END, "'%s' is more than one token", text);
    return token;
}

START_TEST(keywords_and_names_differ) {
    static const char *const keywords[] = {
        "kernel", "fn", "let", "var", "if", "else", "for", "in", "while", "break", "continue", "return", "true", "false"};
    static const char *const names[] = {
        "tensor", "tile", "shared", "f32", "range", "ctx", "unroll", "dot", "autotune", "_", "a1", "Kernel", "infinity"};
    Front front;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        Token token = only_token(&front, keywords[i]);
        ck_assert_int_ge(token.kind, TOKEN_KERNEL);
        ck_assert_int_le(token.kind, TOKEN_FALSE);
        ck_assert_str_eq(token_text(token.kind), keywords[i]);
        front_fini(&front);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Token token = only_token(&front, names[i]);
        ck_assert_int_eq(token.kind, TOKEN_NAME);
        ck_assert_ptr_eq(token.text, intern_cstr(front.context.interner, names[i]));
        front_fini(&front);
    }
}
END_TEST

START_TEST(integers_have_values) {
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        {"0", 0},
        {"42", 42},
        {"007", 7},
        {"0x2a", 42},
        {"0X2A", 42},
        {"1_000_000", 1000000},
        {"0xff_ff", 65535},
        {"18446744073709551615", UINT64_MAX},
        {"0xffffffffffffffff", UINT64_MAX},
        {"0x00000000000000000001", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Front front;
        Token token = only_token(&front, cases[i].text);
        ck_assert_int_eq(front_finish(&front), 0);
        ck_assert_int_eq(token.kind, TOKEN_INT);
        ck_assert_uint_eq(token.int_value, cases[i].value);
        ck_assert_str_eq(token.text, cases[i].text);
        front_fini(&front);
    }
}
END_TEST

START_TEST(floats_have_values) {
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"1.0", 1},
        {"0.5", 0.5},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"1e-3", 1e-3},
        {"12.5e1", 125},
        {"0x1p-3", 0.125},
        {"0x1.8p1", 3},
        {"1_0.2_5", 10.25},
        {"4.9e-324", 4.9e-324},
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"inf", INFINITY},
    };
    Front front;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Token token = only_token(&front, cases[i].text);
        ck_assert_int_eq(front_finish(&front), 0);
        ck_assert_int_eq(token.kind, TOKEN_FLOAT);
        ck_assert(token.float_value == cases[i].value);
        ck_assert_str_eq(token.text, cases[i].text);
        front_fini(&front);
    }
    ck_assert(isnan(only_token(&front, "nan").float_value));
    front_fini(&front);
}
END_TEST

START_TEST(wrong_numbers_are_one_token_and_one_error) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"18446744073709551616", "larger than 2^64 - 1"},
        {"0x10000000000000000", "larger than 2^64 - 1"},
        {"99999999999999999999999999", "larger than 2^64 - 1"},
        {"1.", "both sides of its point"},
        {".5", "both sides of its point"},
        {"1.x", "both sides of its point"},
        {"1.e5", "both sides of its point"},
        {"1.2.3", "both sides of its point"},
        {"1e", "an exponent needs a digit"},
        {"1e+", "an exponent needs a digit"},
        {"0x", "after '0x'"},
        {"0xg", "after '0x'"},
        {"0x1.8", "needs an exponent"},
        {"1_", "between two digits"},
        {"1__0", "between two digits"},
        {"0x_1", "between two digits"},
        {"1_.5", "between two digits"},
        {"1._5", "between two digits"},
        {"1e_5", "between two digits"},
        {"12abc", "do not belong to the number"},
        {"1.0f", "do not belong to the number"},
        {"0b1", "do not belong to the number"},
        {"1e999", "too large for f64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Front front;
        Token token = only_token(&front, cases[i].text);
        bool number = token.kind == TOKEN_INT || token.kind == TOKEN_FLOAT;
        ck_assert_msg(number == (cases[i].text[0] != '.'), "%s", cases[i].text);
        ck_assert_msg(front_finish(&front) == 1, "%s: %s", cases[i].text, front.messages);
        ck_assert_msg(strstr(front.messages, cases[i].message) != NULL, "%s: %s", cases[i].text, front.messages);
        ck_assert_ptr_nonnull(strstr(front.messages, "t.phb:1:1: error: "));
        front_fini(&front);
    }
}
END_TEST

START_TEST(wrong_bytes_are_errors_with_a_position) {
    static const struct {
        const char *text;
        size_t length;
        const char *message; /* NULL: none */
    } cases[] = {
        {"a \xC3\xA4\xC3\xB6 b", 8, "t.phb:1:3: error: a character that is not ASCII"},
        {"a\n  \xFF", 5, "t.phb:2:3: error: a character that is not ASCII"},
        {"\xEF\xBB\xBF", 3, "t.phb:1:1: error: a character that is not ASCII"}, /* source.c passes the mark at the start of a file */
        {"a\0\0b", 4, "t.phb:1:2: error: a NUL byte"},
        {"// \0", 4, "t.phb:1:4: error: a NUL byte"},
        {"/*\n\0\0 */", 8, "t.phb:2:1: error: a NUL byte"},
        {"a $ b", 5, "t.phb:1:3: error: unexpected character '$'"},
        {"a \x01", 3, "t.phb:1:3: error: unexpected character 0x01"},
        {"a \x7F", 3, "t.phb:1:3: error: unexpected character 0x7f"},
        {"\f", 1, "t.phb:1:1: error: unexpected character 0x0c"},
        {"x \"a + b\" y", 11, "t.phb:1:3: error: the language has no strings"},
        {"x 'a\ny", 6, "t.phb:1:3: error: the language has no strings"},
        {"a /* b\n", 7, "t.phb:1:3: error: this comment is not closed"},
        {"/*/", 3, "t.phb:1:1: error: this comment is not closed"},
        {"// \xC3\xA4 \xFF\n/* \xC3\xA4 */ a", 17, NULL},
        {"/**/ a /***/ // /*", 18, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Front front;
        front_init(&front, cases[i].text, cases[i].length);
        tokens_of(&front);
        ck_assert_msg(front_finish(&front) == (cases[i].message ? 1 : 0), "case %zu: %s", i, front.messages);
        if (cases[i].message)
            ck_assert_msg(strncmp(front.messages, cases[i].message, strlen(cases[i].message)) == 0, "case %zu: %s", i, front.messages);
        front_fini(&front);
    }
}
END_TEST

START_TEST(tokens_have_positions) {
    static const char text[] = "{ab +\n\tcd /*\n*/ e\n}";
    static const Span spans[] = {{1, 1, 1}, {1, 2, 2}, {1, 5, 1}, {2, 2, 2}, {2, 4, 1}, {3, 4, 1}, {3, 5, 1}, {4, 1, 1}, {4, 2, 1}};
    static const bool line_starts[] = {true, false, false, true, false, true, false, true, false};
    Front front;
    front_init(&front, text, sizeof text - 1);
    Lexer lexer;
    lexer_init(&lexer, &front.context);
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        Token token = lexer_next(&lexer);
        ck_assert_uint_eq(token.span.line, spans[i].line);
        ck_assert_uint_eq(token.span.column, spans[i].column);
        ck_assert_uint_eq(token.span.length, spans[i].length);
        ck_assert_int_eq(token.line_start, line_starts[i]);
        if (token.kind == TOKEN_NEWLINE)
            ck_assert_int_eq(lexer_after_newline(&lexer)->line_start, true);
    }
    front_fini(&front);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lexer");
    TCase *tcase = tcase_create("lexer");
    tcase_add_test(tcase, newlines_end_statements);
    tcase_add_test(tcase, the_longest_token_wins);
    tcase_add_test(tcase, keywords_and_names_differ);
    tcase_add_test(tcase, integers_have_values);
    tcase_add_test(tcase, floats_have_values);
    tcase_add_test(tcase, wrong_numbers_are_one_token_and_one_error);
    tcase_add_test(tcase, wrong_bytes_are_errors_with_a_position);
    tcase_add_test(tcase, tokens_have_positions);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

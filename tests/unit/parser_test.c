#define _POSIX_C_SOURCE 200809L

#include "compiler/parse/ast.h"
#include "tests/unit/front_fixture.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static Ast *parse_text(Front *front, const char *text) {
    front_init(front, text, strlen(text));
    return parse_source(&front->context);
}

static char *print_text(Front *front, const Ast *ast) {
    Buffer out = {0};
    ast_print(&out, ast);
    char *text = arena_strndup(front->context.arena, out.data ? out.data : "", out.length);
    buffer_free(&out);
    return text;
}

/* Parses `text` without a message, and checks that it prints as `printed`, and that what is printed prints the same. */
static void assert_prints(const char *text, const char *printed) {
    Front front, again;
    const Ast *ast = parse_text(&front, text);
    ck_assert_msg(front_finish(&front) == 0, "%s\n%s", text, front.messages);
    const char *first = print_text(&front, ast);
    ck_assert_str_eq(first, printed);
    ast = parse_text(&again, first);
    ck_assert_msg(front_finish(&again) == 0, "%s\n%s", first, again.messages);
    ck_assert_str_eq(print_text(&again, ast), first);
    front_fini(&again);
    front_fini(&front);
}

/* ---- what is accepted ---- */

START_TEST(statements_print_in_one_layout) {
    static const struct {
        const char *text, *printed; /* of the body of a fn, indented by 4 */
    } cases[] = {
        {"", ""},
        {";;\n;", ""},
        {"let x=1;let y = 2", "    let x = 1\n    let y = 2\n"},
        {"let x: f32 = 1", "    let x: f32 = 1\n"},
        {"var x = 1", "    var x = 1\n"},
        {"var x: i64", "    var x: i64\n"},
        {"var t: tile<bf16>[16, 2*N] = 0.0", "    var t: tile<bf16>[16, 2 * N] = 0.0\n"},
        {"var s: shared < f32 > [ A, B, C ]", "    var s: shared<f32>[A, B, C]\n"},
        {"x = 1", "    x = 1\n"},
        {"x[i, :] = y", "    x[i, :] = y\n"},
        {"remote(s, r)[i] = y", "    remote(s, r)[i] = y\n"},
        {"a+=1;a-=1;a*=1;a/=1;a%=1", "    a += 1\n    a -= 1\n    a *= 1\n    a /= 1\n    a %= 1\n"},
        {"a&=1;a|=1;a^=1;a<<=1;a>>=1", "    a &= 1\n    a |= 1\n    a ^= 1\n    a <<= 1\n    a >>= 1\n"},
        {"for i in range(n) {}", "    for i in range(n) {\n    }\n"},
        {"for i in range(0, n) { f() }", "    for i in range(0, n) {\n        f()\n    }\n"},
        {"for i in range(\n0,\nn,\n-2\n)\n{\n}", "    for i in range(0, n, -2) {\n    }\n"},
        {"for<unroll 4>i in range(n){}", "    for<unroll 4> i in range(n) {\n    }\n"},
        {"for < unroll U > i in range(n) {}", "    for<unroll U> i in range(n) {\n    }\n"},
        {"while a < b { break; continue }", "    while a < b {\n        break\n        continue\n    }\n"},
        {"if a { f() }", "    if a {\n        f()\n    }\n"},
        {"if a { f() } g()", "    if a {\n        f()\n    }\n    g()\n"},
        {"if a {}\n\nelse\n{}", "    if a {\n    } else {\n    }\n"},
        {"if a {} else if b {} else if c {} else {}", "    if a {\n    } else if b {\n    } else if c {\n    } else {\n    }\n"},
        {"if a {} else { if b {} }", "    if a {\n    } else if b {\n    }\n"},
        {"if a {} else { if b {}; f() }", "    if a {\n    } else {\n        if b {\n        }\n        f()\n    }\n"},
        {"return", "    return\n"},
        {"return x", "    return x\n"},
        {"return\nf()", "    return\n    f()\n"},
        {"f()", "    f()\n"},
        {"f(a, b,)", "    f(a, b)\n"},
        {"f(\na\n+ b\n,\nc\n)", "    f(a + b, c)\n"},
        {"x = a +\n\n  // why\n  b *\n  c", "    x = a + b * c\n"},
        {"x =\n1", "    x = 1\n"},
        {"let range = tensor + tile + ctx + unroll + f32", "    let range = tensor + tile + ctx + unroll + f32\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512], printed[512];
        snprintf(text, sizeof text, "fn f() {%s}", cases[i].text);
        snprintf(printed, sizeof printed, "fn f() {\n%s}\n", cases[i].printed);
        assert_prints(text, printed);
    }
}
END_TEST

START_TEST(declarations_print_in_one_layout) {
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"", ""},
        {"\n\n// nothing\n", ""},
        {"fn f(){}", "fn f() {\n}\n"},
        {"fn f\n(\na,\nb: f32,\n)\n->\nf32\n{\n}", "fn f(a, b: f32) -> f32 {\n}\n"},
        {"fn f() -> tile<f32>[1, N] {}", "fn f() -> tile<f32>[1, N] {\n}\n"},
        {"kernel k() {} fn f() {}", "kernel k() {\n}\n\nfn f() {\n}\n"},
        {"kernel k(a: tensor<u8>[N, N + K - 1], s: f16,) {}", "kernel k(a: tensor<u8>[N, N + K - 1], s: f16) {\n}\n"},
        {"@fastmath kernel k() {}", "@fastmath\nkernel k() {\n}\n"},
        {"@fastmath\n\n@launch(256,\n2)\nkernel k() {}", "@fastmath\n@launch(256, 2)\nkernel k() {\n}\n"},
        {"@autotune(A in [1], B in [2, 3,],) kernel k() {}", "@autotune(A in [1], B in [2, 3])\nkernel k() {\n}\n"},
        {"@halo(A = w, B = [1, N * 2]) kernel k() {}", "@halo(A = w, B = [1, N * 2])\nkernel k() {\n}\n"},
        {"@require(C <= BC, D == 1) kernel k() {}", "@require(C <= BC, D == 1)\nkernel k() {\n}\n"},
        {"@x(a) kernel k() {}", "@x(a)\nkernel k() {\n}\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_prints(cases[i].text, cases[i].printed);
}
END_TEST

/* An expression with every operator in parentheses, so that the shape of its tree shows. */
static void shape_print(Buffer *out, const Expr *expr) {
    static const char *const unary[] = {[UNARY_NEG] = "-", [UNARY_NOT] = "!", [UNARY_BITNOT] = "~"};
    static const char *const between[] = {[SUB_POINT] = "", [SUB_ALL] = ":", [SUB_TO] = ":", [SUB_FROM] = ":", [SUB_RANGE] = ":", [SUB_COUNT] = ":+"};
    switch (expr->kind) {
    case EXPR_UNARY:
        buffer_printf(out, "(%s", unary[expr->unary]);
        shape_print(out, expr->left);
        break;
    case EXPR_BINARY:
        buffer_puts(out, "(");
        shape_print(out, expr->left);
        buffer_puts(out, binary_op_text(expr->binary));
        shape_print(out, expr->right);
        break;
    case EXPR_CALL:
        buffer_puts(out, "(call ");
        shape_print(out, expr->left);
        for (int i = 0; i < expr->args.count; i++) {
            buffer_puts(out, " ");
            shape_print(out, expr->args.items[i]);
        }
        break;
    case EXPR_INDEX:
        buffer_puts(out, "(index ");
        shape_print(out, expr->left);
        for (int i = 0; i < expr->subs.count; i++) {
            const Sub *sub = &expr->subs.items[i];
            buffer_puts(out, " ");
            if (sub->a)
                shape_print(out, sub->a);
            buffer_puts(out, between[sub->kind]);
            if (sub->b)
                shape_print(out, sub->b);
        }
        break;
    case EXPR_FIELD:
        buffer_puts(out, "(field ");
        shape_print(out, expr->left);
        buffer_printf(out, " %s", expr->text);
        break;
    default:
        expr_print(out, expr);
        return;
    }
    buffer_puts(out, ")");
}

START_TEST(expressions_have_shapes) {
    static const struct {
        const char *text, *shape, *printed; /* printed: NULL where it is the text */
    } cases[] = {
        {"a || b && c | d ^ e & f == g < h << i + j * k", "(a||(b&&(c|(d^(e&(f==(g<(h<<(i+(j*k))))))))))", NULL},
        {"a * b + c << d < e == f & g ^ h | i && j || k", "((((((((((a*b)+c)<<d)<e)==f)&g)^h)|i)&&j)||k)", NULL},
        {"a - b - c", "((a-b)-c)", NULL},
        {"a - (b - c)", "(a-(b-c))", NULL},
        {"(a - b) - c", "((a-b)-c)", "a - b - c"},
        {"a / b * c % d", "(((a/b)*c)%d)", NULL},
        {"a << b >> c", "((a<<b)>>c)", NULL},
        {"a == b != c", "((a==b)!=c)", NULL},
        {"a < b <= c > d >= e", "((((a<b)<=c)>d)>=e)", NULL},
        {"a + b * c - d", "((a+(b*c))-d)", NULL},
        {"(a + b) * (c - d)", "((a+b)*(c-d))", NULL},
        {"((a))", "a", "a"},
        {"-a[0] + -b.c", "((-(index a 0))+(-(field b c)))", NULL},
        {"- - a", "(-(-a))", "--a"},
        {"!~-a", "(!(~(-a)))", NULL},
        {"a - -b", "(a-(-b))", NULL},
        {"-a * b", "((-a)*b)", NULL},
        {"-(a * b)", "(-(a*b))", NULL},
        {"(-a)[0]", "(index (-a) 0)", NULL},
        {"(a + b)(c)", "(call (a+b) c)", NULL},
        {"f(a)(b)[c].d", "(field (index (call (call f a) b) c) d)", NULL},
        {"f(a, -b, g())", "(call f a (-b) (call g))", NULL},
        {"ctx.block.x * S", "((field (field ctx block) x)*S)", NULL},
        {"a[:, :b, c, d:, e:f, g :+ h]", "(index a : :b c d: e:f g:+h)", NULL},
        {"a[i+1:+n*2]", "(index a (i+1):+(n*2))", "a[i + 1 :+ n * 2]"},
        {"a[-1:-b]", "(index a (-1):(-b))", NULL},
        {"a[: -b]", "(index a :(-b))", "a[:-b]"},
        {"(1).x", "(field 1 x)", NULL},
        {"1[0] + 2.0(x)", "((index 1 0)+(call 2.0 x))", NULL},
        {"0x1F + 1e-3 + inf + nan + true + false", "(((((0x1F+1e-3)+inf)+nan)+true)+false)", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256], printed[256];
        Front front;
        snprintf(text, sizeof text, "fn f() { return %s }", cases[i].text);
        const Ast *ast = parse_text(&front, text);
        ck_assert_msg(front_finish(&front) == 0, "%s\n%s", text, front.messages);
        Buffer shape = {0};
        shape_print(&shape, ast->decls.items[0]->body.items[0]->value);
        ck_assert_str_eq(shape.data, cases[i].shape);
        buffer_free(&shape);
        front_fini(&front);
        snprintf(printed, sizeof printed, "fn f() {\n    return %s\n}\n", cases[i].printed ? cases[i].printed : cases[i].text);
        assert_prints(text, printed);
    }
}
END_TEST

static void assert_span(Span span, uint32_t line, uint32_t column, uint32_t length) {
    ck_assert_uint_eq(span.line, line);
    ck_assert_uint_eq(span.column, column);
    ck_assert_uint_eq(span.length, length);
}

START_TEST(nodes_have_positions) {
    Front front;
    const Ast *ast = parse_text(&front, "@grid(x)\n"
                                        "kernel k(abc: tile<f32>[1]) {\n"
                                        "    let y = (a + b) * c.d // end\n"
                                        "    y[i :+ 2] = f(a, // of two\n"
                                        "        b) + 1\n"
                                        "    if a { g() }\n"
                                        "    while x {\n"
                                        "    }\n"
                                        "}\n");
    ck_assert_int_eq(front_finish(&front), 0);
    const Decl *decl = ast->decls.items[0];
    assert_span(decl->attrs.items[0].span, 1, 1, 5);
    assert_span(decl->attrs.items[0].args.items[0].span, 1, 7, 1);
    assert_span(decl->span, 2, 1, 6);
    assert_span(decl->name_span, 2, 8, 1);
    assert_span(decl->params.items[0].span, 2, 10, 3);
    assert_span(decl->params.items[0].type->span, 2, 15, 12);

    const Stmt *let = decl->body.items[0];
    assert_span(let->span, 3, 5, 21);
    assert_span(let->name_span, 3, 9, 1);
    assert_span(let->value->span, 3, 13, 13);
    assert_span(let->value->op_span, 3, 21, 1);
    assert_span(let->value->left->span, 3, 13, 7); /* with its parentheses */
    assert_span(let->value->right->op_span, 3, 25, 1);

    const Stmt *assign = decl->body.items[1]; /* over two lines: cut at the end of the first, its comment apart */
    assert_span(assign->span, 4, 5, 16);
    assert_span(assign->target->subs.items[0].span, 4, 7, 6);
    assert_span(assign->value->span, 4, 17, 4);
    assert_span(assign->value->op_span, 5, 12, 1);
    assert_span(assign->value->right->span, 5, 14, 1);

    assert_span(decl->body.items[2]->span, 6, 5, 12);
    assert_span(decl->body.items[3]->span, 7, 5, 9);
    front_fini(&front);
}
END_TEST

START_TEST(mixed_bitwise_and_comparison_warns) {
    static const struct {
        const char *text, *warning; /* NULL: none */
    } cases[] = {
        {"a & b == 0", "1:23: warning: '==' binds tighter than '&'"},
        {"a == 0 & b", "1:19: warning: '==' binds tighter than '&'"},
        {"a | b < c", "1:23: warning: '<' binds tighter than '|'"},
        {"a ^ b >= c", "1:23: warning: '>=' binds tighter than '^'"},
        {"(a & b) == 0", NULL},
        {"a & (b == 0)", NULL},
        {"a < b & c < d", NULL}, /* a mask of two comparisons can mean nothing else */
        {"a && b == 0", NULL},
        {"a & b + 1", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[128];
        Front front;
        snprintf(text, sizeof text, "fn f() { return %s }", cases[i].text);
        parse_text(&front, text);
        ck_assert_int_eq(front_finish(&front), 0);
        if (cases[i].warning)
            ck_assert_msg(strstr(front.messages, cases[i].warning) && strstr(front.messages, "[-Wprecedence]"), "%s\n%s", text, front.messages);
        else
            ck_assert_msg(front.messages_length == 0, "%s\n%s", text, front.messages);
        front_fini(&front);
    }
}
END_TEST

/* ---- what is refused ---- */

/* Checks that the errors of `text` are exactly `errors`: "line:column: message" each, a newline after it, notes and sources left out. */
static void assert_errors(const char *text, const char *errors) {
    Front front;
    parse_text(&front, text);
    front_finish(&front);
    Buffer found = {0};
    for (char *line = strtok(front.messages, "\n"); line; line = strtok(NULL, "\n")) {
        const char *message = strstr(line, ": error: ");
        if (message && strncmp(line, "t.phb:", 6) == 0)
            buffer_printf(&found, "%.*s: %s\n", (int)(message - line - 6), line + 6, message + 9);
    }
    ck_assert_msg(strcmp(found.data ? found.data : "", errors) == 0, "%s\ngives\n%snot\n%s", text, found.data ? found.data : "", errors);
    buffer_free(&found);
    front_fini(&front);
}

START_TEST(a_wrong_statement_is_one_error) {
    static const struct {
        const char *text, *error; /* the text stands on line 2 of a fn, from column 1 */
    } cases[] = {
        {"let = 5", "2:5: expected a name, found '='\n"},
        {"let let = 5", "2:5: expected a name, found 'let'\n"},
        {"let x", "2:6: expected ':' or '=', found end of line\n"},
        {"let x: f32", "2:11: expected '=', found end of line\n"},
        {"let x\n= 5", "3:1: a line cannot start with '=': end the line before with it\n"},
        {"var x", "2:6: expected ':' or '=', found end of line\n"},
        {"x = ", "3:1: expected an expression, found '}'\n"},
        {"x = 1 y = 2", "2:7: expected the end of the line or ';', found 'y'\n"},
        {"x y", "2:3: expected an assignment, or the end of the line or ';' (variables are declared by 'let' and 'var'), found 'y'\n"},
        {"x", "2:1: an expression that stands as a statement must be a call\n"},
        {"x + 1", "2:1: an expression that stands as a statement must be a call\n"},
        {"x == 1", "2:1: an expression that stands as a statement must be a call\n"},
        {"a.b", "2:1: an expression that stands as a statement must be a call\n"},
        {"!x", "2:1: an expression that stands as a statement must be a call\n"},
        {"a + b = 1", "2:1: only a name, an element or a slice can be assigned to\n"},
        {"f(x) += 1", "2:1: only a name, an element or a slice can be assigned to\n"},
        {"ctx.block.x = 1", "2:1: only a name, an element or a slice can be assigned to\n"},
        {"3 = x", "2:1: only a name, an element or a slice can be assigned to\n"},
        {"x = a\n + b", "3:2: a line cannot start with '+': end the line before with it\n"},
        {"x = a\n- b", "3:1: a line cannot start with '-': end the line before with it\n"},
        {"f()\n, g()", "3:1: a line cannot start with ',': end the line before with it\n"},
        {"while a\n&& b {\n}", "3:1: a line cannot start with '&&': end the line before with it\n"},
        {"x = a +\nlet b = 1", "2:8: expected an expression, found end of line\n"},
        {"x =+ 1", "2:4: expected an expression, found '+'\n"},
        {"x++", "2:3: expected an expression, found '+'\n"},
        {"f(a, b", "2:7: expected ',' or ')', found end of line\n"},
        {"f(a, b\nlet c = 1", "2:7: expected ',' or ')', found end of line\n"},
        {"f(a b)", "2:5: expected ',' or ')', found 'b'\n"},
        {"f(a b,\n c)", "2:5: expected ',' or ')', found 'b'\n"},
        {"f(,)", "2:3: expected an expression, found ','\n"},
        {"x = (a", "2:7: expected ')', found end of line\n"},
        {"x = a)", "2:6: expected the end of the line or ';', found ')'\n"},
        {"x = a[]", "2:7: expected an expression, found ']'\n"},
        {"x = a[1,]", "2:9: expected an expression, found ']'\n"},
        {"x = a[:+ 3]", "2:7: expected the start of the slice, found ':+'\n"},
        {"x = a[1::2]", "2:9: expected an expression, found ':'\n"},
        {"x = a[1:2:3]", "2:10: expected ',' or ']', found ':'\n"},
        {"x = a[1)", "2:8: expected ',' or ']', found ')'\n"},
        {"x = a.", "2:7: expected a name after '.', found end of line\n"},
        {"x = a.1", "2:6: a number needs a digit on both sides of its point\n"},
        {"x = kernel", "2:5: expected an expression, found 'kernel'\n"},
        {"x = $", "2:5: unexpected character '$'\n"},
        {"x = 1.", "2:5: a number needs a digit on both sides of its point\n"},
        {"for i in 3 {}", "2:10: expected 'range(..)', found '3'\n"},
        {"for i in range() {}", "2:16: expected an expression, found ')'\n"},
        {"for i in range(1, 2, 3, 4) {}", "2:25: expected ')' after start, end and step, found '4'\n"},
        {"for i in range(1,) {}", "2:18: expected an expression, found ')'\n"},
        {"for i of range(1) {}", "2:7: expected 'in', found 'of'\n"},
        {"for<unroll> i in range(1) {}", "2:11: expected an integer or a search dim, found '>'\n"},
        {"for<roll 2> i in range(1) {}", "2:5: expected 'unroll', found 'roll'\n"},
        {"for<unroll 2 + 2> i in range(1) {}", "2:14: expected '>', found '+'\n"},
        {"while { }", "2:7: expected an expression, found '{'\n"},
        {"if a b = 1", "2:6: expected '{', found 'b'\n"},
        {"if a { } else b = 1", "2:15: expected '{', found 'b'\n"},
        {"if a {\n}\nelse\nif b { }", "4:5: expected '{', found end of line\n"},
        {"else { }", "2:1: 'else' without an 'if' before it\n"},
        {"if a { x y } else b { z w }",
            "2:10: expected an assignment, or the end of the line or ';' (variables are declared by 'let' and 'var'), found 'y'\n2:19: expected '{', "
            "found 'b'\n"
            "2:25: expected an assignment, or the end of the line or ';' (variables are declared by 'let' and 'var'), found 'w'\n"},
        {"in", "2:1: expected a statement, found 'in'\n"},
        {"{ f() }", "2:1: expected a statement, found '{'\n"},
        {"return return", "2:8: expected an expression, found 'return'\n"},
        {"break 1", "2:7: expected the end of the line or ';', found '1'\n"},
        {"let x: f33 = 1", "2:8: 'f33' is not a type; did you mean 'f32'?\n"},
        {"let x: 3 = 1", "2:8: expected a type, found '3'\n"},
        {"let x: tile = 1", "2:13: expected '<' and a scalar type, found '='\n"},
        {"let x: tile<tile>[1] = 1", "2:13: 'tile' is not a scalar type\n"},
        {"let x: tile<f32> = 1", "2:18: expected '[' and the extents of the type, found '='\n"},
        {"let x: tile<f32>[] = 1", "2:18: expected an expression, found ']'\n"},
        {"let x: tile<f32>[1,] = 1", "2:20: expected an expression, found ']'\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "fn f() {\n%s\n}\n", cases[i].text);
        assert_errors(text, cases[i].error);
    }
}
END_TEST

START_TEST(a_wrong_declaration_is_one_error) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"x", "1:1: expected 'kernel', 'fn' or an attribute, found 'x'\n"},
        {"let x = 1\nx = 2\n", "1:1: expected 'kernel', 'fn' or an attribute, found 'let'\n"},
        {"fn f() { }\n}\nfn g() { }", "2:1: expected 'kernel', 'fn' or an attribute, found '}'\n"},
        {"fn", "1:3: expected a name, found end of file\n"},
        {"fn f", "1:5: expected '(' and parameters, found end of file\n"},
        {"fn f() ", "1:7: expected '{', found end of file\n"},
        {"fn f() -> { }", "1:11: expected a type, found '{'\n"},
        {"fn f(a b) { }", "1:8: expected ',' or ')', found 'b'\n"},
        {"fn f(: f32) { }", "1:6: expected the name of a parameter, found ':'\n"},
        {"fn if() { }", "1:4: expected a name, found 'if'\n"},
        {"kernel k(a) { }", "1:10: the parameter 'a' of a kernel needs a type\n"},
        {"kernel k() -> f32 { }", "1:12: expected '{', found '->'\n"},
        {"kernel k(a: tensor<f32>) { }", "1:24: expected '[' and the extents of the type, found ')'\n"},
        {"@fastmath fn f() { }", "1:1: an attribute belongs to a kernel, not to a fn\n"},
        {"@fastmath", "1:10: expected 'kernel' after its attributes, found end of file\n"},
        {"@ kernel k() { }", "1:3: expected the name of an attribute, found 'kernel'\n"},
        {"@a() kernel k() { }", "1:4: expected an expression, found ')'\n"},
        {"@a(X = ) kernel k() { }", "1:8: expected an expression, found ')'\n"},
        {"@a(X in []) kernel k() { }", "1:10: expected an expression, found ']'\n"},
        {"@a(X in 3) kernel k() { }", "1:9: expected '[' and a list of values, found '3'\n"},
        {"@a(X in [1, 2)\nkernel k() { }", "1:14: expected ',' or ']', found ')'\n"},
        {"@a(X in [1], Y in [2)\nkernel k() {\n x = \n}", "1:21: expected ',' or ']', found ')'\n4:1: expected an expression, found '}'\n"},
        {"@a(1 in [2]) kernel k() { }", "1:6: expected ',' or ')', found 'in'\n"},
        {"fn f() { /* }", "1:10: this comment is not closed\n"},
        {"fn f() {", "1:9: expected '}', found end of file\n"},
        {"fn f() {\n if a {\n  while b {\n", "3:12: expected '}', found end of file\n"},
        {"fn f() {\n if a {\n x = 1\nkernel k() {\n y = \n}\n", "4:1: expected '}', found 'kernel'\n6:1: expected an expression, found '}'\n"},
        {"fn f() {\n x = 1\n@a\nkernel k() { }\n", "3:1: expected '}', found '@'\n"},
        {"fn f() {\n let = 1\n f(\n let y = 2 2\n}\nfn g() {\n x\n}",
            "2:6: expected a name, found '='\n3:4: expected an expression, found end of line\n"
            "4:12: expected the end of the line or ';', found '2'\n7:2: an expression that stands as a statement must be a call\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_errors(cases[i].text, cases[i].error);
}
END_TEST

START_TEST(what_is_wrong_is_left_out_and_the_rest_is_kept) {
    Front front;
    const Ast *ast = parse_text(&front, "fn f() {\n let = 1\n g()\n}\nfn 3() { }\nfn h() {\n if a { x y\n z() }\n}\n");
    ck_assert_int_eq(front_finish(&front), 3);
    ck_assert_str_eq(print_text(&front, ast), "fn f() {\n    g()\n}\n\nfn h() {\n    if a {\n        z()\n    }\n}\n");
    front_fini(&front);
}
END_TEST

/* ---- limits ---- */

typedef struct Nest {
    const char *before, *open, *middle, *close, *after;
    int most; /* so many `open`s are accepted, one more is not */
    const char *message;
} Nest;

static const Nest nests[] = {
    /* The fn's block counts as one. */
    {"fn f() { x = ", "(", "1", ")", " }", PARSE_MAX_DEPTH - 1, "nesting deeper than 200"},
    {"fn f() { x = ", "-", "1", "", " }", PARSE_MAX_DEPTH - 1, "nesting deeper than 200"},
    {"fn f() { x = ", "a[", "1", "]", " }", PARSE_MAX_DEPTH - 1, "nesting deeper than 200"},
    {"fn f() { x = ", "a(b, ", "1", ")", " }", PARSE_MAX_DEPTH - 1, "nesting deeper than 200"},
    {"fn f() { ", "if a { ", "", "}", " }", PARSE_MAX_DEPTH - 1, "nesting deeper than 200"},
    {"fn f() { ", "for i in range(n) { ", "", "}", " }", PARSE_MAX_DEPTH - 1, "nesting deeper than 200"},
    {"fn f() { if a { }", " else if b { }", "", "", " }", PARSE_MAX_DEPTH - 2, "nesting deeper than 200"},
    {"fn f() { let x: tile<f32>[", "(", "1", ")", "] = 0 }", PARSE_MAX_DEPTH - 2, "nesting deeper than 200"},
    {"@a(X in [", "(", "1", ")", "]) kernel k() { }", PARSE_MAX_DEPTH - 2, "nesting deeper than 200"},
    {"fn f() { x = a", "", "", " + a", " }", PARSE_MAX_HEIGHT - 1, "more than 1000 operators"},
    {"fn f() { x = a", "", "", "[0]", " }", PARSE_MAX_HEIGHT - 1, "more than 1000 operators"},
    {"fn f() { x = a", "", "", ".b", " }", PARSE_MAX_HEIGHT - 1, "more than 1000 operators"},
    {"fn f() { x = a", "", "", "()", " }", PARSE_MAX_HEIGHT - 1, "more than 1000 operators"},
    {"fn f() { x = ", "(a * a * a * a * a * a + ", "1", ")", " }", (PARSE_MAX_DEPTH - 1), "nesting deeper than 200"},
    {"fn f() { x = ", "(", "1", " * a * a * a * a * a)", " }", (PARSE_MAX_DEPTH - 1), "nesting deeper than 200"},
};

static char *nest_text(const Nest *nest, int count) {
    Buffer text = {0};
    buffer_puts(&text, nest->before);
    for (int i = 0; i < count; i++)
        buffer_puts(&text, nest->open);
    buffer_puts(&text, nest->middle);
    for (int i = 0; i < count; i++)
        buffer_puts(&text, nest->close);
    buffer_puts(&text, nest->after);
    return text.data;
}

/* Gives the number of errors; parses, and prints what has none. */
static int nest_errors(const Nest *nest, int count) {
    Front front;
    char *text = nest_text(nest, count);
    const Ast *ast = parse_text(&front, text);
    int errors = front_finish(&front);
    if (errors)
        ck_assert_msg(strstr(front.messages, nest->message) != NULL, "%.300s", front.messages);
    else
        print_text(&front, ast);
    front_fini(&front);
    free(text);
    return errors;
}

static void *nests_check(void *unused) {
    (void)unused;
    for (size_t i = 0; i < COUNT(nests); i++) {
        const Nest *nest = &nests[i];
        ck_assert_msg(nest_errors(nest, nest->most) == 0, "case %zu: %d refused", i, nest->most);
        ck_assert_msg(nest_errors(nest, nest->most + 1) == 1, "case %zu: %d accepted", i, nest->most + 1);
        ck_assert_int_eq(nest_errors(nest, 100000), 1);
    }
    return NULL;
}

/* On a stack of 256 KiB: the limits, not luck, keep recursion in bounds. */
START_TEST(nesting_is_bounded) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, nests_check, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("parser");
    TCase *accepted = tcase_create("accepted");
    tcase_add_test(accepted, statements_print_in_one_layout);
    tcase_add_test(accepted, declarations_print_in_one_layout);
    tcase_add_test(accepted, expressions_have_shapes);
    tcase_add_test(accepted, nodes_have_positions);
    tcase_add_test(accepted, mixed_bitwise_and_comparison_warns);
    suite_add_tcase(suite, accepted);

    TCase *refused = tcase_create("refused");
    tcase_add_test(refused, a_wrong_statement_is_one_error);
    tcase_add_test(refused, a_wrong_declaration_is_one_error);
    tcase_add_test(refused, what_is_wrong_is_left_out_and_the_rest_is_kept);
    suite_add_tcase(suite, refused);

    TCase *limits = tcase_create("limits");
    tcase_set_timeout(limits, 60);
    tcase_add_test(limits, nesting_is_bounded);
    suite_add_tcase(suite, limits);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

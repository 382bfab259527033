/* One bad module, at least, for each rule of the verifier. What text can say is said in text; what only a broken pass can make is made by hand. */
#include "tests/unit/ir_fixture.h"

#define DECLARATIONS                                                                                                                                 \
    "dim N\n"                                                                                                                                        \
    "search B leaf [16, 32]\n"                                                                                                                       \
    "search ONE leaf [1]\n"                                                                                                                          \
    "search C leaf [16]\n"                                                                                                                           \
    "param a: tensor<f32>[N]\n"                                                                                                                      \
    "param m: tensor<f32>[N, N]\n"                                                                                                                   \
    "param q: tensor<f32>[N, N, N]\n"                                                                                                                \
    "param x: f32\n"                                                                                                                                 \
    "param i: i64\n"                                                                                                                                 \
    "param j: i32\n"                                                                                                                                 \
    "param p: bool\n"

static char *module_text(const char *declarations, const char *body) {
    static char text[1 << 16];
    snprintf(text, sizeof text, "phobos-ir 1\nfile \"t.phb\"\nkernel k\n%s{\n%s}\n", declarations, body);
    return text;
}

typedef struct Case {
    const char *text; /* declarations or body */
    const char *message;
} Case;

static void expect_message(const char *text, const char *message) {
    Fixture f;
    fixture_open(&f, text, strlen(text));
    IrModule *module = ir_read(&f.context);
    fixture_finish(&f);
    if (message)
        ck_assert_msg(!module && strstr(f.messages, message), "%s\n-- said:\n%s\n-- expected:\n%s", text, f.messages, message);
    else
        ck_assert_msg(module && f.messages_length == 0, "%s\n-- said:\n%s", text, f.messages);
    fixture_close(&f);
}

static const Case declarations[] = {
    {"dim N\ndim N\n", "t.ir:3:8: error: 'kernel k': dim 'N' is declared twice"},
    {"dim N\nsearch N leaf [1]\n", "'kernel k': dim 'N' is declared twice"},
    {"search B leaf [0]\n", "a value of search dim 'B' is 0, expected at least 1"},
    {"cluster\nsearch B leaf [1] cluster [4, -4]\n", "a value of search dim 'B' is -4, expected at least 1"},
    {"search B leaf [1] cluster [4]\n", "search dim 'B' has cluster values in a kernel without 'cluster'"},
    {"param a: f32\nparam a: f32\n", "parameter 'a' is declared twice"},
    {"param a: tile<f32>[4]\n", "parameter 'a' is a 'tile<f32>[4]', expected a tensor or a scalar"},
    {"param a: tensor<f32>[N]\n", "'N' is no dim of the kernel"},
    {"param a: tensor<f32>[0]\n", "an extent is at least 1, found 0"},
    {"param b: tensor<f32>[4]\nparam a: tensor<f32>[extent(b, 0)]\n", "'extent(b, 0)' cannot stand here"},
    {"grid x M\n", "'M' is no dim of the kernel"},
    {"grid x extent(a, 0)\n", "'a' is no tensor of the kernel"},
    {"param a: f32\ngrid x extent(a, 0)\n", "'a' is no tensor of the kernel"},
    {"param a: tensor<f32>[4]\ngrid x extent(a, 1)\n", "'a' has 1 axes, counted from 0, and no axis 1"},
    {"grid x 0\n", "an extent is at least 1, found 0"},
    {"aligned M = 4\n", "'aligned' names 'M', which is no symbolic dim"},
    {"search B leaf [4]\naligned B = 4\n", "'aligned' names 'B', which is no symbolic dim"},
    {"dim N\naligned N = -4\n", "an extent is at least 1, found -4"},
    {"require M < 4\n", "'M' is no dim of the kernel"},
    {"launch -1, 0, 0\n", "a figure of 'launch' is negative"},
    {"cluster_dims 2, 0, 1\n", "an extent is at least 1, found 0"},
    {"dim N\ncluster_dims N, 1, 1\n", "'N' is not a search dim"},
};

START_TEST(bad_signature) {
    expect_message(module_text(declarations[_i].text, "return\n"), declarations[_i].message);
}
END_TEST

static const Case bodies[] = {
    /* terminators */
    {"", "'kernel k': the block ends without 'return'"},
    {"%0 = const 1 : i32\n", "'%0 = const 1 : i32': the block ends without 'return'"},
    {"return\nreturn\n", "t.ir:16:1: error: 'return': 'return' stands before the end of its block"},
    /* constants */
    {"%0 = const 0x100 : u8\nreturn\n", "the bits do not fit 'u8'"},
    {"%0 = const 0x2 : bool\nreturn\n", "the bits do not fit 'bool'"},
    /* dims */
    {"%0 = dim K : i64\nreturn\n", "'%0 = dim K : i64': 'K' is no dim of the kernel"},
    {"%0 = dim N : i32\nreturn\n", "expected the result 'i64', found 'i32'"},
    {"%0 = dim extent(m, 2) : i64\nreturn\n", "'m' has 2 axes, counted from 0, and no axis 2"},
    /* axes */
    {"%0 = extent %m, 2 : i64\nreturn\n", "'%0 = extent %m, 2 : i64': there are 2 axes, counted from 0, and no axis 2"},
    {"%0 = origin %x, 0 : i64\nreturn\n", "expected a tensor, found 'f32'"},
    {"%0 = whole %a, 0 : i32\nreturn\n", "expected the result 'i64', found 'i32'"},
    {"%0 = ctx.block.x : u64\nreturn\n", "expected the result 'i64', found 'u64'"},
    /* element-wise */
    {"%0 = add %x, %i : f32\nreturn\n", "'%0 = add %x, %i : f32': operands are of different types, 'f32' and 'i64'"},
    {"%0 = add %x, %x : f64\nreturn\n", "operand and result are of different types, 'f32' and 'f64'"},
    {"%0 = add %a, %a : f32\nreturn\n", "expected a scalar or a tile of rank 1 or 2, found 'tensor<f32>[N]'"},
    {"%0 = mul %p, %p : bool\nreturn\n", "'mul' takes no bool"},
    {"%0 = shl %p, %p : bool\nreturn\n", "'shl' takes no bool"},
    {"%0 = and %x, %x : f32\nreturn\n", "'and' takes integers, found 'f32'"},
    {"%0 = shr %x, %x : f32\nreturn\n", "'shr' takes integers, found 'f32'"},
    {"%0 = not %x : f32\nreturn\n", "'not' takes integers, found 'f32'"},
    {"%0 = lt %x, %i : bool\nreturn\n", "operands are of different types, 'f32' and 'i64'"},
    {"%0 = lt %i, %i : i64\nreturn\n", "expected a result of bool in the shape of the operands, found 'i64'"},
    {"%0 = lt %i, %i : tile<bool>[4]\nreturn\n", "expected a result of bool in the shape of the operands, found 'tile<bool>[4]'"},
    {"%0 = convert %x : tile<f64>[4]\nreturn\n", "operand and result differ in shape, 'f32' and 'tile<f64>[4]'"},
    {"%0 = convert %x : tensor<f64>[4]\nreturn\n", "expected a scalar or a tile of rank 1 or 2, found 'tensor<f64>[4]'"},
    {"%0 = broadcast %x : tile<f32>[B]\n%1 = broadcast %x : tile<f32>[16]\n%2 = add %0, %1 : tile<f32>[B]\nreturn\n",
        "operands are of different types, 'tile<f32>[B]' and 'tile<f32>[16]'"},
    /* tile types */
    {"%0 = broadcast %x : tile<f32>[N]\nreturn\n", "'N' is not a search dim, and the extents of a tile are static"},
    {"%0 = broadcast %x : tile<f32>[K]\nreturn\n", "'K' is no dim of the kernel"},
    {"%0 = broadcast %x : tile<f32>[0]\nreturn\n", "an extent is at least 1, found 0"},
    {"%0 = broadcast %x : tile<f32>[extent(a, 0)]\nreturn\n", "'extent(a, 0)' cannot stand here"},
    {"%0 = broadcast %x : tile<f32>[4, 4, 4]\nreturn\n", "expected a scalar or a tile of rank 1 or 2, found 'tile<f32>[4, 4, 4]'"},
    /* broadcast */
    {"%0 = broadcast %x : f32\nreturn\n", "'f32' does not broadcast to 'f32'"},
    {"%0 = broadcast %x : tile<f64>[4]\nreturn\n", "'f32' does not broadcast to 'tile<f64>[4]'"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = broadcast %0 : tile<f32>[4, 8]\nreturn\n", "'tile<f32>[4]' does not broadcast to 'tile<f32>[4, 8]'"},
    {"%0 = broadcast %x : tile<f32>[4, 8]\n%1 = broadcast %0 : tile<f32>[8]\nreturn\n", "'tile<f32>[4, 8]' does not broadcast to 'tile<f32>[8]'"},
    /* loads and stores */
    {"%0 = load %x[%i] : f32\nreturn\n", "the first operand is no tensor"},
    {"%0 = load %m[%i] : f32\nreturn\n", "the tensor has rank 2, found 1 offsets"},
    {"store %a[%i, %i] = %x\nreturn\n", "the tensor has rank 1, found 2 offsets"},
    {"%0 = load %a[%j] : f32\nreturn\n", "an offset is an i64, found 'i32'"},
    {"%0 = load %a[%x] : f32\nreturn\n", "an offset is an i64, found 'f32'"},
    {"%0 = load %a[%i] : f64\nreturn\n", "the slice is a 'f32', the value a 'f64'"},
    {"%0 = load %a[%i] : tile<f32>[1]\nreturn\n", "the slice is a 'f32', the value a 'tile<f32>[1]'"},
    {"%0 = load %a[%i :+ B] : tile<f32>[16]\nreturn\n", "the slice is a 'tile<f32>[B]', the value a 'tile<f32>[16]'"},
    {"%0 = load %a[%i :+ N] : tile<f32>[4]\nreturn\n", "'N' is not a search dim"},
    {"%0 = load %a[%i :+ 0] : tile<f32>[4]\nreturn\n", "an extent is at least 1, found 0"},
    {"%0 = load %m[%i, %i :+ 4] : tile<f32>[4]\nreturn\n", "the slice is a 'tile<f32>[1, 4]', the value a 'tile<f32>[4]'"},
    {"%0 = load %q[%i, %i, %i :+ 4] : tile<f32>[4]\nreturn\n", "the slice is a 'tile<f32>[1, 4]'"},
    {"%0 = load %q[%i :+ 4, %i, %i] : tile<f32>[4]\nreturn\n", "the slice is a 'tile<f32>[4, 1]'"},
    {"%0 = load %q[%i :+ 2, %i :+ 3, %i :+ 4] : tile<f32>[3, 4]\nreturn\n", "a slice has at most two axes that are no points, found 3"},
    {"store %a[%i] = %i\nreturn\n", "the slice is a 'f32', the value a 'i64'"},
    {"store %a[%i :+ 4] = %x\nreturn\n", "the slice is a 'tile<f32>[4]', the value a 'f32'"},
    /* floats, three operands, select, bitcast */
    {"%0 = exp %i : i64\nreturn\n", "'exp' takes floats, found 'i64'"},
    {"%0 = popcount %x : f32\nreturn\n", "'popcount' takes integers, found 'f32'"},
    {"%0 = max %p, %p : bool\nreturn\n", "'max' takes no bool"},
    {"%0 = convert %x : f64\n%1 = fma %x, %x, %0 : f32\nreturn\n", "operands are of different types, 'f32' and 'f64'"},
    {"%0 = select %i, %x, %x : f32\nreturn\n", "expected a condition of bool in the shape of the result, found 'i64'"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = select %p, %0, %0 : tile<f32>[4]\nreturn\n", "in the shape of the result, found 'bool'"},
    {"%0 = select %p, %x, %i : f32\nreturn\n", "operand and result are of different types, 'i64' and 'f32'"},
    {"%0 = bitcast %x : i64\nreturn\n", "operand and result differ in width, 'f32' and 'i64'"},
    {"%0 = bitcast %p : u8\nreturn\n", "operand and result differ in width, 'bool' and 'u8'"},
    {"%0 = bitcast %x : tile<i32>[4]\nreturn\n", "operand and result differ in shape, 'f32' and 'tile<i32>[4]'"},
    /* shapes */
    {"%0 = iota : tile<i64>[4]\nreturn\n", "expected the result 'tile<i32>[n]', found 'tile<i64>[4]'"},
    {"%0 = iota : tile<i32>[4, 4]\nreturn\n", "expected the result 'tile<i32>[n]'"},
    {"%0 = iota : tile<i32>[8]\n%1 = reshape %0 : tile<i32>[2, 5]\nreturn\n", "a 'tile<i32>[8]' is no 'tile<i32>[2, 5]' in another shape"},
    {"%0 = iota : tile<i32>[8]\n%1 = reshape %0 : tile<i64>[2, 4]\nreturn\n", "is no 'tile<i64>[2, 4]' in another shape"},
    {"%0 = reshape %x : tile<f32>[1]\nreturn\n", "a 'f32' is no 'tile<f32>[1]' in another shape"},
    {"%0 = broadcast %x : tile<f32>[2, 4]\n%1 = transpose %0 : tile<f32>[2, 4]\nreturn\n", "a 'tile<f32>[2, 4]' is no 'tile<f32>[2, 4]' transposed"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = transpose %0 : tile<f32>[4]\nreturn\n", "is no 'tile<f32>[4]' transposed"},
    /* reductions */
    {"%0 = sum %x, -1 : f32\nreturn\n", "'sum' reduces a tile of numbers, found 'f32'"},
    {"%0 = broadcast %p : tile<bool>[4]\n%1 = rmax %0, 0 : tile<bool>[1]\nreturn\n", "'rmax' reduces a tile of numbers, found 'tile<bool>[4]'"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = any %0, -1 : bool\nreturn\n", "'any' reduces a tile of bool, found 'tile<f32>[4]'"},
    {"%0 = broadcast %p : tile<bool>[4]\n%1 = all %0, 0 : tile<bool>[1]\nreturn\n", "'all' of a 'tile<bool>[4]' has no axis 0"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = sum %0, 1 : tile<f32>[1]\nreturn\n", "'sum' of a 'tile<f32>[4]' has no axis 1"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = argmax %0, -1 : i32\nreturn\n", "'argmax' of a 'tile<f32>[4]' has no axis -1"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = argmax %0, 0 : tile<f32>[1]\nreturn\n", "a 'tile<f32>[4]' does not reduce to a 'tile<f32>[1]'"},
    {"%0 = broadcast %x : tile<f32>[2, 4]\n%1 = sum %0, 0 : tile<f32>[2, 1]\nreturn\n", "does not reduce to a 'tile<f32>[2, 1]'"},
    {"%0 = broadcast %x : tile<f32>[2, 4]\n%1 = sum %0, -1 : tile<f32>[1, 1]\nreturn\n", "does not reduce to a 'tile<f32>[1, 1]'"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = sum %0, -1 : f64\nreturn\n", "a 'tile<f32>[4]' does not reduce to a 'f64'"},
    {"%0 = cumsum %x : f32\nreturn\n", "'cumsum' takes a tile of numbers, found 'f32'"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = cumsum %0 : tile<f64>[4]\nreturn\n", "operand and result are of different types"},
    /* contractions */
    {"%0 = dot %x, %x, %x : f32\nreturn\n", "expected tiles of rank 2, found 'f32'"},
    {"%0 = broadcast %x : tile<f32>[2, 3]\n%1 = broadcast %x : tile<f32>[2, 2]\n%2 = dot %0, %0, %1 : tile<f32>[2, 2]\nreturn\n",
        "'tile<f32>[2, 3]' and 'tile<f32>[2, 3]' do not contract to 'tile<f32>[2, 2]'"},
    {"%0 = broadcast %x : tile<f32>[2, 3]\n%1 = broadcast %x : tile<f32>[3, 3]\n%2 = dot_t %0, %0, %1 : tile<f32>[3, 3]\nreturn\n",
        "do not contract to 'tile<f32>[3, 3]'"},
    {"%0 = broadcast %x : tile<f32>[2, 2]\n%1 = convert %0 : tile<f64>[2, 2]\n%2 = dot %0, %0, %1 : tile<f64>[2, 2]\nreturn\n",
        "a contraction of 'f32' and 'f32' is not of 'f64'"},
    {"%0 = broadcast %i : tile<i64>[2, 2]\n%1 = dot %0, %0, %0 : tile<i64>[2, 2]\nreturn\n", "a contraction of 'i64' and 'i64' is not of 'i64'"},
    {"%0 = broadcast %x : tile<f32>[2, 2]\n%1 = convert %0 : tile<f64>[2, 2]\n%2 = dot %0, %0, %1 : tile<f32>[2, 2]\nreturn\n",
        "accumulator and result are of different types"},
    /* regions: operands and what is carried */
    {"for %i, %i\ndo %0: i64 {\nyield\n}\nreturn\n", "'for %i, %i': expected at least 3 operands, found 2"},
    {"for %i, %x, %i\ndo %0: i64 {\nyield\n}\nreturn\n", "start, end and step are i64, found 'f32'"},
    {"for %i, %i, %i unroll N\ndo %0: i64 {\nyield\n}\nreturn\n", "'N' is not a search dim"},
    {"for %i, %i, %i unroll 0\ndo %0: i64 {\nyield\n}\nreturn\n", "an extent is at least 1, found 0"},
    {"for %i, %i, %i\ndo {\nyield\n}\nreturn\n", "the first argument of the body is the index, an i64"},
    {"for %i, %i, %i\ndo %0: i32 {\nyield\n}\nreturn\n", "the first argument of the body is the index, an i64"},
    {"%0 = for %i, %i, %i : f32\ndo %1: i64, %2: f32 {\nyield %2\n}\nreturn\n", "expected 1 initial values, found 0"},
    {"%0 = for %i, %i, %i, %i : f32\ndo %1: i64, %2: f32 {\nyield %2\n}\nreturn\n", "initial values 1 is a 'i64', expected 'f32'"},
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64 {\nyield %x\n}\nreturn\n", "expected 1 arguments, found 0"},
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: i64 {\nyield %x\n}\nreturn\n", "arguments 1 is a 'i64', expected 'f32'"},
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\nyield\n}\nreturn\n", "'yield': expected 1 yielded, found 0"},
    {"%0 = for %i, %i, %i, %x : f32\ndo %1: i64, %2: f32 {\nyield %1\n}\nreturn\n", "'yield %1': yielded 1 is a 'i64', expected 'f32'"},
    {"for %i, %i, %i, %a\ndo %0: i64 {\nyield\n}\nreturn\n", "expected a scalar or a tile of rank 1 or 2, found 'tensor<f32>[N]'"},
    {"if %i\nthen {\nyield\n}\nelse {\nyield\n}\nreturn\n", "'if %i': a condition is a bool, found 'i64'"},
    {"if %p\nthen %0: f32 {\nyield\n}\nelse {\nyield\n}\nreturn\n", "expected 0 arguments, found 1"},
    {"%0 = if %p : f32\nthen {\nyield %x\n}\nelse {\nyield\n}\nreturn\n", "t.ir:21:1: error: 'yield': expected 1 yielded, found 0"},
    {"%0 = while %x : f32\ntest %1: f32 {\ncondition %1\n}\ndo %2: f32 {\nyield %2\n}\nreturn\n",
        "'condition %1': a condition is a bool, found 'f32'"},
    {"%0 = while %x : f32\ntest %1: f32 {\ncondition %p\n}\ndo {\nyield %x\n}\nreturn\n", "expected 1 arguments, found 0"},
    /* terminators */
    {"yield\n", "'yield': the block ends with 'yield', expected 'return'"},
    {"if %p\nthen {\nreturn\n}\nelse {\nyield\n}\nreturn\n", "'return': the block ends with 'return', expected 'yield'"},
    {"while\ntest {\nyield\n}\ndo {\nyield\n}\nreturn\n", "'yield': the block ends with 'yield', expected 'condition'"},
    {"while\ntest {\ncondition %p\n}\ndo {\ncondition %p\n}\nreturn\n", "the block ends with 'condition', expected 'yield'"},
    {"if %p\nthen {\n}\nelse {\nyield\n}\nreturn\n", "'if %p': the block ends without 'yield'"},
    {"if %p\nthen {\n%0 = not %p : bool\n}\nelse {\nyield\n}\nreturn\n", "'%0 = not %p : bool': the block ends without 'yield'"},
    {"if %p\nthen {\nyield\nyield\n}\nelse {\nyield\n}\nreturn\n", "'yield' stands before the end of its block"},
    {"if %p\nthen {\nyield\n}\nelse {\nyield\n}\n", "'if %p': the block ends without 'return'"},
    /* what is in sight */
    {"if %p\nthen {\n%0 = not %p : bool\nyield\n}\nelse {\nstore %a[%i] = %x\nyield\n}\n%1 = not %0 : bool\nreturn\n",
        "'%1 = not %0 : bool': operand 1 is used before it is defined"},
    {"if %p\nthen {\n%0 = not %p : bool\nyield\n}\nelse {\n%1 = not %0 : bool\nyield\n}\nreturn\n", "operand 1 is used before it is defined"},
    {"for %i, %i, %i\ndo %0: i64 {\nyield\n}\n%1 = neg %0 : i64\nreturn\n", "'%1 = neg %0 : i64': operand 1 is used before it is defined"},
    /* thread code */
    {"%0 = shared \"s\" : tile<f32>[4]\nreturn\n", "expected the result 'shared<..>[..]' of rank 1 to 3, found 'tile<f32>[4]'"},
    {"%0 = shared \"s\" : shared<f32>[1, 1, 1, 1]\nreturn\n", "expected the result 'shared<..>[..]' of rank 1 to 3"},
    {"%0 = shared \"s\" : shared<f32>[N]\nreturn\n", "'N' is not a search dim"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = neg %0 : shared<f32>[4]\nreturn\n", "expected a scalar or a tile of rank 1 or 2, found 'shared<f32>[4]'"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = if %p : shared<f32>[4]\nthen {\nyield %0\n}\nelse {\nyield %0\n}\nreturn\n",
        "expected a scalar or a tile of rank 1 or 2, found 'shared<f32>[4]'"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = load %0[%i, %i] : f32\nreturn\n", "the shared memory has rank 1, found 2 offsets"},
    {"%0 = remote %a, %i : shared<f32>[4]\nreturn\n", "'remote' is of the CTA's own shared memory, found 'tensor<f32>[N]'"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = remote %0, %i : shared<f32>[4]\n%2 = remote %1, %i : shared<f32>[4]\nreturn\n",
        "'remote' is of the CTA's own shared memory"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = remote %0, %j : shared<f32>[4]\nreturn\n", "a rank is an i64, found 'i32'"},
    {"%0 = shared \"s\" : shared<f32>[4]\n%1 = remote %0, %i : shared<f32>[8]\nreturn\n", "operand and result are of different types"},
    {"%0 = cluster_mask : i64\nreturn\n", "expected the result 'u32', found 'i64'"},
    {"%0 = ctx.lane : i32\nreturn\n", "expected the result 'i64', found 'i32'"},
    {"%0 = elect_one_sync : i32\nreturn\n", "expected the result 'bool', found 'i32'"},
    {"%0 = shuffle %x, %j : f32\nreturn\n", "a lane is an i64, found 'i32'"},
    {"%0 = shuffle %x, %i : f64\nreturn\n", "operand and result are of different types, 'f32' and 'f64'"},
    {"%0 = broadcast %x : tile<f32>[4]\n%1 = warp_sum %0 : tile<f32>[4]\nreturn\n", "'warp_sum' takes a scalar number, found 'tile<f32>[4]'"},
    {"%0 = block_max %p : bool\nreturn\n", "'block_max' takes a scalar number, found 'bool'"},
    {"%0 = warp_any %x : f32\nreturn\n", "'warp_any' takes a bool, found 'f32'"},
    {"%0 = ballot %p : bool\nreturn\n", "expected the result 'u32', found 'bool'"},
    {"%0 = atomic_add %a[%i :+ 1] = %x : f32\nreturn\n", "the slice is a 'tile<f32>[1]', the value a 'f32'"},
    {"%0 = atomic_add %a[%i] = %j : i32\nreturn\n", "the slice is a 'f32', the value a 'i32'"},
    {"%0 = atomic_cas %a[%i] = %x, %j : f32\nreturn\n", "the slice is a 'f32', the value a 'i32'"},
    {"%0 = load once %a[%i] : f32\nreturn\n", "only a store of a scalar or an atomic is 'once'"},
    {"%0 = load %a[%i :+ 2] : tile<f32>[2]\nstore once %a[%i :+ 2] = %0\nreturn\n", "only a store of a scalar or an atomic is 'once'"},
};

START_TEST(bad_body) {
    expect_message(module_text(DECLARATIONS, bodies[_i].text), bodies[_i].message);
}
END_TEST

static const char *const sound[] = {
    "return\n",
    "%0 = dim N * B + extent(m, 1) : i64\nreturn\n",
    "%0 = and %p, %p : bool\n%1 = lt %p, %0 : bool\n%2 = not %1 : bool\nreturn\n",
    /* equal under every assignment: C is 16 */
    "%0 = broadcast %x : tile<f32>[C]\n%1 = broadcast %x : tile<f32>[16]\n%2 = add %0, %1 : tile<f32>[C]\nreturn\n",
    "%0 = broadcast %x : tile<f32>[B * 2]\n%1 = broadcast %x : tile<f32>[max(B * 2, 32)]\n%2 = add %0, %1 : tile<f32>[B + B]\nreturn\n",
    "%0 = broadcast %x : tile<f32>[1]\n%1 = broadcast %0 : tile<f32>[4, 8]\nreturn\n",
    "%0 = broadcast %x : tile<f32>[4, ONE]\n%1 = broadcast %0 : tile<f32>[4, 8]\nreturn\n",
    /* a row is a vector */
    "%0 = broadcast %x : tile<f32>[1, 8]\n%1 = broadcast %0 : tile<f32>[8]\nreturn\n",
    /* points drop, leftmost first, until two axes are left; an axis that is always 1 drops like one */
    "%0 = load %q[%i, %i :+ 2, %i :+ 3] : tile<f32>[2, 3]\nreturn\n",
    "%0 = load %q[%i :+ ONE, %i :+ 2, %i :+ 3] : tile<f32>[2, 3]\nreturn\n",
    "%0 = load %q[%i :+ 2, %i, %i :+ 3] : tile<f32>[2, 3]\nreturn\n",
    "%0 = load %q[%i, %i, %i :+ 3] : tile<f32>[1, 3]\nreturn\n",
    "%0 = load %q[%i, %i :+ 3, %i] : tile<f32>[3, 1]\nreturn\n",
    "%0 = load %q[%i, %i, %i] : f32\nstore %q[%i, %i, %i] = %0\nreturn\n",
    "%0 = load %a[%i :+ C] : tile<f32>[16]\nstore %a[%i :+ 16] = %0\nreturn\n",
    "%0 = broadcast %x : tile<f32>[B * 2, 8]\n%1 = reshape %0 : tile<f32>[16, B]\n%2 = transpose %1 : tile<f32>[B, C]\nreturn\n",
    "%0 = broadcast %x : tile<f32>[4, 8]\n%1 = sum %0, 1 : tile<f32>[4, ONE]\n%2 = argmax %0, 0 : tile<i32>[1, 8]\n%3 = rmin %0, -1 : f32\nreturn\n",
    "%0 = broadcast %x : tile<f32>[4, 8]\n%1 = convert %0 : tile<f16>[4, 8]\n%2 = broadcast %x : tile<f32>[4, 4]\n"
    "%3 = dot_t %0, %1, %2 : tile<f32>[4, 4]\nreturn\n",
    "%0 = convert %j : i8\n%1 = broadcast %0 : tile<i8>[2, 2]\n%2 = broadcast %j : tile<i32>[2, 2]\n%3 = dot %1, %1, %2 : tile<i32>[2, 2]\nreturn\n",
    /* regions see what stands before them */
    "%0 = neg %i : i64\nfor %0, %i, %0 unroll B\ndo %1: i64 {\n%2 = add %0, %1 : i64\nif %p\nthen {\nstore %a[%2] = %x\nyield\n}\nelse {\n"
    "yield\n}\nyield\n}\nreturn\n",
    "%0 = while %x : f32\ntest %1: f32 {\n%2 = lt %1, %x : bool\ncondition %2\n}\ndo %3: f32 {\n%4 = add %3, %x : f32\nyield %4\n}\n"
    "store %a[%i] = %0\nreturn\n",
};

START_TEST(sound_body) {
    expect_message(module_text(DECLARATIONS, sound[_i]), NULL);
}
END_TEST

START_TEST(too_many_dims_and_parameters) {
    char text[8192];
    size_t length = 0;
    for (int i = 0; i <= PHB_MAX_DIMS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "dim n%d\n", i);
    expect_message(module_text(text, "return\n"), "129 dims, at most 128 are supported");
    length = 0;
    for (int i = 0; i <= PHB_MAX_PARAMS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "param n%d: f32\n", i);
    expect_message(module_text(text, "return\n"), "more than 64 tensors or scalars");
}
END_TEST

/* ---- by hand ---- */

#define BODY                                                                                                                                         \
    "%0 = add %i, %i : i64\n"                                                                                                                        \
    "%1 = mul %0, %i : i64\n"                                                                                                                        \
    "return\n"

typedef struct Broken {
    void (*change)(Context *context, IrModule *module, IrKernel *kernel);
    const char *message;
} Broken;

static IrOp *op_at(const IrKernel *kernel, int index) {
    IrOp *op = kernel->body->first;
    while (index-- > 0)
        op = op->next;
    return op;
}

static void use_before_definition(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->operands.items[1] = op_at(kernel, 1)->results.items[0];
}

static void use_itself(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->operands.items[1] = op_at(kernel, 0)->results.items[0];
}

static void use_removed(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    ir_remove(op_at(kernel, 0));
}

static void use_foreign_argument(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    IrBlock *other = ir_block_new(context, NULL);
    op_at(kernel, 0)->operands.items[1] = ir_block_arg(context, other, kernel->body->args.items[4]->type, kernel->body->args.items[4]->name);
}

static void drop_operand(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 1)->operands.count = 1;
}

static void drop_result(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 1)->results.count = 0;
}

static void add_region(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    IrOp *op = op_at(kernel, 1);
    vec_push(context->arena, &op->regions, ir_block_new(context, op));
}

static void break_result(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 1)->results.items[0]->def = op_at(kernel, 0);
}

static void break_link(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 1)->prev = NULL;
}

static void break_parent(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    op_at(kernel, 1)->parent = ir_block_new(context, NULL);
}

static void drop_argument(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    kernel->body->args.count--;
}

static void retype_argument(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    kernel->body->args.items[4]->type = type_scalar(context->types, PHB_U64);
}

static void lose_dim(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->kind = OP_DIM;
    op_at(kernel, 0)->operands.count = 0;
}

static void axis_beyond_grid(Context *context, IrModule *module, IrKernel *kernel) {
    lose_dim(context, module, kernel);
    op_at(kernel, 0)->kind = OP_BLOCK;
    op_at(kernel, 0)->axis = 3;
}

static void poison(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    op_at(kernel, 0)->results.items[0]->type = type_poison(context->types);
}

static void tile_constant(Context *context, IrModule *module, IrKernel *kernel) {
    lose_dim(context, module, kernel);
    op_at(kernel, 0)->kind = OP_CONST;
    const Dim *extent = dim_int(context->dims, 4);
    op_at(kernel, 0)->results.items[0]->type = type_shaped(context->types, TYPE_TILE, PHB_F32, 1, &extent);
}

static void empty_set(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    kernel->signature.search.items[0].leaf.count = 0;
}

static void bad_kernel_name(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    kernel->signature.name = "9k";
}

static void bad_dim_name(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    kernel->signature.symbolic.items[0] = "a b";
}

static void bad_param_name(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    kernel->signature.params.items[0].name = "";
}

static void lose_span(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    vec_push(context->arena, &kernel->signature.grid[1].counts, dim_int(context->dims, 2));
}

static void same_name_twice(Context *context, IrModule *module, IrKernel *kernel) {
    vec_push(context->arena, &module->kernels, kernel);
}

/* ---- regions by hand ---- */

#define LOOP                                                                                                                                         \
    "%0 = for %i, %i, %i, %x : f32\n"                                                                                                                \
    "do %1: i64, %2: f32 {\n"                                                                                                                        \
    "%3 = add %2, %x : f32\n"                                                                                                                        \
    "yield %3\n"                                                                                                                                     \
    "}\n"                                                                                                                                            \
    "return\n"

static void lose_region(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->regions.count = 0;
}

static void steal_region(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->regions.items[0]->owner = op_at(kernel, 1);
}

static void move_region_argument(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->regions.items[0]->args.items[1]->index = 0;
}

static void name_region_argument(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->regions.items[0]->args.items[1]->name = "x";
}

static void use_own_result(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->regions.items[0]->first->operands.items[0] = op_at(kernel, 0)->results.items[0];
}

static void empty_region(Context *context, IrModule *module, IrKernel *kernel) {
    (void)context, (void)module;
    op_at(kernel, 0)->regions.items[0]->first = op_at(kernel, 0)->regions.items[0]->last = NULL;
}

static void nest_too_deep(Context *context, IrModule *module, IrKernel *kernel) {
    (void)module;
    IrBlock *block = kernel->body;
    ir_remove(block->last);
    for (int depth = 0; depth <= IR_MAX_DEPTH; depth++) {
        IrOp *op = ir_append(context, block, OP_IF, (Span){0}, &kernel->body->args.items[6], 1, NULL, 0);
        IrBlock *inner = ir_region_new(context, op), *other = ir_region_new(context, op);
        ir_append(context, other, OP_YIELD, (Span){0}, NULL, 0, NULL, 0);
        ir_append(context, block, depth ? OP_YIELD : OP_RETURN, (Span){0}, NULL, 0, NULL, 0);
        block = inner;
    }
    ir_append(context, block, OP_YIELD, (Span){0}, NULL, 0, NULL, 0);
}

static const Broken broken_loops[] = {
    {lose_region, "expected 1 regions, found 0"},
    {steal_region, "region 1 does not know its op"},
    {move_region_argument, "argument 2 of region 1 does not know its block"},
    {name_region_argument, "argument 2 of region 1 does not know its block"},
    {use_own_result, "operand 1 is used before it is defined"},
    {empty_region, "the block ends without 'yield'"},
    {nest_too_deep, "regions are nested deeper than 400"},
};

static const Broken broken[] = {
    {use_before_definition, "'%0 = add %i, %1 : i64': operand 2 is used before it is defined"},
    {use_itself, "'%0 = add %i, %0 : i64': operand 2 is used before it is defined"},
    {use_removed, "operand 1 is used before it is defined"},
    {use_foreign_argument, "operand 2 is used before it is defined"},
    {drop_operand, "'%1 = mul %0 : i64': expected 2 operands, found 1"},
    {drop_result, "'mul %0, %i': expected 1 results, found 0"},
    {add_region, "'mul' has no regions"},
    {break_result, "result 1 does not know its op"},
    {break_link, "the op is not linked into its block"},
    {break_parent, "the op is not linked into its block"},
    {drop_argument, "'kernel k': 7 parameters and 6 arguments"},
    {retype_argument, "argument 5 is not parameter 'i'"},
    {lose_dim, "the dim is missing"},
    {axis_beyond_grid, "there are 3 axes, counted from 0, and no axis 3"},
    {poison, "expected a scalar or a tile of rank 1 or 2, found '<error>'"},
    {tile_constant, "a constant is a scalar, found 'tile<f32>[4]'"},
    {empty_set, "search dim 'B' has no leaf value"},
    {bad_kernel_name, "'9k' cannot name a kernel"},
    {bad_dim_name, "'a b' cannot name a dim"},
    {bad_param_name, "'' cannot name a parameter"},
    {lose_span, "grid y has 1 counts and 0 positions"},
    {same_name_twice, "'kernel k': the name is taken by an earlier kernel"},
};

static void expect_broken(const char *body, const Broken *change) {
    Fixture f;
    const char *text = module_text(DECLARATIONS, body);
    fixture_open(&f, text, strlen(text));
    IrModule *module = ir_read(&f.context);
    ck_assert_ptr_nonnull(module);
    ck_assert_ptr_null(ir_verify(&f.context, module));
    change->change(&f.context, module, module->kernels.items[0]);
    const char *message = ir_verify(&f.context, module);
    ck_assert_msg(message && strstr(message, change->message), "said: %s\nexpected: %s", message, change->message);
    fixture_finish(&f);
    fixture_close(&f);
}

START_TEST(broken_by_hand) {
    expect_broken(BODY, &broken[_i]);
}
END_TEST

START_TEST(loop_broken_by_hand) {
    expect_broken(LOOP, &broken_loops[_i]);
}
END_TEST

#define COUNT(table) (int)(sizeof table / sizeof *table)

int main(void) {
    Suite *suite = suite_create("ir_verify");
    TCase *tests = tcase_create("ir_verify");
    tcase_add_loop_test(tests, bad_signature, 0, COUNT(declarations));
    tcase_add_loop_test(tests, bad_body, 0, COUNT(bodies));
    tcase_add_loop_test(tests, sound_body, 0, COUNT(sound));
    tcase_add_test(tests, too_many_dims_and_parameters);
    tcase_add_loop_test(tests, broken_by_hand, 0, COUNT(broken));
    tcase_add_loop_test(tests, loop_broken_by_hand, 0, COUNT(broken_loops));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* sin and cos. |x| below pi/4 is taken as it is. Above, x 2/pi modulo 4 is computed in integers, exactly enough for the argument that comes closest
 * to a multiple of pi/2: the fraction's bits of x times the bits of 2/pi that matter for its exponent (M. Payne and R. Hanek, 1983). */
#include "compiler/codegen/maths.h"

#include <math.h>

/* q pi/2 + r = |x|, q modulo 4, |r| <= pi/4. */
typedef struct Reduced {
    LLVMValueRef quadrant; /* i64 */
    LLVMValueRef r;
} Reduced;

/* A product modulo 4 in units of 2^-126, of which the upper and lower 64 bits. */
typedef struct Turns {
    LLVMValueRef high, low;
} Turns;

static LLVMValueRef wide(const Maths *m, uint64_t value) {
    return LLVMConstInt(m->e->i64, value, false);
}

static LLVMValueRef shift_left(const Maths *m, LLVMValueRef a, unsigned count) {
    return LLVMBuildShl(m->e->builder, a, wide(m, count), "");
}

static LLVMValueRef shift_right(const Maths *m, LLVMValueRef a, unsigned count) {
    return LLVMBuildLShr(m->e->builder, a, wide(m, count), "");
}

static LLVMValueRef low_half(const Maths *m, LLVMValueRef a) {
    return LLVMBuildAnd(m->e->builder, a, wide(m, 0xffffffff), "");
}

static LLVMValueRef sum(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildAdd(m->e->builder, a, b, "");
}

static LLVMValueRef product(const Maths *m, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildMul(m->e->builder, a, b, "");
}

/* ---- the bits of 2/pi ---- */

static LLVMValueRef table(const Maths *m) {
    static const char name[] = "maths.two_over_pi";
    static const uint32_t words[] = {
#define MATHS_POLYNOMIAL(name, dtype, ...)
#define MATHS_CONSTANT(name, dtype, value)
#define MATHS_WORD(bits) bits,
#include "compiler/codegen/maths.def"
    };
    enum { COUNT = sizeof words / sizeof words[0] };
    LLVMValueRef global = LLVMGetNamedGlobal(m->e->module, name);
    if (global)
        return global;
    LLVMValueRef values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = LLVMConstInt(m->e->i32, words[i], false);
    global = LLVMAddGlobal(m->e->module, LLVMArrayType2(m->e->i32, COUNT), name);
    LLVMSetInitializer(global, LLVMConstArray2(m->e->i32, values, COUNT));
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

/* limbs[0 .. count), lowest first: `count` times 32 bits from bit `position` of the table on. */
static void load_window(const Maths *m, LLVMValueRef position, LLVMValueRef *limbs, int count) {
    LLVMBuilderRef builder = m->e->builder;
    LLVMValueRef word = shift_right(m, position, 5);
    LLVMValueRef offset = LLVMBuildAnd(builder, position, wide(m, 31), "");
    LLVMValueRef previous = NULL;
    for (int i = 0; i <= count; i++) {
        LLVMValueRef index = sum(m, word, wide(m, (uint64_t)i));
        LLVMValueRef address = LLVMBuildInBoundsGEP2(builder, m->e->i32, table(m), &index, 1, "");
        LLVMValueRef next = LLVMBuildZExt(builder, LLVMBuildLoad2(builder, m->e->i32, address, ""), m->e->i64, "");
        if (previous) {
            LLVMValueRef pair = LLVMBuildOr(builder, shift_left(m, previous, 32), next, "");
            limbs[count - i] = shift_right(m, LLVMBuildShl(builder, pair, offset, ""), 32);
        }
        previous = next;
    }
}

/* ---- reduction ---- */

/* f32: 24 bits times 96. What is cut off is below 2^-61 of a quarter turn, where no f32 but 0 comes nearer to a multiple than 2^-32. */
static Turns multiply_f32(const Maths *m, LLVMValueRef fraction, LLVMValueRef position) {
    LLVMValueRef w[3];
    load_window(m, position, w, 3);
    LLVMValueRef high = shift_left(m, product(m, fraction, w[2]), 32);
    high = sum(m, high, product(m, fraction, w[1]));
    high = sum(m, high, shift_right(m, product(m, fraction, w[0]), 32));
    return (Turns){high, wide(m, 0)};
}

/* f64: 53 bits times 192, without the lowest columns: what is cut off is below 2^-123, where no f64 comes nearer than 2^-62. */
static Turns multiply_f64(const Maths *m, LLVMValueRef fraction, LLVMValueRef position) {
    LLVMValueRef w[6], column[6];
    load_window(m, position, w, 6);
    LLVMValueRef low = low_half(m, fraction), high = shift_right(m, fraction, 32);
    LLVMValueRef a = product(m, low, w[1]), b = product(m, high, w[0]), carry = wide(m, 0);
    for (int i = 2; i < 6; i++) {
        LLVMValueRef above = sum(m, shift_right(m, a, 32), shift_right(m, b, 32));
        a = product(m, low, w[i]);
        b = product(m, high, w[i - 1]);
        column[i] = sum(m, sum(m, above, carry), sum(m, low_half(m, a), low_half(m, b)));
        carry = shift_right(m, column[i], 32);
    }
    return (Turns){
        sum(m, shift_left(m, column[5], 32), low_half(m, column[4])),
        sum(m, shift_left(m, column[3], 32), low_half(m, column[2])),
    };
}

/* 32 bits in an i64 to f64, exact: put into the fraction of 2^52. */
static LLVMValueRef half_to_f64(const Maths *d, LLVMValueRef half) {
    LLVMValueRef bits = LLVMBuildOr(d->e->builder, half, wide(d, 0x4330000000000000), "");
    return m_sub(d, m_from_bits(d, bits), m_real(d, 0x1p52));
}

static LLVMValueRef word_to_f64(const Maths *d, LLVMValueRef word, LLVMValueRef below) {
    LLVMValueRef low = half_to_f64(d, low_half(d, word));
    if (below)
        low = m_mad(d, below, m_real(d, 0x1p-64), low);
    return m_mad(d, half_to_f64(d, shift_right(d, word, 32)), m_real(d, 0x1p32), low);
}

/* The fraction of the quarter turns, in [-1/2, 1/2), times pi/2. */
static LLVMValueRef to_radians(const Maths *m, Turns turns) {
    LLVMBuilderRef builder = m->e->builder;
    Maths d = maths_of(m->e, true);
    LLVMValueRef high = shift_left(m, turns.high, 2), low = turns.low;
    if (m->is_f64) {
        high = LLVMBuildOr(builder, high, shift_right(m, low, 62), "");
        low = shift_left(m, low, 2);
    }
    /* The magnitude, by complement: one unit less than it is, far below what counts. */
    LLVMValueRef negative = LLVMBuildICmp(builder, LLVMIntSLT, high, wide(m, 0), "");
    LLVMValueRef flip = LLVMBuildSelect(builder, negative, wide(m, UINT64_MAX), wide(m, 0), "");
    high = LLVMBuildXor(builder, high, flip, "");
    LLVMValueRef below = m->is_f64 ? word_to_f64(&d, LLVMBuildXor(builder, low, flip, ""), NULL) : NULL;
    LLVMValueRef units = word_to_f64(&d, high, below);
    LLVMValueRef scaled = m_mul(&d, m_constant(&d, CONSTANT_HALF_PI_F64), m_real(&d, 0x1p-64));
    LLVMValueRef radians = m_xor_sign(&d, m_mul(&d, units, scaled), LLVMBuildAnd(builder, flip, wide(m, 1ull << 63), ""));
    return m->is_f64 ? radians : LLVMBuildFPTrunc(builder, radians, m->type, "");
}

/* Infinity and NaN give anything. */
static Reduced reduce(const Maths *m, LLVMValueRef x) {
    LLVMBuilderRef builder = m->e->builder;
    LLVMValueRef a = m_abs(m, x);
    LLVMValueRef small = m_compare(m, LLVMRealOLT, a, m_real(m, m->is_f64 ? 0x1.921fb54442d18p-1 : 0x1.921fb6p-1));
    LLVMValueRef bits = m_to_bits(m, m_select(m, small, m_real(m, 1), a));
    if (!m->is_f64)
        bits = LLVMBuildZExt(builder, bits, m->e->i64, "");
    uint64_t leading = 1ull << m->fraction;
    LLVMValueRef fraction = LLVMBuildOr(builder, LLVMBuildAnd(builder, bits, wide(m, leading - 1), ""), wide(m, leading), "");
    /* The table's bit that times the fraction's unit has weight 2; there are 64 zeros before the point, and bit 0 after it has weight 1/2. */
    LLVMValueRef exponent = shift_right(m, bits, m->fraction);
    LLVMValueRef position = sum(m, exponent, wide(m, 62 - m->bias - m->fraction));
    Turns turns = m->is_f64 ? multiply_f64(m, fraction, position) : multiply_f32(m, fraction, position);
    LLVMValueRef quadrant = shift_right(m, sum(m, turns.high, wide(m, 1ull << 61)), 62);
    return (Reduced){
        LLVMBuildSelect(builder, small, wide(m, 0), quadrant, ""),
        m_select(m, small, a, to_radians(m, turns)),
    };
}

/* sin(quadrant pi/2 + r) */
static LLVMValueRef sine_of(const Maths *m, LLVMValueRef quadrant, LLVMValueRef r) {
    LLVMBuilderRef builder = m->e->builder;
    LLVMValueRef z = m_mul(m, r, r);
    LLVMValueRef sine = m_mad(m, m_mul(m, r, z), m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_SIN), z), r);
    LLVMValueRef main = m_sub(m, m_real(m, 1), m_mul(m, z, m_real(m, 0.5)));
    LLVMValueRef cosine = m_mad(m, m_mul(m, z, z), m_polynomial(m, MATHS_PICK(m, POLYNOMIAL_COS), z), main);
    if (!m->is_f64)
        quadrant = LLVMBuildTrunc(builder, quadrant, m->bits, "");
    LLVMValueRef odd = LLVMBuildAnd(builder, quadrant, m_int(m, 1), "");
    LLVMValueRef value = m_select(m, LLVMBuildICmp(builder, LLVMIntNE, odd, m_int(m, 0), ""), cosine, sine);
    LLVMValueRef flip = LLVMBuildAnd(builder, quadrant, m_int(m, 2), "");
    return m_xor_sign(m, value, LLVMBuildShl(builder, flip, m_int(m, m->is_f64 ? 62 : 30), ""));
}

static LLVMValueRef unless_infinite(const Maths *m, LLVMValueRef x, LLVMValueRef value) {
    LLVMValueRef finite = m_compare(m, LLVMRealOLT, m_abs(m, x), m_real(m, (double)INFINITY));
    return m_select(m, finite, value, m_nan(m));
}

LLVMValueRef maths_sin(const Maths *m, LLVMValueRef x) {
    Reduced reduced = reduce(m, x);
    return unless_infinite(m, x, m_xor_sign(m, sine_of(m, reduced.quadrant, reduced.r), m_sign(m, x)));
}

LLVMValueRef maths_cos(const Maths *m, LLVMValueRef x) {
    Reduced reduced = reduce(m, x);
    return unless_infinite(m, x, sine_of(m, sum(m, reduced.quadrant, wide(m, 1)), reduced.r));
}

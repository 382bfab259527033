#!/usr/bin/env python3
"""Computes compiler/codegen/maths.def: python3 fit_maths.py > ../../compiler/codegen/maths.def (needs mpmath; some seconds).

A function's core is approximated by the polynomial with the least weighted squares over Chebyshev points, which comes within a small factor of the
least maximum error. Coefficients are rounded one after another, lowest power first, and the rest is fitted anew each time, so that later ones make up
for the rounding of earlier ones. The number of coefficients is the smallest that reaches the wanted error.
"""
import textwrap

import mpmath as mp

mp.mp.prec = 320
DIGITS = {"F32": 24, "F64": 53}


def round_to(value, digits):
    with mp.workprec(digits):
        return +value


def chebyshev(low, high, count):
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + 0.5) / count) for i in range(count)]


class Problem:
    """min over c of the sum of squares of weight(x) * (target(x) - sum c[i] x^i) over Chebyshev points."""

    def __init__(self, target, weight, low, high):
        self.grid = chebyshev(mp.mpf(low), mp.mpf(high), 120)
        self.weight = [weight(x) for x in self.grid]
        self.target = [target(x) for x in self.grid]

    def fit(self, fixed, count):
        """`count` coefficients, the first len(fixed) of them given; with the largest weighted error."""
        free = range(len(fixed), count)
        rest = [w * (t - mp.polyval(fixed[::-1] or [mp.mpf(0)], x)) for w, t, x in zip(self.weight, self.target, self.grid)]
        columns = [[w * x**j for w, x in zip(self.weight, self.grid)] for j in free]
        found = []
        if columns:
            normal = mp.matrix([[mp.fdot(a, b) for a in columns] for b in columns])
            found = list(mp.lu_solve(normal, mp.matrix([mp.fdot(a, rest) for a in columns])))
        error = [r - mp.fdot(found, [column[i] for column in columns]) for i, r in enumerate(rest)]
        return fixed + found, max(abs(v) for v in error)

    def solve(self, digits, wanted):
        count = 1
        while self.fit([], count)[1] > wanted:
            count += 1
        fixed = []
        for i in range(count):
            fixed.append(round_to(self.fit(fixed, count)[0][i], digits))
        return fixed, self.fit(fixed, count)[1]


def series(first, term, ratio_bits=320):
    """sum of term(i) for i >= first, to working precision."""
    total, i = mp.mpf(0), first
    while True:
        value = term(i)
        total += value
        if abs(value) < mp.mpf(2) ** -ratio_bits or i > 400:
            return total
        i += 1


LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mp.mpf("1.001")
LOG_Z = mp.mpf("0.02945")  # ((sqrt 2 - 1) / (sqrt 2 + 1))^2
TRIG_Z = (mp.pi / 4) ** 2 * mp.mpf("1.001")
TANH_SPLIT = mp.mpf("0.5625")


def exp_rest(r):  # (e^r - 1 - r) / r^2
    return series(0, lambda i: r**i / mp.factorial(i + 2))


def exp2_rest(r):  # (2^r - 1) / r
    return LN2 * series(0, lambda i: (r * LN2) ** i / mp.factorial(i + 1))


def atanh_rest(first):  # 2 atanh(s) / s without its terms below s^(2 first)
    return lambda z: 2 * series(0, lambda i: z**i / (2 * (i + first) + 1))


def tanh_rest(z):  # (tanh(x) - x) / x^3
    x = mp.sqrt(z)
    return (mp.tanh(x) - x) / (x * z) if z > mp.mpf(2) ** -60 else -mp.mpf(1) / 3


def erf_rest(z):  # erf(x) / x - 1
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z > mp.mpf(2) ** -60 else 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1


def sin_rest(z):  # (sin(x) - x) / x^3
    return series(0, lambda i: (-1) ** (i + 1) * z**i / mp.factorial(2 * i + 3))


def cos_rest(z):  # (cos(x) - 1 + x^2 / 2) / x^4
    return series(0, lambda i: (-1) ** i * z**i / mp.factorial(2 * i + 4))


def one(z):
    return mp.mpf(1)


# name, comment, target, weight of an error, interval, bits of the wanted error for f32 and f64
POLYNOMIALS = [
    ("EXP", "(e^r - 1 - r) / r^2, |r| <= ln 2 / 2", exp_rest, lambda r: r * r / mp.exp(r), (-HALF_LN2, HALF_LN2), (27, 56)),
    ("EXP2", "(2^r - 1) / r, |r| <= 1/2", exp2_rest, lambda r: r / 2**r, (mp.mpf("-0.5005"), mp.mpf("0.5005")), (27, 56)),
    ("LOG", "(2 atanh(s) - 2 s) / s^3 in z = s^2", atanh_rest(1), lambda z: z / 2, (0, LOG_Z), (27, 56)),
    ("TANH", "(tanh(x) - x) / x^3 in z = x^2, x <= 0.5625", tanh_rest, lambda z: z, (0, TANH_SPLIT**2), (27, 56)),
    ("ERF", "erf(x) / x - 1 in z = x^2, x <= 1", erf_rest, one, (0, 1), (27, 56)),
    ("SIN", "(sin(x) - x) / x^3 in z = x^2, x <= pi / 4", sin_rest, lambda z: z, (0, TRIG_Z), (28, 57)),
    ("COS", "(cos(x) - 1 + x^2 / 2) / x^4 in z = x^2, x <= pi / 4", cos_rest, lambda z: z * z, (0, TRIG_Z), (28, 57)),
]


def row(name, dtype, coefficients):
    text = ", ".join(hex_float(c, DIGITS[dtype]) for c in coefficients)
    return "\n".join(textwrap.wrap(f"MATHS_POLYNOMIAL({name}, {dtype}, {text})", 150, subsequent_indent="    "))


def hex_float(value, digits):
    if value == 0:
        return "0x0p+0"
    sign = "-" if value < 0 else ""
    exponent = int(mp.floor(mp.log(abs(value), 2)))
    scaled = abs(value) / mp.mpf(2) ** exponent
    assert 1 <= scaled < 2
    bits = int(mp.nint((scaled - 1) * mp.mpf(2) ** 52))
    return f"{sign}0x1.{bits:013x}".rstrip("0").rstrip(".") + f"p{exponent:+d}"


def emit(name, comment, dtype, problem, wanted_bits):
    coefficients, error = problem.solve(DIGITS[dtype], mp.mpf(2) ** -wanted_bits)
    print(f"/* {comment}; error 2^{float(mp.log(error, 2)):.1f} */")
    print(row(name, dtype, coefficients))


def parts(value, digits):
    """value as a sum of floats of so many digits, each nearest to what is left."""
    result = []
    for count in digits:
        result.append(round_to(value, count))
        value -= result[-1]
    return result


def constants():
    for dtype, high in (("F32", 15), ("F64", 41)):
        ln2 = parts(LN2, (high, DIGITS[dtype]))
        yield "LN2_HIGH", dtype, ln2[0]
        yield "LN2_LOW", dtype, ln2[1]
        yield "LOG2E", dtype, round_to(1 / LN2, DIGITS[dtype])
        yield "HALF_PI", dtype, round_to(mp.pi / 2, DIGITS[dtype])
    for name, value in (("TWO_LOG2E", 2 / LN2), ("THIRD", mp.mpf(1) / 3)):
        high, low = parts(value, (53, 53))
        yield name + "_HIGH", "F64", high
        yield name + "_LOW", "F64", low


def main():
    print("/* Written by tests/maths/fit_maths.py, which says how. The macros are undefined at the end. */\n")
    print("/* MATHS_POLYNOMIAL(name, dtype, coefficients, lowest power first) */")
    for name, comment, target, weight, interval, bits in POLYNOMIALS:
        problem = Problem(target, weight, *interval)
        for dtype, wanted in zip(("F32", "F64"), bits):
            emit(name, comment, dtype, problem, wanted)
    for dtype, high, bits in (("F32", 4, 27), ("F64", 6, 57)):
        problem = Problem(lambda u: mp.log(mp.erfc(u + 1)), lambda u: mp.erfc(u + 1), 0, high - 1)
        emit("ERFC", f"log(erfc(1 + u)), 1 + u <= {high}", dtype, problem, bits)
    log2 = Problem(lambda z: atanh_rest(0)(z) / LN2, lambda z: LN2 / 2, 0, LOG_Z)
    emit("POWF_LOG2", "log2((1 + s) / (1 - s)) / s in z = s^2, for pow in f32", "F64", log2, 45)
    exp2 = Problem(exp2_rest, lambda r: r / 2**r, mp.mpf("-0.5005"), mp.mpf("0.5005"))
    emit("POWF_EXP2", "(2^r - 1) / r, for pow in f32", "F64", exp2, 36)
    tail = Problem(lambda z: atanh_rest(2)(z) / 2, lambda z: z * z, 0, LOG_Z)
    emit("POW_LOG", "(atanh(s) - s - s^3 / 3) / s^5 in z = s^2, for pow in f64", "F64", tail, 67)
    print("\n/* MATHS_CONSTANT(name, dtype, value): the HIGH parts end in so many zeros that a multiple by an exponent is exact. */")
    for name, dtype, value in constants():
        print(f"MATHS_CONSTANT({name}, {dtype}, {hex_float(value, DIGITS[dtype])})")
    print("\n/* MATHS_WORD(bits): 2/pi after the binary point, 32 bits each, behind 64 zeros. */")
    with mp.workprec(1600):
        bits = int(mp.floor(mp.ldexp(2 / mp.pi, 32 * 38)))
    for i in range(-2, 38):
        word = 0 if i < 0 else (bits >> (32 * (37 - i))) & 0xFFFFFFFF
        print(f"MATHS_WORD(0x{word:08x})")
    print()
    for macro in ("POLYNOMIAL", "CONSTANT", "WORD"):
        print(f"#undef MATHS_{macro}")


main()

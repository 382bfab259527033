"""Compares every kernel of kernels.phb with NumPy.

    check.py PHOBOSC
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

N, M, K, R, C, B = 77, 13, 11, 20, 24, 2
np.seterr(all="ignore")
random = np.random.default_rng(20240229)


def floats(dtype, *shape):
    return (random.integers(-4000, 4000, shape) / 512).astype(dtype)


def ints(dtype, *shape):
    """Small ones, and every bit pattern."""
    info = np.iinfo(dtype)
    small = random.integers(max(-9, info.min), 10, shape).astype(dtype)
    wild = random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return np.where(random.random(shape) < 0.5, small, wild)


def special(dtype, *shape):
    values = floats(dtype, *shape)
    values.flat[:8] = [np.inf, -np.inf, np.nan, -0.0, 0.0, 0.5, -2.5, 3e9]
    return values


def divide(a, b):
    """Truncated; x/0 is 0."""
    a, b = a.astype(object), b.astype(object)
    return np.array([0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b)], dtype=object)


def wrapped(values, dtype):
    bits = np.iinfo(dtype).bits
    unsigned = np.array([int(v) % 2**bits for v in values.flat], dtype=f"u{bits // 8}")
    return unsigned.reshape(values.shape).view(dtype)


def shifted(a, b, left):
    def one(x, amount):
        if amount < 0 or amount >= 32:
            return 0 if left or x >= 0 else -1
        return x << amount if left else x >> amount
    return wrapped(np.array([one(int(x), int(y)) for x, y in zip(a, b)], dtype=object), np.int32)


def saturated(a, dtype):
    info = np.iinfo(dtype)
    return np.array([0 if np.isnan(x) else info.min if x < info.min else info.max if x > info.max else int(x) for x in a], dtype=dtype)


def padded(a, rows, columns):
    """a moved so that element [i, j] is a[i + rows, j + columns], 0 beyond the edge."""
    result = np.zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if 0 <= i + rows < a.shape[0] and 0 <= j + columns < a.shape[1]:
                result[i, j] = a[i + rows, j + columns]
    return result


def collatz(n):
    steps = 0
    while n > 1 and steps < 40:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def compound(a):
    x = a.astype(object)
    for k in range(1, 6):
        x = ((x * k) & 0xFFFFFFFF) ^ (a.astype(object) & 0xFFFFFFFF)
        x = (x - 3) & 0xFFFFFFFF
    return wrapped(x | 1, np.int32)


def softmax(a):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


f32, f64, f16, i8, i16, i32, i64 = np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64

# Kernel: inputs by name, a function of them that gives the outputs in order, and the relative error allowed (0: every bit; any NaN is any NaN).
CASES = {
    "add_f32": ({"a": special(f32, N), "b": floats(f32, N)}, lambda a, b: a + b, 0),
    "mix_f64": ({"a": floats(f64, N), "b": floats(f64, N)}, lambda a, b: (a - b) * (a + b) / (b * b + 1), 0),
    "half_sum": ({"a": special(f16, N), "b": floats(f16, N)}, lambda a, b: a + b, 0),
    "half_widens": ({"a": floats(f16, N), "b": floats(f32, N)}, lambda a, b: a.astype(f32) * b, 0),
    "divide_i32": ({"a": ints(i32, N), "b": ints(i32, N)}, lambda a, b: wrapped(divide(a, b), i32), 0),
    "remainder_i32": ({"a": ints(i32, N), "b": ints(i32, N)}, lambda a, b: wrapped(a.astype(object) - divide(a, b) * b.astype(object), i32), 0),
    "remainder_f32": ({"a": floats(f32, N), "b": floats(f32, N)}, np.fmod, 0),
    "wrap_i8": ({"a": ints(i8, N), "b": ints(i8, N)}, lambda a, b: a * b - a, 0),
    "wrap_u64": ({"a": ints(u64, N), "b": ints(u64, N)}, lambda a, b: a * b + b, 0),
    "mixed_signs": ({"a": ints(u8, N), "b": ints(i8, N)}, lambda a, b: a.astype(i16) - b.astype(i16), 0),
    "bits_u32": ({"a": ints(u32, N), "b": ints(u32, N)}, lambda a, b: (a & b) ^ (~a | (b >> u32(3))), 0),
    "shift_i32": ({"a": ints(i32, N), "b": ints(i32, N) % 40}, lambda a, b: (shifted(a, b, True), shifted(a, b, False)), 0),
    "negate_u16": ({"a": ints(u16, N)}, lambda a: (0 - a.astype(i32)).astype(u16), 0),
    "compare": ({"a": special(f32, N), "b": floats(f32, N)}, lambda a, b: (a < b) | (~(a <= 1) & (a != b)), 0),
    "to_i32": ({"a": special(f32, N)}, lambda a: saturated(a, i32), 0),
    "to_u8": ({"a": special(f64, N) * 100}, lambda a: saturated(a, u8), 0),
    "to_f16": ({"a": random.standard_normal(N) * 10.0 ** random.integers(-9, 6, N)}, lambda a: a.astype(f16), 0),
    "i64_to_f32": ({"a": ints(i64, N)}, lambda a: a.astype(f32), 0),
    "narrow": ({"a": ints(i64, N)}, lambda a: a.astype(i16), 0),
    "bits_of": ({"a": floats(f32, N)}, lambda a: a.view(u32), 0),
    "exponentials": ({"a": floats(f64, N)}, lambda a: (np.exp(a), np.exp2(a)), 2e-15),
    "logarithms": ({"a": floats(f64, N)}, lambda a: (np.log(abs(a) + 0.25), np.log2(abs(a) + 0.25)), 2e-15),
    "circle": ({"a": floats(f64, N) * 100}, lambda a: np.sin(a) * np.cos(a), 1e-14),
    "hyperbolic": ({"a": floats(f32, N)}, lambda a: (np.tanh(a.astype(f64)), 1 / (1 + np.exp(-a.astype(f64)))), 6e-7),
    "roots": ({"a": floats(f32, N)}, lambda a: (np.sqrt(abs(a)), 1 / np.sqrt(abs(a).astype(f64) + 1)), 6e-7),
    "powers": ({"a": floats(f64, N), "b": floats(f64, N)}, lambda a, b: np.power(abs(a), b), 2e-15),
    "rounding": ({"a": special(f32, N)}, lambda a: (np.floor(a), np.ceil(a), np.trunc(a)), 0),
    "half_away": ({"a": random.integers(-40, 40, N).astype(f32) / 4}, lambda a: np.copysign(np.floor(abs(a) + 0.5), a), 0),
    "extremes": ({"a": special(f32, N), "b": floats(f32, N)}, lambda a, b: (np.fmin(a, b), np.fmax(a, b)), 0),
    "fused": ({"a": floats(f64, N), "b": floats(f64, N)}, lambda a, b: a * b + 3, 0),  # the products are exact
    "counting": ({"a": ints(u32, N)}, lambda a: ([bin(x).count("1") for x in a], [32 - int(x).bit_length() for x in a]), 0),
    "choose": ({"a": ints(i32, N), "b": ints(i32, N)}, lambda a, b: np.where(a > b, a, b * 2), 0),
    "ceiling": ({"a": ints(i32, N), "b": abs(ints(i32, N)) % 50 + 1}, lambda a, b: -(-a.astype(i64) // b), 0),
    "row_sums": ({"a": floats(f64, M, C)}, lambda a: a.sum(axis=1, keepdims=True), 0),  # multiples of 1/512: exact
    "row_extremes": ({"a": special(f32, M, C)}, lambda a: (np.fmax.reduce(a, 1, keepdims=True), np.fmin.reduce(a, 1, keepdims=True)), 0),
    "row_argmax": ({"a": ints(i8, M, C)}, lambda a: a.argmax(axis=1)[:, None], 0),
    "column_sums": ({"a": ints(i16, R, N)}, lambda a: a.astype(i32).sum(axis=0, keepdims=True), 0),
    "column_extremes": ({"a": ints(i64, R, N)}, lambda a: (a.max(axis=0, keepdims=True), a.min(axis=0, keepdims=True)), 0),
    "totals": ({"a": floats(f64, R, C)}, lambda a: np.array([a.sum(), a.max(), a.min()]), 0),
    "quantifiers": ({"a": ints(i32, R, C)}, lambda a: np.array([(a == 7).any(), (a > -100).all()]), 0),
    "running": ({"a": ints(i32, R, C)}, lambda a: np.cumsum(a, axis=0, dtype=i32), 0),
    "half_running": ({"a": floats(f16, R, C)}, lambda a: np.cumsum(a.astype(f32), axis=0), 0),
    "turned": ({"a": ints(u8, R, C)}, lambda a: a.T, 0),
    "turned_tiles": ({"a": floats(f32, M, N)}, lambda a: a.T, 0),
    "reshaped": ({"a": floats(f32, R, C)}, lambda a: a.reshape(40, 12), 0),
    "lower": ({"a": floats(f32, R, C)}, lambda a: (np.tril(a), np.tril(a, -2)), 0),
    "upper": ({"a": ints(i32, R, C)}, lambda a: (np.triu(a), np.triu(a, 3)), 0),
    "outer": ({"a": floats(f32, R), "b": floats(f32, C)}, lambda a, b: np.outer(a, b) + np.arange(C, dtype=f32), 0),
    "shifted": ({"a": floats(f32, M, N)}, lambda a: padded(a, -1, 0) + padded(a, 1, 0) + padded(a, 0, -2) - padded(a, 0, 3), 0),
    "points": ({"a": ints(i32, B, M, 3, N)}, lambda a: a[:, :, 2, :] - a[0, :, 0, :], 0),
    "product_f64": ({"a": floats(f64, R, C), "b": floats(f64, C, R)}, lambda a, b: a @ b, 0),
    "product_turned": ({"a": floats(f16, R, C), "b": floats(f16, R, C)}, lambda a, b: a.astype(f64) @ b.astype(f64).T, 1e-5),
    "product_i8": ({"a": ints(i8, R, C), "b": ints(i8, C, R)}, lambda a, b: a.astype(i32) @ b.astype(i32), 0),
    "matmul": ({"a": floats(f32, M, K), "b": floats(f32, K, N)}, lambda a, b: a.astype(f64) @ b.astype(f64), 1e-5),
    "collatz": ({"a": random.integers(1, 1000, N)}, lambda a: [collatz(int(n)) for n in a], 0),
    "odd_sums": ({"a": random.integers(0, 30, N).astype(i32)}, lambda a: [sum(range(1, n + 1, 2)) for n in a], 0),
    "clamped": ({"a": floats(f32, N)}, lambda a: np.clip(a, f32(-0.5), f32(0.75)), 0),
    "softmax": ({"a": floats(f64, M, C)}, softmax, 1e-14),
    "masked_max": ({"a": -abs(floats(f32, M, N)) - 1}, lambda a: a.max(axis=1, keepdims=True), 0),
    "compound": ({"a": ints(i32, N)}, compound, 0),
}


def differs(found, expected, tolerance):
    """What is wrong, or None."""
    expected = np.asarray(expected)
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if found.dtype.kind != "f":
        wrong = found != expected
    else:
        expected = expected if tolerance else expected.astype(found.dtype)
        error = abs(found.astype(f64) - expected.astype(f64))
        bound = tolerance * (np.maximum(abs(expected.astype(f64)), 1) if tolerance >= 1e-5 else abs(expected.astype(f64)))
        wrong = ~((found == expected) | (np.isnan(found) & np.isnan(expected)) | (error <= bound))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"element {list(at)}: found {found[at]!r}, expected {expected[at]!r}; {int(wrong.sum())} of {wrong.size} differ"


def run(program, folder, name, inputs, function, tolerance):
    dims = {"N": N, "M": M, "K": K, "B": B}
    kernel = next(k for k in json.loads(subprocess.check_output([program, "--info=json"]))["kernels"] if k["name"] == name)
    tensors = [t["name"] for t in kernel["tensors"]]
    for tensor, values in inputs.items():
        np.save(folder / f"{tensor}.npy", values)
    outputs = [t for t in tensors if t not in inputs]
    for tensor in outputs:
        (folder / f"{tensor}.npy").unlink(missing_ok=True)
    used = {d["name"] for d in kernel["dims"]}
    job = {"kernel": name, "dims": {d: v for d, v in dims.items() if d in used}, "tensors": {t: f"{t}.npy" for t in tensors}}
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run([program, folder / "job.json", "--progress=none"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    with np.errstate(all="ignore"):
        expected = function(*inputs.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    faults = [differs(np.load(folder / f"{t}.npy"), e, tolerance) for t, e in zip(sorted(outputs), expected)]
    return next((f"{t}: {fault}" for t, fault in zip(sorted(outputs), faults) if fault), None)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = folder / "kernels"
        subprocess.run([sys.argv[1], "-w", "--gpu=none", Path(__file__).with_name("kernels.phb"), "-o", program], check=True)
        failed = 0
        for name, (inputs, function, tolerance) in CASES.items():
            fault = run(program, folder, name, inputs, function, tolerance)
            failed += fault is not None
            if fault:
                print(f"{name}: {fault}")
        print(f"{len(CASES)} kernels, {failed} differ from NumPy")
        return failed > 0


if __name__ == "__main__":
    sys.exit(main())

"""Compares every kernel of both_readings.phb with NumPy, as one super-tile a tensor and as many, on one pod and on three; all runs must give the same bits.

    both_readings.py PHOBOSC
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from check import differs

H, W, M, N, K, R, C = 50, 67, 77, 91, 53, 45, 101
WAYS = [["--pods=1"], ["--pods=3"], ["--pods=3", "--placement=block", "--memory=1M"]]
f16, f32, f64, i8, i32 = np.float16, np.float32, np.float64, np.int8, np.int32
random = np.random.default_rng(20261130)
CASES = {}


def normal(dtype, *shape):
    return random.standard_normal(shape).astype(dtype)


def case(name, inputs, outputs, tolerance=0.0, scalars=None, dims=None, cluster=None):
    """Inputs and what is expected of outputs by name, the error allowed, and small super-tiles."""
    CASES[name] = (inputs, outputs, tolerance, scalars or {}, dims or {}, cluster)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x * 0.70710678))


def products():
    a, b, bias = normal(f32, M, K), normal(f32, N, K), normal(f32, N)
    wide_a, wide_b = a.astype(f64), b.astype(f64)
    case("distances", {"A": a, "B": b}, {"D": ((wide_a[:, None] - wide_b[None]) ** 2).sum(-1)}, 2e-5, cluster={"TM": 32, "TN": 32})
    case("dense", {"A": a, "B": np.ascontiguousarray(b.T), "bias": bias}, {"C": gelu(wide_a @ wide_b.T + bias)}, 2e-5, cluster={"TM": 32, "TN": 32, "TK": 16})
    a, b = (random.integers(-128, 128, shape).astype(i8) for shape in ((M, K), (N, K)))
    scale = (random.random((M, 1)) * 0.002).astype(f32)
    scaled = (a.astype(i32) @ b.T.astype(i32)).astype(f32) * scale
    rounded = np.sign(scaled) * np.floor(abs(scaled) + f32(0.5))
    case("quantised", {"A": a, "B": b, "s": scale}, {"C": np.clip(rounded, -128, 127).astype(i8)}, cluster={"TM": 16, "TN": 16})
    x, y, a = normal(f64, M, 1), normal(f64, N), normal(f64, M, N)
    case("rank_one", {"x": x, "y": y, "A": a}, {"A": a + 1.5 * x * y}, scalars={"alpha": 1.5}, cluster={"TM": 32, "TN": 32})


def rows():
    logits, label = normal(f32, R, C) * 5, random.integers(0, C, (R, 1)).astype(i32)
    wide = logits.astype(f64)
    loss = np.log(np.exp(wide).sum(1, keepdims=True)) - np.take_along_axis(wide, label.astype(int), 1)
    case("cross_entropy", {"logits": logits, "label": label}, {"loss": loss}, 2e-5, cluster={"BR": 16, "BC": 32})
    x = random.integers(-50, 50, (R, C)).astype(f32)
    case("argmax", {"x": x}, {"at": x.argmax(1)[:, None], "value": x.max(1)[:, None]}, cluster={"BR": 16, "BC": 32})
    x = (normal(f32, R, C) * 10.0 ** random.integers(-3, 6, (R, C))).astype(f32)
    case("kahan", {"x": x}, {"y": x.astype(f64).sum(1, keepdims=True)}, 1e-5, cluster={"BR": 16, "BC": 32})
    decay, x = (random.random((R, 1)) * 0.9).astype(f32), normal(f32, R, C)
    y, last = np.zeros((R, C)), np.zeros(R)
    for t in range(C):
        y[:, t] = last = decay[:, 0].astype(f64) * last + x[:, t]
    case("recurrence", {"a": decay, "x": x}, {"y": y}, 2e-5, cluster={"BR": 16})
    x, gain = normal(f16, R, C), normal(f32, C)
    wide = x.astype(f64)
    case("rmsnorm", {"x": x, "g": gain}, {"y": wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * gain}, 1e-3, {"eps": 1e-5}, cluster={"BR": 16})


def attention():
    q, k, v = normal(f32, 3, 70, 32), normal(f32, 3, 70, 32), normal(f32, 3, 70, 32)
    place = np.arange(70)
    seen = (place[None] <= place[:, None]) & (place[None] > place[:, None] - 9)
    scores = np.where(seen, np.einsum("hsd,htd->hst", q.astype(f64), k) * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    case("window", {"Q": q, "K": k, "V": v}, {"O": weights / weights.sum(-1, keepdims=True) @ v}, 2e-5, {"scale": 0.25, "width": 9}, cluster={"BR": 32})


def grids():
    a = normal(f64, H, W)
    wide = np.pad(a, ((1, 1), (2, 2)))
    box = sum(wide[y : y + H, x : x + W] for y in range(3) for x in range(5)) / 15
    case("box", {"a": a}, {"o": box}, 1e-13, cluster={"TY": 16, "TX": 16})
    a = random.integers(-30000, 30000, (3, M, N)).astype(np.int16)
    case("permute", {"a": a}, {"o": a.transpose(2, 0, 1)}, cluster={"TM": 16, "TN": 16})
    a, gain = normal(f32, 2, 3, H, W), normal(f32, 3)
    case("channels", {"a": a, "gain": gain}, {"o": a * gain[None, :, None, None]}, cluster={"TY": 16})
    a = random.integers(-(2**62), 2**62, (M, N))
    case("clear_below", {"A": a}, {"A": np.triu(a)}, cluster={"TM": 16, "TN": 32})


def elements():
    a, b = normal(f32, 300, 2), normal(f32, 300, 2)
    z = (a[:, 0] + 1j * a[:, 1].astype(complex)) * (b[:, 0] + 1j * b[:, 1])
    case("complex_product", {"a": a, "b": b}, {"c": np.stack([z.real, z.imag], 1)}, 1e-5, cluster={"T": 64})
    x = random.integers(0, 2**32, 300).astype(np.uint32)
    s = x.copy()
    for _ in range(7):
        s ^= s << np.uint32(13)
        s ^= s >> np.uint32(17)
        s ^= s << np.uint32(5)
    ones = np.array([bin(v).count("1") + 32 - int(v).bit_length() for v in s])
    case("xorshift", {"x": x}, {"y": s, "ones": ones}, scalars={"rounds": 7}, cluster={"T": 64})
    x = random.random(300) * 1e4
    g, turns = np.maximum(x, 1), np.zeros(300, int)
    while (opens := abs(g * g - x) > 1e-9 * (x + 1)).any():
        g = np.where(opens, 0.5 * (g + x / g), g)
        turns += opens
    case("newton", {"x": x}, {"y": g, "turns": turns}, 1e-14, cluster={"T": 64})


def threads():
    x = normal(f32, 1000)
    wide = np.pad(x.astype(f64), 1)
    case("smooth", {"x": x}, {"y": 0.25 * wide[:-2] + 0.5 * wide[1:-1] + 0.25 * wide[2:]}, 1e-5)
    x = normal(f32, R, C)
    weights = np.exp(x.astype(f64) - x.max(1, keepdims=True))
    case("warp_softmax", {"x": x}, {"y": weights / weights.sum(1, keepdims=True)}, 1e-5)
    x = normal(f32, 5000)
    at = np.floor((x - f32(-2)) / f32(4) * f32(20)).astype(int)
    case("buckets", {"x": x}, {"n": np.bincount(at[(at >= 0) & (at < 20)], minlength=20)}, scalars={"low": -2, "high": 2}, dims={"BINS": 20})
    x = normal(f32, 1024)
    case("cluster_max", {"x": x}, {"y": x / x.reshape(-1, 256).max(1).repeat(256)})


def run(program, folder, name, ways):
    """What is wrong, or None."""
    inputs, outputs, tolerance, scalars, dims, cluster = CASES[name]
    first = None
    for way in ways:
        for small in (False, True) if cluster else (False,):
            for tensor in outputs:
                (folder / f"{tensor}.npy").unlink(missing_ok=True)
            for tensor, values in inputs.items():
                np.save(folder / f"{tensor}.npy", values)
            job = {"kernel": name, "scalars": scalars, "dims": dims, "cluster": cluster if small else {}}
            job["tensors"] = {tensor: f"{tensor}.npy" for tensor in inputs | outputs}
            (folder / "job.json").write_text(json.dumps(job))
            done = subprocess.run([program, folder / "job.json", "--progress=none", *way], capture_output=True, text=True)
            if done.returncode:
                return done.stderr.strip()
            found = {tensor: np.load(folder / f"{tensor}.npy") for tensor in outputs}
            for tensor, expected in outputs.items():
                fault = differs(found[tensor], expected, tolerance)
                if fault:
                    return f"{tensor} by {way}: {fault}"
            first = first or found
            if any(found[tensor].tobytes() != first[tensor].tobytes() for tensor in outputs):
                return f"{way}: other bits than by {ways[0]}"
    return None


def main():
    for make in (products, rows, attention, grids, elements, threads):
        make()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = folder / "kernels"
        subprocess.run([sys.argv[1], "-w", "--gpu=none", Path(__file__).with_suffix(".phb"), "-o", program], check=True)
        failed = 0
        for name in CASES:
            fault = run(program, folder, name, WAYS)
            failed += fault is not None
            if fault:
                print(f"{name}: {fault}")
        print(f"{len(CASES)} kernels, {failed} differ from NumPy or from themselves")
        return failed > 0


if __name__ == "__main__":
    sys.exit(main())

"""The kernels of this folder: sizes, inputs and what NumPy makes of them. A function of each kernel takes sizes and gives
tensors, what is expected, and scalars."""
import numpy as np

from bounded import Bounded, U, UNIT, attend, bounded, product, where

random = np.random.default_rng(20261201)


class Tensor:
    """Numbers as they are stored; `wide` is what they are in f64."""

    def __init__(self, dtype, values):
        self.dtype = dtype
        values = np.asarray(values)
        if dtype == "bf16":
            bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
            self.stored = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        else:
            self.stored = values.astype({"f": "f", "i": "i", "u": "u"}[dtype[0]] + str(int(dtype[1:]) // 8))
        self.wide = widened(self.stored, dtype)


def widened(stored, dtype):
    if dtype == "bf16":
        return (stored.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64 if dtype[0] == "f" else np.int64)


def normal(dtype, *shape):
    return Tensor(dtype, random.standard_normal(shape))


def ints(dtype, *shape):
    return Tensor(dtype, random.integers(-128, 128, shape))


def uniform(*shape):
    return Tensor("f32", random.random(shape))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    """By its series, and 1 beyond."""
    y = np.clip(x, -5.9, 5.9)
    term, total = y.copy(), y.copy()
    for n in range(1, 140):
        term = term * -y * y / n
        total += term / (2 * n + 1)
    return np.where(np.abs(x) > 4.5, np.sign(x), total * 2 / np.sqrt(np.pi))


# ---- products ----

def bias_gelu(M, N, K):
    t = {"X": normal("f16", M, K), "W": normal("f16", K, N), "bias": normal("f16", N)}
    x = product(t["X"].wide, t["W"].wide) + t["bias"].wide
    return t, {"Y": (0.5 * x * (1.0 + (x * 0.70710678).through(erf))).stored("f16")}


def classify(M, N, K):
    t = {"X": normal("f16", M, K), "W": normal("f16", K, N)}
    return t, {"P": attend(product(t["X"].wide, t["W"].wide), np.eye(N), "f32")}


def batched_at_b(BATCH, M, N, K):
    t = {"A": normal("bf16", BATCH, K, M), "B": normal("bf16", BATCH, K, N)}
    return t, {"C": product(t["A"].wide.swapaxes(1, 2), t["B"].wide)}


def residual(M, N, K):
    t = {"X": normal("bf16", M, K), "W": normal("bf16", N, K), "stream": normal("f32", M, N)}
    return t, {"stream": product(t["X"].wide, t["W"].wide.T) + t["stream"].wide}


def keys_and_gates(M, N, K):
    t = {"X": normal("f16", M, K), "WK": normal("f16", K, N), "WG": normal("f16", K, N)}
    return t, {"keys": product(t["X"].wide, t["WK"].wide).stored("f16"), "gates": product(t["X"].wide, t["WG"].wide).through(sigmoid)}


def swiglu(M, N, K):
    t = {"X": normal("bf16", M, K), "W1": normal("bf16", K, N), "W2": normal("bf16", K, N)}
    left, right = product(t["X"].wide, t["W1"].wide), product(t["X"].wide, t["W2"].wide)
    return t, {"Y": (left * left.through(sigmoid) * right).stored("bf16")}


def dequantised(M, N, K):
    t = {"A": ints("i8", M, K), "B": ints("i8", N, K), "row_scale": uniform(M, 1), "col_scale": uniform(N)}
    sums = t["A"].wide @ t["B"].wide.T
    return t, {"C": (Bounded(sums, U * abs(sums)) * t["row_scale"].wide * t["col_scale"].wide).stored("bf16")}


def zero_point(M, N, K):
    t = {"A": ints("i8", M, K), "B": ints("i8", K, N)}
    return t, {"C": Bounded((t["A"].wide + 7) @ t["B"].wide)}, {"zero": -7}


def weight_only(M, N, G):
    t = {"X": normal("f16", M, 64 * G), "W": ints("i8", 64 * G, N), "scales": Tensor("f16", random.random((G, N)) / 64)}
    w = Bounded(t["W"].wide) * t["scales"].wide.repeat(64, 0)
    return t, {"Y": product(t["X"].wide, w.stored("f16")).stored("f16")}


def chain(M, N, K, R):
    t = {"A": normal("f16", M, K), "B": normal("f16", K, R), "C": normal("f16", R, N)}
    return t, {"Y": product(t["A"].wide, product(t["B"].wide, t["C"].wide).stored("f16"))}


def low_rank(M, N, K):
    t = {"X": normal("bf16", M, K), "W": normal("bf16", K, N), "A": normal("bf16", K, 16), "B": normal("bf16", 16, N)}
    low = (0.25 * product(t["X"].wide, t["A"].wide)).stored("bf16")
    return t, {"Y": (product(t["X"].wide, t["W"].wide) + product(low, t["B"].wide)).stored("bf16")}, {"gain": 0.25}


def norm_linear(M, N, K):
    t = {"X": normal("f16", M, K), "gain": uniform(K), "W": normal("f16", K, N)}
    t["gain"] = Tensor("f16", t["gain"].wide)
    x = Bounded(t["X"].wide)
    mean = (x * x).total(1) * (1.0 / K) + 1e-5
    y = product((x * t["gain"].wide).stored("f16"), t["W"].wide) * mean.through(lambda m: 1 / np.sqrt(m))
    return t, {"Y": y.stored("f16")}, {"eps": 1e-5}


def plain_f32(M, N, K):
    t = {"A": normal("f32", M, K), "B": normal("f32", K, N)}
    return t, {"C": product(t["A"].wide, t["B"].wide)}


def accurate(M, N, K):
    t = {"A": normal("f32", M, K), "B": normal("f32", N, K), "C": normal("f32", M, N)}
    return t, {"C": product(t["A"].wide, t["B"].wide.T) + 0.5 * Bounded(t["C"].wide)}


def lower_gram(M, K):
    a = normal("f16", M, K)
    t = {"A": a, "AT": a, "C": normal("f32", M, M)}
    return t, {"C": where(np.tri(M, dtype=bool), product(a.wide, a.wide.T), t["C"].wide)}


def conv3x3(H, W, C, F):
    t = {"X": normal("f16", H, W, C), "taps": normal("f16", 3, 3, C, F)}
    padded = np.pad(t["X"].wide, ((1, 1), (1, 1), (0, 0)))
    lines = np.concatenate([padded[i : i + H, j : j + W] for i in range(3) for j in range(3)], -1)
    return t, {"Y": product(lines, t["taps"].wide.reshape(9 * C, F)).through(lambda x: np.maximum(x, 0), 0).stored("f16")}


def nearest(M, N, D):
    t = {"X": normal("f32", M, D), "centres": normal("f32", N, D)}
    x, c = t["X"].wide, t["centres"].wide
    d = Bounded(x).__mul__(x).total(1) + Bounded(c).__mul__(c).total(1).turned() - 2.0 * product(x, c.T)
    best = d.value.argmin(1)[:, None]
    return t, {"which": Bounded(best), "distance": Bounded(np.take_along_axis(d.value, best, 1), d.error.max(1, keepdims=True))}


def experts(M, N, K, E):
    chosen = random.integers(0, E, -(-M // 64)).repeat(64)[:M]
    t = {"X": normal("bf16", M, K), "W": normal("bf16", E, K, N), "expert": Tensor("i32", chosen)}
    rows = product(t["X"].wide[:, None], t["W"].wide[chosen])
    return t, {"Y": Bounded(rows.value[:, 0], rows.error[:, 0]).stored("bf16")}


def decode_rows(N, K):
    t = {"X": normal("f16", 8, K), "W": normal("f16", N, K)}
    return t, {"Y": product(t["X"].wide, t["W"].wide.T).stored("f16")}


def doubles(M, N, K):
    t = {"A": normal("f64", M, K), "B": normal("f64", K, N)}
    return t, {"C": product(t["A"].wide, t["B"].wide, UNIT["f64"])}


# ---- attention ----

SCALE = 0.125


def heads(dtype, H, S, T, D):
    return {"Q": normal(dtype, *(H if isinstance(H, tuple) else (H,)), S, D), "K": normal(dtype, H[0] if isinstance(H, tuple) else H, T, D),
            "V": normal(dtype, H[0] if isinstance(H, tuple) else H, T, D)}


def scores(t):
    return product(t["Q"].wide, t["K"].wide.swapaxes(-1, -2)) * SCALE


def masked(seen, s):
    return where(seen, s, -np.inf)


def places(S, T):
    return np.arange(S)[:, None], np.arange(T)[None]


def sliding_window(H, S, D):
    t, (i, j) = heads("f16", H, S, S, D), places(S, S)
    s = masked((j <= i) & (j > i - 20), scores(t))
    return t, {"O": attend(s, t["V"].wide, "f16").stored("f16")}, {"scale": SCALE, "window": 20}


def alibi(H, S, D):
    t, (i, j) = heads("bf16", H, S, S, D), places(S, S)
    t["slope"] = uniform(H)
    s = scores(t) - Bounded(t["slope"].wide[:, None, None]) * (i - j)
    return t, {"O": attend(masked(j <= i, s), t["V"].wide, "bf16").stored("bf16")}, {"scale": SCALE}


def soft_cap(H, S, T, D):
    t = heads("bf16", H, S, T, D)
    s = (scores(t) * (1 / 1.5)).through(np.tanh) * 1.5
    return t, {"O": attend(s, t["V"].wide, "bf16").stored("bf16")}, {"scale": SCALE, "cap": 1.5}


def additive_mask(H, S, T, D):
    t = heads("f16", H, S, T, D)
    mask = np.where(random.random((S, T)) < 0.3, -np.inf, random.standard_normal((S, T)))
    mask[S // 2] = -np.inf
    t["mask"] = Tensor("f32", mask)
    return t, {"O": attend(scores(t) + t["mask"].wide, t["V"].wide, "f16")}, {"scale": SCALE}


def grouped_query(KV, G, S, T, D):
    t = heads("f16", (KV, G), S, T, D)
    s = product(t["Q"].wide, t["K"].wide.swapaxes(-1, -2)[:, None]) * SCALE
    return t, {"O": attend(s, t["V"].wide[:, None], "f16").stored("f16")}, {"scale": SCALE}


def decode_step(KV, T, D):
    t = heads("bf16", KV, 16, T, D)
    return t, {"O": attend(scores(t), t["V"].wide, "bf16")}, {"scale": SCALE}


def cross_ragged(B, S, T, D):
    t = heads("f16", B, S, T, D)
    t["keys"] = Tensor("i32", np.linspace(1, T, B))
    q = (Bounded(t["Q"].wide) * SCALE).stored("f16")
    s = masked(np.arange(T) < t["keys"].wide[:, None, None], product(q, t["K"].wide.swapaxes(1, 2)))
    return t, {"O": attend(s, t["V"].wide, "f16").stored("f16")}, {"scale": SCALE}


def documents(H, S, D):
    t, (i, j) = heads("f16", H, S, S, D), places(S, S)
    document = np.sort(random.integers(0, 4, S))
    t["of_query"], t["of_key"] = Tensor("i32", document[:, None]), Tensor("i32", document)
    s = masked((document[:, None] == document) & (j <= i), scores(t))
    return t, {"O": attend(s, t["V"].wide, "f16").stored("f16")}, {"scale": SCALE}


def sink(H, S, T, D):
    t = heads("bf16", H, S, T, D)
    t["logit"] = normal("f32", H)
    return t, {"O": attend(scores(t), t["V"].wide, "bf16", t["logit"].wide[:, None, None]).stored("bf16")}, {"scale": SCALE}


def short_keys(H, S, T, D):
    t = heads("f16", H, S, T, D)
    return t, {"O": attend(scores(t), t["V"].wide, "f16").stored("f16")}, {"scale": SCALE}


def attention_f32(H, S, T, D):
    t = heads("f32", H, S, T, D)
    return t, {"O": attend(scores(t), t["V"].wide, "f32")}, {"scale": SCALE}


def backward(H, S, T, D):
    t = heads("bf16", H, S, T, D)
    t["dO"], t["delta"] = normal("bf16", H, S, D), normal("f32", H, S)
    s = scores(t)
    t["lse"] = Tensor("f32", np.log(np.exp(s.value).sum(-1)))
    p = (s - t["lse"].wide[..., None]).through(np.exp).turned()
    g = (product(t["V"].wide, t["dO"].wide.swapaxes(1, 2)) - t["delta"].wide[:, None]) * p * SCALE
    return t, {"dV": product(p.stored("bf16"), t["dO"].wide), "dK": product(g.stored("bf16"), t["Q"].wide)}, {"scale": SCALE}


def retention(H, T, DK, DV):
    t = {"Q": normal("bf16", H, T, DK), "K": normal("bf16", H, T, DK), "V": normal("bf16", H, T, DV), "rate": Tensor("f32", -random.random(H) / 20)}
    rate, i, o, error = t["rate"].wide[:, None, None], np.arange(64), [], []
    state = Bounded(np.zeros((H, DK, DV)))
    pad = [np.pad(t[name].wide, ((0, 0), (0, -T % 64), (0, 0))) for name in ("Q", "K", "V")]
    for first in range(0, T, 64):
        q, k, v = (x[:, first : first + 64] for x in pad)
        decay = Bounded(rate * np.maximum(i[:, None] - i, 0)).through(np.exp, 32)
        seen = where(i[:, None] >= i, product(q, k.swapaxes(1, 2)) * decay, 0.0).stored("bf16")
        chunk = product(seen, v) + product(q, state.stored("bf16")) * np.exp(rate * (i[:, None] + 1))
        late = (bounded(k) * Bounded(rate * (63 - i[:, None])).through(np.exp, 32)).stored("bf16")
        state = state * np.exp(rate * 64) + product(late.turned(), v)
        o, error = o + [chunk.value], error + [chunk.error]
    return t, {"O": Bounded(np.concatenate(o, 1)[:, :T], np.concatenate(error, 1)[:, :T] * 1.01)}


def linear(H, S, T, D):
    t = heads("f16", H, S, T, D)
    feature = lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
    q, k = Bounded(t["Q"].wide).through(feature), Bounded(t["K"].wide).through(feature)
    state, sums = product(k.stored("f16").turned(), t["V"].wide), k.total(1)
    below = (q * sums).total(2).through(lambda x: 1 / x)
    return t, {"O": product(q, state) * below}


# Sizes of a run each, ragged ones first.
SIZES = {
    "bias_gelu": [dict(M=130, N=72, K=100), dict(M=256, N=256, K=128)],
    "classify": [dict(M=70, N=50, K=45), dict(M=128, N=200, K=64)],
    "batched_at_b": [dict(BATCH=2, M=70, N=90, K=77), dict(BATCH=9, M=64, N=64, K=64)],
    "residual": [dict(M=131, N=150, K=70), dict(M=256, N=128, K=256)],
    "keys_and_gates": [dict(M=70, N=136, K=90), dict(M=128, N=256, K=128)],
    "swiglu": [dict(M=130, N=70, K=81), dict(M=256, N=128, K=64)],
    "dequantised": [dict(M=130, N=70, K=99), dict(M=128, N=256, K=128)],
    "zero_point": [dict(M=70, N=33, K=45), dict(M=128, N=64, K=64)],
    "weight_only": [dict(M=70, N=130, G=2), dict(M=128, N=128, G=4)],
    "chain": [dict(M=100, N=50, K=70, R=32), dict(M=128, N=128, K=128, R=64)],
    "low_rank": [dict(M=130, N=70, K=100), dict(M=256, N=128, K=128)],
    "norm_linear": [dict(M=70, N=70, K=50), dict(M=128, N=128, K=64)],
    "plain_f32": [dict(M=65, N=70, K=37), dict(M=1, N=300, K=129)],
    "accurate": [dict(M=130, N=70, K=75), dict(M=128, N=256, K=128)],
    "lower_gram": [dict(M=100, K=70), dict(M=256, K=64)],
    "conv3x3": [dict(H=3, W=70, C=20, F=40), dict(H=10, W=64, C=32, F=32)],
    "nearest": [dict(M=70, N=100, D=32), dict(M=256, N=64, D=64)],
    "experts": [dict(M=130, N=70, K=70, E=3), dict(M=256, N=128, K=64, E=4)],
    "decode_rows": [dict(N=130, K=100), dict(N=256, K=128)],
    "doubles": [dict(M=65, N=70, K=37), dict(M=64, N=128, K=32)],
    "sliding_window": [dict(H=2, S=150, D=64), dict(H=1, S=256, D=64)],
    "alibi": [dict(H=2, S=100, D=64), dict(H=3, S=128, D=128)],
    "soft_cap": [dict(H=2, S=70, T=90, D=64), dict(H=2, S=128, T=128, D=64)],
    "additive_mask": [dict(H=2, S=70, T=150, D=64), dict(H=1, S=128, T=256, D=64)],
    "grouped_query": [dict(KV=2, G=2, S=70, T=90, D=64), dict(KV=2, G=3, S=128, T=64, D=128)],
    "decode_step": [dict(KV=3, T=150, D=64), dict(KV=2, T=128, D=64)],
    "cross_ragged": [dict(B=3, S=70, T=100, D=32), dict(B=2, S=128, T=128, D=64)],
    "documents": [dict(H=2, S=100, D=64), dict(H=1, S=192, D=64)],
    "sink": [dict(H=2, S=70, T=90, D=64), dict(H=2, S=128, T=64, D=64)],
    "short_keys": [dict(H=2, S=70, T=50, D=64), dict(H=2, S=64, T=128, D=64)],
    "attention_f32": [dict(H=1, S=70, T=90, D=64), dict(H=2, S=64, T=64, D=64)],
    "backward": [dict(H=2, S=70, T=100, D=64), dict(H=1, S=64, T=128, D=64)],
    "retention": [dict(H=2, T=150, DK=64, DV=64), dict(H=2, T=128, DK=64, DV=128)],
    "linear": [dict(H=2, S=70, T=100, D=64), dict(H=1, S=64, T=128, D=64)],
}

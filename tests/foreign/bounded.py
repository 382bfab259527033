"""Numbers in f64 with a bound of how far a run of the kernel may be off: each operation adds what its rounding in f32 may change to
what its operands bring.

A product of n terms is off by at most c * n * eps * sum |terms|; c = 2 lets tensor cores cut off where others round."""
import numpy as np

UNIT = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}
LEAST = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150, "f64": 0.0}  # half of the least number
U = UNIT["f32"]


class Bounded:
    __array_ufunc__ = None  # NumPy leaves `array * bounded` to us

    def __init__(self, value, error=0.0):
        self.value = np.asarray(value, np.float64)
        self.error = np.broadcast_to(np.asarray(error, np.float64), self.value.shape)

    def __add__(self, other):
        other = bounded(other)
        value = self.value + other.value
        return Bounded(value, self.error + other.error + U * finite(value))

    def __sub__(self, other):
        return self + bounded(other) * -1.0

    def __mul__(self, other):
        other = bounded(other)
        value = self.value * other.value
        error = finite(self.value) * other.error + finite(other.value) * self.error + self.error * other.error
        return Bounded(value, error + U * finite(value))

    __radd__, __rmul__ = __add__, __mul__

    def turned(self):
        return Bounded(self.value.swapaxes(-1, -2), self.error.swapaxes(-1, -2))

    def stored(self, dtype):
        return Bounded(self.value, self.error + UNIT[dtype] * (finite(self.value) + self.error) + LEAST[dtype])

    def total(self, axis):
        terms = np.abs(self.value).sum(axis, keepdims=True)
        return Bounded(self.value.sum(axis, keepdims=True), self.error.sum(axis, keepdims=True) + 2 * self.value.shape[axis] * U * terms)

    def through(self, function, ulps=4):
        """A monotone function, good to so many ulp."""
        value = function(self.value)
        off = np.maximum(np.abs(function(self.value + self.error) - value), np.abs(function(self.value - self.error) - value))
        return Bounded(value, np.nan_to_num(off, posinf=0.0) + 2 * ulps * U * finite(value))


def bounded(x):
    return x if isinstance(x, Bounded) else Bounded(x)


def finite(x):
    return np.abs(np.where(np.isfinite(x), x, 0.0))


def product(a, b, unit=U):
    a, b = bounded(a), bounded(b)
    x, y = np.abs(a.value), np.abs(b.value)
    return Bounded(a.value @ b.value, a.error @ y + x @ b.error + a.error @ b.error + 2 * a.value.shape[-1] * unit * (x @ y))


def where(condition, a, b):
    a, b = bounded(a), bounded(b)
    return Bounded(np.where(condition, a.value, b.value), np.where(condition, a.error, b.error))


def attend(scores, values, dtype, sink=None):
    """softmax(scores) * values, in any number of turns; probabilities are rounded to `dtype` before the product. A row of -inf gives 0.

    What a turn rounds: the difference of scores below exp, exp itself, and what was summed up so far when a greater score comes."""
    s, turns = scores.value, scores.value.shape[-1]
    with np.errstate(invalid="ignore"):
        peak = np.maximum(s.max(-1, keepdims=True), -np.inf if sink is None else sink)
        p = np.where(np.isfinite(s), np.exp(s - peak), 0.0)
    reach = finite(s).max(-1, keepdims=True) + finite(peak)
    relative = np.expm1(2 * scores.error.max(-1, keepdims=True) + 4 * U * (1 + reach)) + 16 * turns * U
    rounding = (UNIT[dtype] if dtype != "f32" else 0.0)
    total = p.sum(-1, keepdims=True) + (0.0 if sink is None else np.exp(sink - peak))
    total = np.where(total > 0, total, 1.0)
    terms = (p @ np.abs(values)) * (2 * relative + rounding) + LEAST[dtype] * np.abs(values).sum(-2, keepdims=True)
    return Bounded(p @ values / total, terms / total * (1 + relative))

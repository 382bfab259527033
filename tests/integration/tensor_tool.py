# phobos-tensor against NumPy: tensor_tool.py PHOBOS_TENSOR
import os
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

TOOL = os.path.abspath(sys.argv[1])
work = tempfile.TemporaryDirectory()
os.chdir(work.name)
random = np.random.default_rng()
TYPES = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "i8": "|i1", "u8": "|u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8", "bool": "|b1"}


def run(*arguments, status=0):
    done = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, COLUMNS="20"))
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return (done.stdout + done.stderr).decode()


def contains(text, *parts):
    for part in parts:
        assert part in text, (part, text)


def bf16(values):
    """Rounded to nearest even, by the bits of f32; for values that f32 holds."""
    bits = np.asarray(values, "<f4").view("<u4").astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


# What is made: headers that NumPy reads, and the fills.
for name, dtype in TYPES.items():
    run("create", f"x.npy:{name}[3,5,7]", "--fill=iota")
    x = np.load("x.npy")
    assert x.dtype == np.dtype(dtype) and x.shape == (3, 5, 7)
    expected = np.arange(105) != 0 if name == "bool" else np.arange(105).astype(dtype)
    assert (x.ravel() == expected).all(), name
run("create", "u.npy:f64[100000]", "--fill", "uniform", "--seed=5")
u = np.load("u.npy")
assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.01 and len(np.unique(u)) == u.size
run("create", "again.npy:f64[100000]", "--fill=uniform", "--seed=5")
assert (np.load("again.npy") == u).all()
run("create", "n.npy:f64[100000]", "--fill=normal")
n = np.load("n.npy")
assert abs(n.mean()) < 0.02 and abs(n.std() - 1) < 0.02
run("create", "c.bin:i16[4]", "--fill=-7")
assert open("c.bin", "rb").read() == struct.pack("<4h", *[-7] * 4)
contains(run("info", "c.bin:i16", "n.npy"), "c.bin: i16[4], -7 to -7, mean -7", "n.npy: f64[100000]")

# Conversions, ties and special values among them.
special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-8, -1e-8, 65504, 65519.9, 65520, 1e39, 2.0**-25, 2.0**-24, 1.5 * 2.0**-24, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 300.7, -300.7, 3e9, -3e9, 1e19, 1e20])
values = np.concatenate([special, random.standard_normal(5000) * 10.0 ** random.integers(-9, 9, 5000)])
np.save("v.npy", values)
for name in ("f16", "f32"):
    run("convert", "v.npy", f"w.npy:{name}")
    with np.errstate(all="ignore"):
        expected = values.astype(TYPES[name])
    w = np.load("w.npy")
    assert ((w == expected) & (np.signbit(w) == np.signbit(expected)) | np.isnan(w) & np.isnan(expected)).all(), name
with np.errstate(all="ignore"):
    single = values.astype("<f4")
np.save("s.npy", single)
run("convert", "s.npy", "w.npy:bf16")
assert (np.fromfile("w.npy", "<u2")[-values.size:] == bf16(single)).all()
run("convert", "w.npy:bf16", "back.npy:f32")
assert (np.load("back.npy").view("<u4") >> 16 == bf16(single))[~np.isnan(single)].all()
for name in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
    run("convert", "v.npy", f"w.npy:{name}")
    limits = np.iinfo(TYPES[name])
    expected = [0 if np.isnan(v) else limits.max if v >= float(limits.max) else limits.min if v <= float(limits.min) else int(v) for v in values]
    assert np.load("w.npy").tolist() == expected, name
wide = np.concatenate([random.integers(-2**63, 2**63 - 1, 3000), np.array([2**53 + 1, 2**24 + 1, 2**24 + 3, 2**62 + 2**38, 2**62 + 2**38 + 1, -2**63, 2**63 - 1])])
np.save("i.npy", wide)
for name in ("i8", "u8", "i32", "u64", "f32", "f64", "bool"):
    run("convert", "i.npy", f"w.npy:{name}")
    assert (np.load("w.npy") == wide.astype(TYPES[name])).all(), name
run("convert", "i.npy", "w.npy:bf16")


def nearest(n, bits):
    """The multiple of a power of two with `bits` bits that is nearest to an integer, ties to even."""
    shift = max(abs(n).bit_length() - bits, 0)
    kept, rest = abs(n) >> shift, abs(n) & ((1 << shift) - 1)
    kept += 2 * rest > 1 << shift or (shift > 0 and 2 * rest == 1 << shift and kept & 1)
    return (kept << shift) * (-1 if n < 0 else 1)


found = (np.fromfile("w.npy", "<u2")[-wide.size:].astype("<u4") << 16).view("<f4").tolist()
assert [int(f) for f in found] == [nearest(int(w), 8) for w in wide]

# Raw and .npy, there and back, in another shape.
run("convert", "s.npy", f"s.bin:f32[2,{single.size // 2}]")
assert open("s.bin", "rb").read() == single.tobytes()
run("convert", f"s.bin:f32[{single.size}]", "t.npy")
assert np.load("t.npy").tobytes() == single.tobytes() and np.load("t.npy").shape == single.shape
contains(run("compare", "s.npy", "t.npy"), "0 of 5022 elements differ; at most 0 ulp")

# Differences: the first, the worst, and tolerances.
a = random.standard_normal((40, 50)).astype("<f4")
b = a.copy()
b[3, 7] = np.nextafter(b[3, 7], np.float32(9))
b[20, 1] = np.nextafter(np.nextafter(np.nextafter(b[20, 1], np.float32(9)), np.float32(9)), np.float32(9))
np.save("a.npy", a)
np.save("b.npy", b)
contains(run("compare", "a.npy", "b.npy", status=1), "2 of 2000 elements differ; at most 3 ulp", "first at [3, 7]", "worst at [20, 1]")
contains(run("compare", "a.npy", "b.npy", "--ulp=1", status=1), "1 of 2000", "first at [20, 1]")
run("compare", "a.npy", "b.npy", "--ulp=3")
run("compare", "a.npy", "b.npy", "--abs=1e-4")
run("compare", "a.npy", "b.npy", "--rel=1e-6")
b[0, 0] = np.nan
np.save("b.npy", b)
contains(run("compare", "a.npy", "b.npy", "--ulp=1e9", status=1), "first at [0, 0]", "inf ulp")
a[0, 0], b[0, 0], a[0, 1], b[0, 1] = np.nan, np.nan, 0.0, -0.0
np.save("a.npy", a)
np.save("b.npy", b)
run("compare", "a.npy", "b.npy", "--ulp=3")
contains(run("compare", "a.npy", "s.npy", status=1), "is f32[40, 50]", "is f32[5022]")
contains(run("print", "b.npy", "--most=2"), "[0, 0] nan", "[0, 1] -0", "and 1998 more")

# Pictures: a PNG of the right size, whose pixels follow the numbers.
run("create", "g.npy:f32[2,300,400]", "--fill=iota")
run("draw", "g.npy", "-o", "g.png", "--at=1")
png = open("g.png", "rb").read()
assert png[:8] == b"\x89PNG\r\n\x1a\n"
at, data, size = 8, b"", None
while at < len(png):
    length, kind = struct.unpack(">I4s", png[at:at + 8])
    body = png[at + 8:at + 8 + length]
    size = struct.unpack(">II", body[:8]) if kind == b"IHDR" else size
    data += body if kind == b"IDAT" else b""
    at += 12 + length
assert size == (400, 300) and len(zlib.decompress(data)) == 300 * (1 + 400 * 3)
contains(run("draw", "g.npy"), "\u2580", "2809.5 to 117190")  # means of 15 rows and 20 columns
np.save("nan.npy", np.full((4, 4), np.nan))
contains(run("draw", "nan.npy"), "255;0;255", "no numbers")

# Bad input.
contains(run("info", "absent.npy", status=1), "cannot open")
contains(run("info", "s.bin", status=1), "its type stands behind its name")
contains(run("info", "s.bin:f32[3]", status=1), "f32[3] takes 12 bytes, the file has")
contains(run("info", "a.npy:f64", status=1), 'holds f32, not f64')
contains(run("create", "x.npy", status=1), "type and shape stand behind the name")
contains(run("create", "x.npy:f32[4]", "--fill=noise", status=1), "--fill: expected zeros")
contains(run("create", "x.npy:f64[4000000000,4000000000]", status=1), "so many elements have no number")
contains(run("create", "/nonexistent/x.npy:f32[4]", status=1), "cannot write")
contains(run("convert", "a.npy", "x.bin:f32[7]", status=1), "2000 elements do not fit into a shape of 7")
contains(run("draw", "g.npy", "--at=2", status=1), "axis 0 of \"g.npy\" has 2 places")
contains(run("draw", "a.npy", "--at=1", status=1), "has 0 axes before its matrices")
contains(run("draw", "a.npy", "-o", "/nonexistent/a.png", status=1), "cannot write")
open("cut.npy", "wb").write(open("a.npy", "rb").read()[:-4])
contains(run("info", "cut.npy", status=1), "takes 8000 bytes, the file has 7996")
open("bad.npy", "wb").write(b"\x93NUMPY\x01\x00nonsense")
contains(run("info", "bad.npy", status=1), "bad .npy header")
for wrong in ([], ["paint"], ["info"], ["compare", "a.npy"], ["info", "a.npy", "--ulps=1"], ["compare", "a.npy", "b.npy", "--ulp=-1"], ["draw", "a.npy", "--at=x"]):
    run(*wrong, status=2)
contains(run("--help"), "usage: phobos-tensor info")
assert not [name for name in os.listdir(".") if "." in name and name.split(".")[-1] not in ("npy", "bin", "png")], os.listdir(".")

# Kernels called with NumPy arrays: library_user.py FOLDER_OF_PHOBOS_PY PHOBOSC SAMPLES
import sys
import threading

sys.path.insert(0, sys.argv[1])
import numpy as np
import phobos


def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), (text, str(error))
    else:
        raise AssertionError("expected " + text)


random = np.random.default_rng()
kernels = phobos.compile(sys.argv[3] + "/add/add.phb", ["--gpu=none"], sys.argv[2])
assert kernels.add.__doc__ == "add(a: f32[N], read, b: f32[N], read, c: f32[N], write)", kernels.add.__doc__
a, b = (random.standard_normal(100003, "f4") for _ in range(2))
assert (kernels.add(a, b) == a + b).all()
c = np.full_like(a, np.nan)
assert kernels.add(a=a, b=b, c=c, cluster={"BLOCK": 4096}, options=["--pods=2"]) is c and (c == a + b).all()
assert (kernels.add(a[::2], b[1::2][: a[::2].size].copy() if b[1::2].size == a[::2].size else b[::2]) is not None)
fails(phobos.Error, 'axis 0 is N = 100003 by tensor "a", found 5', lambda: kernels.add(a, b[:5]))
fails(phobos.Error, "interrupted", lambda: kernels.add(a, b, is_cancelled=lambda: True))
fails(phobos.Error, 'did you mean "--pods"?', lambda: kernels.add(a, b, options=["--pod=2"]))
fails(TypeError, "tensor 'b' is missing", lambda: kernels.add(a))
fails(TypeError, "an array of float32; found float64", lambda: kernels.add(a, b.astype("f8")))
fails(TypeError, "'a' is given twice", lambda: kernels.add(a, b, a=a))
fails(TypeError, "no tensor or scalar 'd'", lambda: kernels.add(a, b, d=1))
fails(phobos.Error, "error: expected", lambda: phobos.compile(sys.argv[1] + "/phobos.py", [], sys.argv[2]))

kernels = phobos.compile(sys.argv[3] + "/saxpy/saxpy.phb", ["--gpu=none"], sys.argv[2])
names = [t["name"] for t in kernels.saxpy.info["tensors"]]
scalars = {s["name"]: 2.0 for s in kernels.saxpy.info["scalars"]}
x, y = (random.standard_normal(1001, "f4") for _ in names)
expected = np.float32(2) * x + y
written = [t["name"] for t in kernels.saxpy.info["tensors"] if t["mode"] != "read"]
given = dict(zip(names, (x, y)))
result = kernels.saxpy(**given, **scalars)
assert result is given[written[0]] and np.allclose(result, expected, rtol=1e-6, atol=1e-6)

errors = []


def work():
    for _ in range(3):
        left, right = (random.standard_normal(5003, "f4") for _ in range(2))
        if not (adder.add(left, right) == left + right).all():
            errors.append("wrong")


adder = phobos.compile(sys.argv[3] + "/add/add.phb", ["--gpu=none"], sys.argv[2])
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors

"""What becomes of products' sums under the simulator of sm_90a, against NumPy, on whole tiles, edges and ragged sizes, in several orders:
python3 epilogues.py PHOBOSC EPILOGUES.phb."""
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

SIZES = {"plain": [(130, 200, 100), (64, 520, 20), (1, 1, 1)], "scaled": [(200, 300, 97), (64, 256, 32)], "several": [(200, 300, 130)],
         "stacked": [(70, 130, 65)]}
ORDERS = [0, 1]  # seeds; 0: the ascending one
SUMS = 1e-5  # of the RMS: what sums of f32 may be off by
STORES = {"plain": 2, "scaled": 4, "several": 16, "stacked": 2}  # by bulk copies, of parts of the outputs' columns
STAYING = {"plain", "scaled", "several"}
H = 2
rng = np.random.default_rng(5)
phobosc, source = sys.argv[1:]
failures = 0


def normal(*shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


def inputs(kernel, m, n, k):
    stack = (H,) if kernel == "stacked" else ()
    tensors = {"A": normal(*stack, m, k), "B": normal(*stack, k, n), "C": normal(*stack, m, n)}
    if kernel in ("several", "stacked"):
        tensors["bias"] = normal(n, dtype=np.float32)
    if kernel == "several":
        tensors |= {"s": normal(m, 1, dtype=np.float32), "D": normal(m, n, dtype=np.float32), "E": normal(m, n, dtype=np.float32)}
    return tensors


def expected(kernel, t):
    x = t["A"].astype(np.float64) @ t["B"].astype(np.float64)
    if kernel == "scaled":
        x = 0.125 * x + 0.5 * t["C"].astype(np.float64)
    if kernel == "several":
        x = x * t["s"] + t["bias"] + t["D"]
        return {"C": x, "E": 2 * x}
    return {"C": np.maximum(x + t["bias"], 0) if kernel == "stacked" else x}


def half_ulp(right, dtype):
    """Of the largest element: what rounding to the output's type may cost."""
    info = np.finfo(dtype)
    return max(np.abs(right).max(), float(info.tiny)) * float(info.eps) / 2


def check_entry(text):
    global failures
    kernel = re.match(r"(\w+)_v0", text).group(1)
    stores, stays = len(re.findall(r"cp\.async\.bulk\.tensor\.\dd\.global", text)), "%nctaid" in text
    if stores != STORES[kernel] or "st.global" in text or stays != (kernel in STAYING):
        failures += 1
        print(f"{kernel}: {stores} bulk stores, {text.count('st.global')} others, its CTAs", "stay" if stays else "do not stay")


def run(program, folder, kernel, size, seed):
    global failures
    tensors = inputs(kernel, *size)
    for name, values in tensors.items():
        np.save(os.path.join(folder, name + ".npy"), values)
    dims = dict(zip("MNK", size)) | ({"H": H} if kernel == "stacked" else {})
    with open(os.path.join(folder, "job.json"), "w") as job:
        json.dump({"kernel": kernel, "dims": dims, "tensors": {name: name + ".npy" for name in tensors}}, job)
    order = [f"--simt-seed={seed}"] if seed else []
    done = subprocess.run([program, os.path.join(folder, "job.json"), "--device=simt", *order, "--pods=1", "--progress=none"], capture_output=True, text=True)
    if done.returncode:
        failures += 1
        return print(kernel, size, f"seed {seed}:", done.stdout + done.stderr, done.returncode)
    for name, right in expected(kernel, tensors).items():
        found = np.load(os.path.join(folder, name + ".npy"))
        scale = np.sqrt((right**2).mean())
        error, bound = np.abs(found - right).max() / scale, SUMS + half_ulp(right, found.dtype) / scale
        if not error <= bound:
            failures += 1
            print(kernel, size, f"seed {seed}: error {error:.1e} in {name}, bound {bound:.1e}")


with tempfile.TemporaryDirectory() as folder:
    ptx = subprocess.run([phobosc, "--gpu=sm_90a", "--emit=ptx", source, "-o", "-"], capture_output=True, text=True, check=True).stdout
    entries = ptx.split("\n.visible .entry ")[1:]
    failures += len(entries) != len(STORES)
    for entry in entries:
        check_entry(entry)
    program = os.path.join(folder, "epilogues")
    subprocess.run([phobosc, "--gpu=sm_90a", "--simt", source, "-o", program], check=True)
    for kernel, sizes in SIZES.items():
        for size in sizes:
            for seed in ORDERS:
                run(program, folder, kernel, size, seed)
sys.exit(failures > 0)

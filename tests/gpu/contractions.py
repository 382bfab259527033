"""Contractions by bulk copies on one GPU: python3 contractions.py contractions.ptx. Every image against f64, on whole tiles, edges and ragged sizes, its outputs
poisoned; the exit code says whether all were right."""
import sys

import torch

import phobos

SIZES = [(128, 256, 64), (256, 128, 128), (200, 136, 72), (513, 500, 777), (1, 1, 1), (130, 264, 2100)]
torch.zeros(1, device="cuda").sum().item()  # PyTorch makes its context
torch.manual_seed(7)
failures = 0


def normal(*shape, dtype=torch.float16):
    return phobos.padded(torch.randn(*shape, device="cuda").to(dtype))


def poisoned(*shape, dtype):
    tensor = normal(*shape, dtype=dtype)
    (tensor if tensor._base is None else tensor._base).fill_(float("nan"))
    return tensor


def plain(m, n, k, values):
    a, b, c = normal(m, k), normal(k, n), poisoned(m, n, dtype=torch.float16)
    return {"A": a, "B": b, "C": c}, {}, {"C": a.double() @ b.double()}


def turned(m, n, k, values):
    a, b = normal(m, k, dtype=torch.bfloat16), normal(n, k, dtype=torch.bfloat16)
    s, c = normal(m, 1, dtype=torch.float32), normal(m, n, dtype=torch.float32)
    return {"A": a, "B": b, "s": s, "C": c}, {}, {"C": 0.5 * (a.double() @ b.double().t()) * s - 0.25 * c.double()}


def stacked(m, n, k, values):
    h = 3
    a, b, c, bias = normal(h, m, k), normal(h, k, n), poisoned(h, m, n, dtype=torch.float16), torch.randn(n, device="cuda")
    return {"A": a, "B": b, "bias": bias, "C": c}, {"H": h}, {"C": (a.double() @ b.double() + bias).clamp_min(0)}


def several(m, n, k, values):
    a, b, w = normal(m, k), normal(k, n), normal(k, n)
    c, d = poisoned(m, n, dtype=torch.float32), poisoned(m, n, dtype=torch.float32)
    y = a.double() @ w.double()
    sums = torch.cat([tile.sum(1, keepdim=True).expand_as(tile) for tile in y.split(values["TN"], 1)], 1)
    return {"A": a, "B": b, "W": w, "C": c, "D": d}, {}, {"C": (a.double() @ b.double()) * y, "D": y - sums}


def split(m, n, k, values):
    a, b, c = normal(m, k, dtype=torch.float32), normal(k, n, dtype=torch.float32), poisoned(m, n, dtype=torch.float32)
    return {"A": a, "B": b, "C": c}, {}, {"C": a.double() @ b.double()}


def grams(m, n, k, values):
    a, c = normal(3, m, k, dtype=torch.float32), poisoned(3, m, m, dtype=torch.float32)
    return {"A": a, "C": c}, {"H": 3}, {"C": a.double() @ a.double().mT}


def half_ulp(right, dtype):
    """Of the largest element: what rounding to the output's type may cost. In f16 that is 2^-11 of it, 3e-3 of the RMS where it is six times as large."""
    info = torch.finfo(dtype)
    return max(right.abs().max().item(), info.tiny) * info.eps / 2


def check(image, size):
    global failures
    tensors, more, exact = globals()[image.about["kernel"]](*size, image.about["values"])
    image.launcher(tensors, {}, dict(zip("MNK", size)) | more)()
    torch.cuda.synchronize()
    for name, right in exact.items():
        scale = right.pow(2).mean().sqrt().clamp_min(1e-6).item()
        error = (tensors[name].double() - right).abs().max().item() / scale
        sums = 1e-5 if image.about["kernel"] in ("split", "grams") else 2e-4  # of the RMS
        bound = sums + half_ulp(right, tensors[name].dtype) / scale
        if not error <= bound:
            failures += 1
            print(f"{image.name} {size}: error {error:.1e} in {name}, bound {bound:.1e}")


def main():
    images = [image for image in phobos.load(sys.argv[1]) if image.about["stages"][0]["maps"]]
    for image in images:
        for size in SIZES:
            check(image, size)
    print(f"contractions: {len(images)} images, {len(SIZES)} sizes each, {failures} wrong")
    sys.exit(1 if failures or not images else 0)


main()

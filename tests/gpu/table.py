"""Kernels of the samples beside PyTorch, cuBLAS and Triton on one GPU, all in one process: python3 table.py FOLDER, where FOLDER holds NAME.ptx.

Each line: ours, the peer, the ratio (above 1: ours is faster), both errors against f64. Times are medians of events around single launches; data are fresh and
random, outputs are poisoned. A variant whose result is wrong counts as a failure and the exit code says so."""
import os
import statistics
import sys

import torch
import triton
import triton.language as tl

import phobos

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
DEVICE = torch.device("cuda")
WORSE = 3  # times the peer's greatest error are still right
failures = 0


def timed(function, least=15, budget=0.35):
    """Median seconds of a launch."""
    function()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times, total = [], 0.0
    while len(times) < least or (total < budget and len(times) < 200):
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
        total += times[-1]
    return statistics.median(times)


def errors(result, exact):
    """Greatest and mean difference, over the root mean square of what is right."""
    difference = (result.double() - exact).abs()
    scale = exact.pow(2).mean().sqrt().clamp_min(1e-300)
    if not torch.isfinite(difference).all():
        return float("inf"), float("inf")
    return (difference.max() / scale).item(), (difference.mean() / scale).item()


class Work:
    """`peer()` computes the same, `exact()` is the truth in f64; `amount` is counted in `unit`. `then`: a kernel of the same file that is launched behind."""

    def __init__(self, name, ptx, kernel, tensors, outputs, scalars, dims, amount, unit, peer, peer_name, exact, old=None, then=None):
        self.__dict__.update(locals())
        self.old = old or {}  # what outputs hold before; the others are poisoned


def poison(tensor):
    tensor.fill_(float("nan") if tensor.is_floating_point() else -77)


def launch_both(first, second):
    def both():
        first()
        second()

    return both if second else first


def measure(work, folder):
    global failures
    path = os.path.join(folder, work.ptx)
    if not os.path.exists(path):
        return print(f"{work.name:34} not run: no {work.ptx}")
    exact = work.exact()
    peer_result = work.peer()
    peer_error = errors(peer_result, exact)
    peer_time = timed(work.peer)
    best = None
    rows = []
    images = phobos.load(path)
    behind = next((image.launcher(work.tensors, {}, work.dims) for image in images if image.about["kernel"] == work.then), None)
    for image in images:
        if image.about["kernel"] != work.kernel or not image.fits(work.dims):
            continue
        try:
            launch = launch_both(image.launcher(work.tensors, work.scalars, work.dims), behind)
            for name in work.outputs:
                if name in work.old:
                    work.tensors[name].copy_(work.old[name])
                else:
                    poison(work.tensors[name])
            launch()
            torch.cuda.synchronize()
            error = errors(work.tensors[work.outputs[0]], exact)
            time = timed(launch)
        except RuntimeError as fault:
            failures += 1
            print(f"{work.name:34} FAILED {image.name}: {fault}")
            return None
        if not error[0] <= WORSE * peer_error[0] + 1e-6:
            failures += 1
            print(f"{work.name:34} WRONG {image.name}: error {error[0]:.2e}, the peer's {peer_error[0]:.2e}")
            continue
        rows.append((time, error, image))
    if not rows:
        failures += 1
        return print(f"{work.name:34} no variant")
    first, best = rows[0], min(rows, key=lambda row: row[0])
    scale = work.amount / 1e12  # of any unit: tera
    print(f"{work.name:34} {scale / first[0]:8.2f} {scale / best[0]:8.2f} {work.unit:8} {work.peer_name:22} {scale / peer_time:8.2f} "
          f"ratio {peer_time / first[0]:5.2f} best {peer_time / best[0]:5.2f}  error {first[1][0]:.1e} {first[1][1]:.1e}  peer {peer_error[0]:.1e} "
          f"{peer_error[1]:.1e}  {best[2].name} regs {best[2].attribute(4)} local {best[2].attribute(3)}", flush=True)
    return None


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32).to(dtype)


@triton.jit
def triton_add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def triton_saxpy(alpha, x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, alpha * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def triton_best(kernel, *arguments):
    """Of the usual block sizes and numbers of warps the fastest; `arguments` ends with the output and the number of elements."""
    def launcher(block, warps):
        return lambda: kernel[(triton.cdiv(arguments[-1], block),)](*arguments, BLOCK=block, num_warps=warps)

    launch = min((launcher(block, warps) for block in (512, 1024, 2048) for warps in (4, 8)), key=lambda one: timed(one, budget=0.02))

    def peer():
        launch()
        return arguments[-2]

    return peer


def elementwise(n):
    a, b, c = normal(n), normal(n), normal(n)
    yield Work(f"add f32 {n}", "add.ptx", "add", {"a": a, "b": b, "c": c}, ["c"], {}, {"N": n}, 12 * n, "TB/s",
               triton_best(triton_add, a, b, torch.empty_like(a), n), "Triton", lambda: a.double() + b.double())


def saxpy(n):
    x, y = normal(n), normal(n)
    old = y.clone()
    yield Work(f"saxpy f32 {n}", "saxpy_out.ptx", "saxpy_out", {"x": x, "y": old, "z": torch.empty_like(x)}, ["z"], {"alpha": 0.5}, {"N": n}, 12 * n,
               "TB/s", triton_best(triton_saxpy, 0.5, x, old, torch.empty_like(x), n), "Triton", lambda: old.double() + 0.5 * x.double())


def rows(n):
    x = normal(n, n)
    y = torch.empty_like(x)
    yield Work(f"softmax f32 {n}x{n}", "softmax.ptx", "softmax", {"x": x, "y": y}, ["y"], {}, {"R": n, "C": n}, 8 * n * n, "TB/s",
               lambda: torch.softmax(x, 1), "torch.softmax", lambda: torch.softmax(x.double(), 1))
    gamma, beta = normal(n), normal(n)
    yield Work(f"layernorm f32 {n}x{n}", "layernorm.ptx", "layernorm", {"x": x, "gamma": gamma, "beta": beta, "y": y}, ["y"], {"eps": 1e-5},
               {"R": n, "C": n}, 8 * n * n, "TB/s", lambda: torch.nn.functional.layer_norm(x, (n,), gamma, beta), "torch.layer_norm",
               lambda: torch.nn.functional.layer_norm(x.double(), (n,), gamma.double(), beta.double()))
    yield Work(f"softmax f32 {n}x{n} whole rows", "softmax.ptx", "softmax_narrow", {"x": x, "y": y}, ["y"], {}, {"R": n, "C": n}, 8 * n * n, "TB/s",
               lambda: torch.softmax(x, 1), "torch.softmax", lambda: torch.softmax(x.double(), 1))
    yield Work(f"layernorm f32 {n}x{n} whole rows", "layernorm.ptx", "layernorm_narrow", {"x": x, "gamma": gamma, "beta": beta, "y": y}, ["y"], {"eps": 1e-5},
               {"R": n, "C": n}, 8 * n * n, "TB/s", lambda: torch.nn.functional.layer_norm(x, (n,), gamma, beta), "torch.layer_norm",
               lambda: torch.nn.functional.layer_norm(x.double(), (n,), gamma.double(), beta.double()))
    yield Work(f"transpose f32 {n}x{n}", "transpose.ptx", "transpose_matrix", {"A": x, "B": y}, ["B"], {}, {"M": n, "N": n}, 8 * n * n, "TB/s",
               lambda: x.t().contiguous(), "torch t().contiguous()", lambda: x.double().t())


def full_sum(n, parts=264):
    x, partials, result = normal(n), torch.empty(parts, device=DEVICE), torch.empty(1, device=DEVICE)
    yield Work(f"sum f32 {n}", "sums.ptx", "partial_sums", {"x": x, "partials": partials, "result": result}, ["result", "partials"], {},
               {"N": n, "PARTS": parts}, 4 * n, "TB/s", lambda: torch.sum(x), "torch.sum", lambda: x.double().sum()[None], then="sum_of_partials")


def gemm_tf32(m, n, k):
    a, b, c = normal(m, k), normal(k, n), normal(m, n)

    def peer():
        torch.backends.cuda.matmul.allow_tf32 = True
        result = a @ b
        torch.backends.cuda.matmul.allow_tf32 = False
        return result

    yield Work(f"gemm tf32 {m}x{n}x{k}", "gemm.ptx", "gemm_tf32", {"A": a, "B": b, "C": c}, ["C"], {}, {"M": m, "N": n, "K": k}, 2 * m * n * k, "TFLOP/s",
               peer, "cuBLAS", lambda: a.double() @ b.double())


def gemm_split(m, n, k):
    a, b, c = normal(m, k), normal(k, n), normal(m, n)
    yield Work(f"gemm f32 by bf16x6 {m}x{n}x{k}", "gemm.ptx", "gemm_bf16x6", {"A": a, "B": b, "C": c}, ["C"], {}, {"M": m, "N": n, "K": k}, 2 * m * n * k,
               "TFLOP/s", lambda: a @ b, "cuBLAS SGEMM", lambda: a.double() @ b.double())


def gemm(m, n, k, kind):
    dtype = phobos.DTYPES[kind]
    a, b, c = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), normal(m, n, dtype=dtype)
    exact, old = a.double() @ b.double(), c.clone()
    name = f"gemm {kind} {m}x{n}x{k}"
    if kind == "f32":
        yield Work(name, "gemm.ptx", "gemm_f32", {"A": a, "B": b, "C": c}, ["C"], {"alpha": 0.5, "beta": 0.25}, {"M": m, "N": n, "K": k}, 2 * m * n * k,
                   "TFLOP/s", lambda: torch.addmm(old, a, b, beta=0.25, alpha=0.5), "cuBLAS", lambda: 0.5 * exact + 0.25 * old.double(), {"C": old})
    else:
        yield Work(name, "gemm.ptx", f"gemm_{kind}", {"A": a, "B": b if kind == "f16" else b.t().contiguous(), "C": c}, ["C"], {},
                   {"M": m, "N": n, "K": k}, 2 * m * n * k, "TFLOP/s", lambda: a @ b, "cuBLAS", lambda: exact)


def gemm_i8(m, n, k):
    a, b = (torch.randint(-128, 128, shape, device=DEVICE, dtype=torch.int8) for shape in ((m, k), (n, k)))
    yield Work(f"gemm i8 {m}x{n}x{k}", "gemm.ptx", "gemm_i8", {"A": a, "B": b, "C": torch.empty(m, n, device=DEVICE, dtype=torch.int32)}, ["C"], {},
               {"M": m, "N": n, "K": k}, 2 * m * n * k, "TOP/s", lambda: torch._int_mm(a, b.t()), "cuBLAS", lambda: a.double() @ b.double().t())


def attention(heads, length, depth, causal, kind="f16"):
    dtype = phobos.DTYPES[kind]
    q, k, v = (normal(heads, length, depth, dtype=dtype) for _ in range(3))
    out = torch.empty_like(q)
    scale = depth ** -0.5

    def exact():
        result = torch.empty(heads, length, depth, device=DEVICE, dtype=torch.float64)
        place = torch.arange(length, device=DEVICE)
        for h in range(heads):
            for first in range(0, length, 2048):
                s = q[h, first:first + 2048].double() @ k[h].double().t() * scale
                if causal:
                    s = s.masked_fill(place[None, :] > place[first:first + 2048, None], float("-inf"))
                result[h, first:first + 2048] = torch.softmax(s, 1) @ v[h].double()
        return result

    def peer():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]

    flops = 4 * heads * length * length * depth / (2 if causal else 1)
    yield Work(f"attention {kind} D={depth}{' causal' if causal else ''}", "attention.ptx", f"attention_{kind}{'_causal' if causal else ''}",
               {"Q": q, "K": k, "V": v, "O": out}, ["O"], {"scale": scale}, {"H": heads, "S": length, "T": length, "D": depth}, flops, "TFLOP/s", peer,
               "FlashAttention-2", exact)


# ---- samples without a peer: is the model's variant as good as any? ----

def whole(low, high, *shape, dtype=torch.int32):
    return torch.randint(low, high, shape, device=DEVICE, dtype=dtype)


def empty(*shape, dtype=torch.float32):
    return torch.empty(*shape, device=DEVICE, dtype=dtype)


def sample_launches():
    """Name of the sample, kernel, tensors, the outputs among them, scalars, dims."""
    n = 1 << 26
    yield "conv1d", "conv1d", {"x": normal(n + 31), "w": normal(32), "y": empty(n)}, ["y"], {}, {"N": n, "KW": 32}
    yield "cube", "cube", {"v": whole(0, 99, 64, 1024, 1024), "gain": whole(0, 9, 64), "out": empty(64, 1024, 1024, dtype=torch.int32)}, ["out"], {}, {
        "Z": 64, "Y": 1024, "X": 1024}
    yield "scale2d", "scale2d", {"a": normal(8192, 4096).double(), "b": empty(8192, 4096, dtype=torch.float64)}, ["b"], {"s": 0.5}, {"M": 8192, "N": 4096}
    yield "mandelbrot", "mandelbrot", {"count": empty(4096, 4096, dtype=torch.int32)}, ["count"], {
        "left": -2.0, "top": -1.25, "step": 2.5 / 4096, "limit": 256}, {"H": 4096, "W": 4096}
    a = normal(8192, 8192)
    yield "reduce", "reduce_rows", {"a": a, "total": empty(8192, 1), "least": empty(8192, 1), "greatest": empty(8192, 1),
                                    "place": empty(8192, 1, dtype=torch.int32)}, ["total", "place"], {}, {"M": 8192, "N": 8192}
    yield "reduce", "reduce_columns", {"a": a, "total": empty(8192, dtype=torch.float64)}, ["total"], {}, {"M": 8192, "N": 8192}
    b = normal(64, 512, 512)
    yield "batched_gemm", "batched_gemm", {"A": b, "B": b, "C": empty(64, 512, 512)}, ["C"], {}, {"BATCH": 64, "M": 512, "N": 512, "K": 512}
    h = normal(16, 4096, 64)
    for kernel in ("attention", "attention_causal"):
        yield "flash_attention", kernel, {"Q": h, "K": h, "V": h, "O": empty(16, 4096, 64)}, ["O"], {"scale": 0.125}, {"H": 16, "S": 4096, "T": 4096, "D": 64}
    k = normal(256, 1024, 64) / 8
    yield "kda", "kda", {"q": k, "k": k, "g": -k.sigmoid(), "v": k, "o": empty(256, 1024, 64)}, ["o"], {}, {"H": 256, "T": 1024, "DK": 64, "DV": 64}


def measure_sample(folder, name, kernel, tensors, outputs, scalars, dims):
    """The model's variant against the best, each variant's results against the first one's."""
    global failures
    rows, first = [], None
    for image in phobos.load(os.path.join(folder, name + ".ptx")):
        if image.about["kernel"] != kernel or not image.fits(dims):
            continue
        launch = image.launcher(tensors, scalars, dims)
        for output in outputs:
            poison(tensors[output])
        launch()
        torch.cuda.synchronize()
        found = [tensors[output].double() for output in outputs]
        first = first or found
        if any(not errors(a, b)[0] < 1e-3 for a, b in zip(found, first)):
            failures += 1
            print(f"{kernel:34} WRONG {image.name}: not what the first variant gives")
        rows.append((timed(launch, budget=0.05), image))
    best = min(rows, key=lambda row: row[0])
    print(f"{kernel:34} model {rows[0][0] * 1e3:9.3f} ms, best of {len(rows)} {best[0] * 1e3:9.3f} ms, ratio {best[0] / rows[0][0]:5.2f}  {best[1].name}",
          flush=True)


def all_work():
    yield from elementwise(1 << 28)
    yield from saxpy(1 << 28)
    yield from rows(8192)
    yield from full_sum(1 << 26)
    yield from full_sum(1 << 28)
    for size in (4096, 8192):
        for kind in ("f32", "f16", "bf16"):
            yield from gemm(size, size, size, kind)
        yield from gemm_tf32(size, size, size)
        yield from gemm_split(size, size, size)
        yield from gemm_i8(size, size, size)
    for depth in (64, 128):
        for causal in (False, True):
            yield from attention(4, 16384, depth, causal)


def main():
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "driver", torch.version.cuda)
    wanted = sys.argv[2:]
    for work in all_work():
        if not wanted or any(word in work.name for word in wanted):
            measure(work, sys.argv[1])
        torch.cuda.empty_cache()
    for launch in sample_launches():
        if not wanted or "samples" in wanted:
            measure_sample(sys.argv[1], *launch)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

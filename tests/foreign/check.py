"""Every kernel of this folder against NumPy: check.py PHOBOSC cpu[:ragged]|simt:TARGET [KERNEL...], or, on a machine with a GPU, check.py FOLDER gpu
[KERNEL...] with an executable of each source in FOLDER.

cpu: in super-tiles of the least size, on one pod and on two, and built with --no-cluster; all runs have the same bits; ragged: of one
size each. simt, gpu: by each leaf that is embedded, in the simulator or on cuda:0."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import kernels

HERE = Path(__file__).parent
SOURCES = [HERE / "products.phb", HERE / "attention.phb"]
np.seterr(over="ignore")


class Job:
    def __init__(self, folder, kernel, sizes):
        self.folder, self.kernel, self.sizes = folder, kernel, sizes
        self.tensors, self.expected, scalars = (*getattr(kernels, kernel["name"])(**sizes), {})[:3]
        self.types = {tensor["name"]: tensor["dtype"] for tensor in kernel["tensors"]}
        self.text = {"kernel": kernel["name"], "dims": {d: n for d, n in sizes.items() if d in kernel["dims"]}, "scalars": scalars,
                     "tensors": {name: {"uri": f"{name}.npy", "dtype": dtype} if dtype == "bf16" and name in self.tensors else f"{name}.npy"
                                 for name, dtype in self.types.items()}}

    def run(self, program, *options, **more):
        """The outputs, or what was said."""
        for old in self.folder.glob("*.npy"):
            old.unlink()
        for name, tensor in self.tensors.items():
            np.save(self.folder / f"{name}.npy", tensor.stored)
        job = self.folder / "job.json"
        job.write_text(json.dumps(self.text | more))
        done = subprocess.run([program, job, "--progress=none", *options], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()
        return {name: np.load(self.folder / f"{name}.npy") for name in self.expected}

    def fault(self, outputs):
        """What is wrong with them, or None."""
        for name, expected in self.expected.items():
            found = kernels.widened(outputs[name], self.types[name])
            if found.shape != expected.value.shape:
                return f"{name} has {found.shape}"
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(found - expected.value) <= expected.error)
            if wrong.any():
                at = tuple(np.argwhere(wrong)[0])
                right = f"{expected.value[at]} within {expected.error[at]:.1e}"
                return f"{wrong.sum()} of {wrong.size} wrong: {name}{list(map(int, at))} is {found[at]}, not {right}"
        return None


def small(kernel):
    """Super-tiles of one tile of the leaf."""
    return {dim["name"]: max(dim["autotune"]) for dim in kernel["dims"] if dim.get("cluster")}


def on_cpu(job, program, alone):
    first = None
    for way in ([program, "--pods=1"], [program, "--pods=2"], [alone, "--pods=1"]):
        found = job.run(*way, **({"cluster": small(job.kernel)} if way[0] == program else {}))
        fault = found if isinstance(found, str) else job.fault(found)
        if fault:
            return f"{way[0].name} {way[1]}: {fault}"
        first = first or found
        if any(found[name].tobytes() != first[name].tobytes() for name in found):
            return f"{way[0].name} {way[1]}: other bits than on one pod"
    return None


def by_leaves(job, program, device):
    leaves = [leaf["autotune"] for leaf in job.kernel["leaves"] if leaf["simulator" if device == "simt" else "gpu"]]
    ran = 0
    for leaf in leaves:
        if any(job.sizes.get(dim, value) != value for dim, value in leaf.items()):
            continue  # a tensor's extent is another
        found = job.run(program, f"--device={device}", "--pods=1", autotune=leaf)
        if isinstance(found, str) and "@require" in found:
            continue
        fault = found if isinstance(found, str) else job.fault(found)
        if fault:
            return f"{leaf}: {fault}"
        ran += 1
    return None if ran else "no leaf ran"


def compiled(phobosc, folder, name, *options):
    """An executable of each source."""
    programs = [folder / f"{source.stem}_{name}" for source in SOURCES]
    running = [subprocess.Popen([phobosc, "-w", *options, source, "-o", program]) for source, program in zip(SOURCES, programs)]
    if any(process.wait() for process in running):
        sys.exit(1)
    return programs


def main():
    phobosc, way, *wanted = sys.argv[1:]
    count = failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if way.startswith("cpu"):
            programs = list(zip(compiled(phobosc, folder, "cluster", "--gpu=none", "--cpu=x86-64-v3"),
                                compiled(phobosc, folder, "alone", "--gpu=none", "--cpu=x86-64-v3", "--no-cluster", "-O0")))
        elif way == "gpu":
            programs = [(Path(phobosc) / source.stem,) for source in SOURCES]
        else:
            programs = [(program,) for program in compiled(phobosc, folder, "simt", "--simt", f"--gpu={way.partition(':')[2]}", "--cpu=x86-64-v3")]
        for program in programs:
            info = json.loads(subprocess.run([program[0], "--info=json"], capture_output=True, check=True).stdout)
            for kernel in info["kernels"]:
                for sizes in kernels.SIZES[kernel["name"]][: 1 if way == "cpu:ragged" else None]:
                    if wanted and kernel["name"] not in wanted:
                        continue
                    job = Job(folder, kernel, sizes)
                    device = "cuda:0" if way == "gpu" else "simt"
                    fault = on_cpu(job, *program) if way.startswith("cpu") else by_leaves(job, *program, device)
                    count, failed = count + 1, failed + (fault is not None)
                    if fault:
                        print(f"{kernel['name']} {sizes}: {fault}", flush=True)
    print(f"{count} jobs by {way}, {failed} wrong")
    return failed > 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())

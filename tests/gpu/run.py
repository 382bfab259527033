"""What run.sh unpacked, on this machine's GPUs. Each part is a list of cases; a case is a function that gives None, or says what is wrong."""
import concurrent.futures
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 240               # of one program
WORKERS = os.cpu_count()    # programs at a time
PACK = pathlib.Path(sys.argv[1])
PARTS = ["samples", "foreign", "generated", "pods", "faults", "sanitizer", "contractions", "table"]


class Wrong(Exception):
    pass


class NotRun(Exception):
    pass


def execute(*command, expect=0, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, **more)
    if expect is not None and done.returncode != expect:
        raise Wrong(f"{' '.join(map(str, command[:1]))}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done


def cards():
    try:
        return len(execute("nvidia-smi", "-L").stdout.splitlines())
    except (OSError, Wrong):
        return 0


def keep_awake():
    """A card that no process holds starts anew for each one, which takes longer than most cases do."""
    driver, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
    driver.cuInit(0)
    for card in range(cards()):
        driver.cuDeviceGet(ctypes.byref(device), card)
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


# ---- samples ----

class Sample:
    """A kernel's executable with an oracle, and one job of it in a folder of its own."""

    def __init__(self, name, job):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=PACK))
        self.program, self.oracle = PACK / "samples" / name / "kernel", PACK / "samples" / name / "oracle"
        self.job = json.loads(job.read_text())
        self.info = json.loads(execute(self.program, "--info=json").stdout)
        self.kernel = next(k for k in self.info["kernels"] if k["name"] == self.job.get("kernel", k["name"]))

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        shutil.rmtree(self.folder, ignore_errors=True)

    def leaves(self):
        return [leaf["autotune"] for leaf in self.kernel["leaves"] if leaf["gpu"]]

    def write(self, autotune=None):
        """The job and fresh inputs; what is only written holds 0xFF, where it is there at all."""
        path = self.folder / "job.json"
        path.write_text(json.dumps({**self.job, **({"autotune": autotune} if autotune else {})}))
        execute(self.oracle, "make", path)
        written = {tensor["name"] for tensor in self.kernel["tensors"] if tensor["mode"] == "write"}
        for name, tensor in self.job["tensors"].items():
            uri = tensor if isinstance(tensor, str) else tensor.get("uri")
            if uri is None:
                continue # it lives in the pods
            file = self.folder / uri.removeprefix("file://")
            if name in written and file.exists():
                data = file.read_bytes()
                keep = 128 if file.suffix == ".npy" else 0
                file.write_bytes(data[:keep] + b"\xff" * (len(data) - keep))
        return path

    def run(self, *options, autotune=None):
        """False where the job does not take that leaf."""
        path = self.write(autotune)
        done = execute(self.program, path, "--progress=none", *options, expect=None)
        if autotune and done.returncode == 2:
            return False
        if done.returncode:
            raise Wrong(f"{autotune or 'model'} {' '.join(options)}: exit {done.returncode}: {done.stderr.strip()[-400:]}")
        try:
            execute(self.oracle, "check", path, "--tensor-cores")
        except Wrong as wrong:
            raise Wrong(f"{autotune or 'model'} {' '.join(options)}: {wrong}") from None
        return True


def sample_case(name, job):
    def case():
        with Sample(name, job) as sample:
            leaves = sample.leaves()
            if not leaves:
                raise NotRun("no code for GPUs")
            sample.run("--device=cuda:0")
            apart = "steps" not in sample.job # what lives on a card between steps does not travel
            if apart:
                sample.run("--device=cuda:0", "--pods=3", "--leaf=first")
            ran = sum(sample.run("--device=cuda:0", autotune=leaf) for leaf in leaves if leaf)
            if cards() > 1:
                if apart:
                    sample.run("--pods=2")
                sample.run("--device=cuda:1")
            return f"{ran or 1} of {max(len(leaves), 1)} leaves"

    return f"{name} {job.stem}", case


def samples():
    for folder in sorted((PACK / "samples").iterdir()):
        for job in sorted(folder.glob("*.json")):
            yield sample_case(folder.name, job)


# ---- products and kinds of attention that no pass was written for ----

def foreign_case(name):
    def case():
        done = execute(sys.executable, PACK / "foreign" / "check.py", PACK / "foreign", "gpu", name, expect=None)
        if done.returncode:
            raise Wrong((done.stdout + done.stderr).strip()[-600:])
        return done.stdout.strip()

    return name, case


def foreign():
    for program in ("products", "attention"):
        info = json.loads(execute(PACK / "foreign" / program, "--info=json").stdout)
        for kernel in info["kernels"]:
            yield foreign_case(kernel["name"])


# ---- random kernels ----

def generated_case(folder):
    def case():
        with tempfile.TemporaryDirectory() as work:
            done = subprocess.run([PACK / "generated" / "differential", PACK / "generated" / "carried.sh", work, f"--seed={folder.name}",
                                   f"--count={(folder / 'count').read_text().strip()}", "--shrinks=0", "--any-order", "--quick"],
                                  capture_output=True, text=True, timeout=600, env={**os.environ, "CARRIED": str(folder)})
        verdicts = done.stdout.strip().splitlines()[-1:]
        if done.returncode:
            (PACK.parent / f"generated-{folder.name}.log").write_text(done.stdout + done.stderr)
            raise Wrong("\n".join([*verdicts, done.stdout[:3000], done.stderr[-500:]]))
        return verdicts[0]

    return f"seed {folder.name}", case


def generated():
    for folder in sorted((PACK / "generated").iterdir()):
        if folder.is_dir():
            yield generated_case(folder)


# ---- a scheduler and pods ----

def pods_case(devices, nodes, expect, words):
    """A pod a device and a scheduler that waits for `nodes` of them; the job's end, and words that some of them say."""

    def case():
        with Sample("add", PACK / "samples" / "add" / "job.json") as sample:
            path = sample.write()
            port = 20000 + hash((tuple(devices), os.getpid())) % 20000
            pods = []
            try:
                for device in devices:
                    pods.append(subprocess.Popen([sample.program, "--role=pod", f"--sched=tcp://127.0.0.1:{port}", f"--device={device}", "--log=info"],
                                                 stderr=subprocess.PIPE, text=True))
                done = execute(sample.program, "--role=sched", path, f"--listen=tcp://127.0.0.1:{port}", f"--nodes={nodes}", "--progress=none",
                               "--log=info", expect=None)
                said = done.stdout + done.stderr + "".join(pod.communicate(timeout=20)[1] for pod in pods)
            finally:
                for pod in pods:
                    pod.kill()
            if done.returncode != expect or any(word not in said for word in words):
                raise Wrong(f"exit {done.returncode}: {said[-600:]}")
            if expect == 0:
                execute(sample.oracle, "check", path, "--tensor-cores")

    return f"pods on {', '.join(devices)}", case


def pods():
    yield pods_case(["cuda:0", "cuda:0"], 2, 0, [" s on gpu sm_"])
    yield pods_case(["auto", "cuda:0"], 2, 0, [" s on gpu sm_"])
    if cards() > 1:
        yield pods_case(["cuda:0", "cuda:1"], 2, 0, [" s on gpu sm_"])
    yield "no such card", lambda: no_such_card()


def no_such_card():
    with Sample("add", PACK / "samples" / "add" / "job.json") as sample:
        done = execute(sample.program, sample.write(), "--device=cuda:99", expect=1)
        if "cuda:99" not in done.stderr:
            raise Wrong(done.stderr)


# ---- pods with cards that fail in the midst of a product that adds to its output ----

def driver_that_fails(folder):
    """A folder whose libcuda.so.1 is the real one but for launches, which after some of them find the context lost; sticky.c says how."""
    ctypes.CDLL("libcuda.so.1")
    real = next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "/libcuda.so" in line)
    shutil.copy(PACK / "faults" / "libcuda.so.1", folder)
    (folder / "libcuda_real.so").symlink_to(real)
    return {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}", "STICKY_AFTER": "5"}


def fault_case(fault, ends, words):
    """Three pods on the cards that are there; the first one fails. `ends`: how that process does; `words` are the scheduler's."""

    def case():
        with Sample("matmul", PACK / "samples" / "matmul" / "job.json") as sample:
            sample.job |= {"dims": {"M": 1500, "N": 811, "K": 777}}
            path, output = sample.write(), sample.folder / "C.npy"
            before = output.read_bytes()
            execute(sample.program, path, "--device=cuda:0", "--progress=none")
            execute(sample.oracle, "check", path, "--tensor-cores")
            right = output.read_bytes()
            output.write_bytes(before)
            address = f"tcp://127.0.0.1:{20000 + hash((fault, os.getpid())) % 20000}"
            failing = driver_that_fails(sample.folder) if fault == "sticky" else {"PHOBOS_CRASH_AT": fault}
            pods = []
            try:
                for pod in range(3):
                    pods.append(subprocess.Popen([sample.program, "--role=pod", f"--sched={address}", f"--device=cuda:{pod % cards()}", "--log=info"],
                                                 stderr=subprocess.PIPE, text=True, env={**os.environ, **(failing if pod == 0 else {})}))
                done = execute(sample.program, "--role=sched", path, f"--listen={address}", "--nodes=3", "--deadline=2", "--progress=none",
                               "--log=info", expect=None)
                if ends is None: # it sleeps; then it finds itself given up
                    pods[0].send_signal(signal.SIGCONT)
                said = done.stdout + done.stderr + "".join(pod.communicate(timeout=60)[1] for pod in pods)
            finally:
                for pod in pods:
                    pod.kill()
            if done.returncode or pods[0].returncode != (75 if ends is None else ends) or any(word not in said for word in words):
                raise Wrong(f"scheduler {done.returncode}, pod {pods[0].returncode}: {said[-1500:]}")
            if output.read_bytes() != right:
                raise Wrong("other bytes than without the fault")
            return next((line for line in said.splitlines() if line.startswith("recovered")), "")

    return f"{fault} in mid-product", case


def faults():
    yield fault_case("compute:5:begin:kill", -signal.SIGKILL, ["has not been heard", "recovered: 1 pod lost"])
    yield fault_case("compute:5:begin:stop", None, ["has not been heard", "recovered: 1 pod lost"])
    yield fault_case("sticky", 1, ["CUDA_ERROR_ILLEGAL_ADDRESS", "recovered: 1 pod lost"])


# ---- compute-sanitizer ----

def sanitizer_case(name, job, tool):
    def case():
        if not shutil.which("compute-sanitizer"):
            raise NotRun("no compute-sanitizer")
        with Sample(name, job) as sample:
            if not sample.leaves():
                raise NotRun("no code for GPUs")
            path = sample.write()
            done = execute("compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", sample.program, path, "--device=cuda:0", "--progress=none", expect=None)
            if "not supported" in done.stdout.lower() or "error 999" in done.stdout.lower():
                raise NotRun("the device does not take it")
            if done.returncode:
                raise Wrong(f"exit {done.returncode}: {(done.stdout + done.stderr)[-1200:]}")
            execute(sample.oracle, "check", path, "--tensor-cores")

    return f"{tool} {name} {job.stem}", case


def sanitizer():
    """No initcheck: rows are padded in the card's memory, and copied with their padding."""
    for folder in sorted((PACK / "samples").iterdir()):
        job = min(folder.glob("*.json"), key=lambda path: sum(json.loads(path.read_text()).get("dims", {"": 0}).values()))
        for tool in ("memcheck", "racecheck", "synccheck"):
            yield sanitizer_case(folder.name, job, tool)


# ---- contractions by bulk copies: every image on edges and ragged sizes ----

def contractions():
    def case():
        done = subprocess.run([sys.executable, PACK / "contractions.py", PACK / "ptx" / "contractions.ptx"], text=True)
        if done.returncode:
            raise Wrong("see above")

    yield "contractions", case


# ---- the table beside PyTorch ----

def table():
    def case():
        done = subprocess.run([sys.executable, PACK / "table.py", PACK / "ptx"], text=True)
        if done.returncode:
            raise Wrong("see above")

    yield "table", case


# ---- all of it ----

def attempt(case):
    start = time.monotonic()
    try:
        outcome, text = "fine", case()
    except NotRun as why:
        outcome, text = "not run", why
    except (Wrong, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as why:
        outcome, text = "FAILED", why
    return outcome, text, time.monotonic() - start


def run_part(part):
    counts = dict.fromkeys(("fine", "not run", "FAILED"), 0)
    with concurrent.futures.ThreadPoolExecutor(1 if part == "table" else WORKERS) as pool:
        running = {pool.submit(attempt, case): name for name, case in globals()[part]()}
        for done in concurrent.futures.as_completed(running):
            outcome, text, seconds = done.result()
            counts[outcome] += 1
            print(f"{outcome:8} {part:10} {running[done]:34} {seconds:6.1f} s  {text or ''}")
    return counts


def main():
    wanted = sys.argv[2:] or PARTS
    if not cards():
        sys.exit("no GPU here")
    print(execute("nvidia-smi", "-L").stdout.strip())
    keep_awake()
    summary = []
    for part in wanted:
        start = time.monotonic()
        summary.append((part, run_part(part), time.monotonic() - start))
    print("\npart         fine  not run  failed  seconds")
    for part, counts, seconds in summary:
        print(f"{part:10} {counts['fine']:6} {counts['not run']:8} {counts['FAILED']:7} {seconds:8.0f}")
    sys.exit(any(counts["FAILED"] for _, counts, _ in summary))


main()

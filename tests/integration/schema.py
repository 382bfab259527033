# --schema: every sample's job is one that it admits; and where a job is changed in one place, what the schema refuses the job reader refuses, and the other
# way round but for what depends on files and on sizes that agree.
#   schema.py PHOBOSC PHOBOS-TENSOR SAMPLES
import atexit
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import jsonschema

phobosc, tensor, samples = sys.argv[1:]
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder)
os.chdir(folder)
failures = []


def build(source):
    subprocess.run([phobosc, "-w", "-O0", "--gpu=none", "--cpu=x86-64-v3", source, "-o", "job"], check=True)
    schema = json.loads(subprocess.run(["./job", "--schema"], check=True, stdout=subprocess.PIPE).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def reads(job):
    """Whether the job reader takes it, and what it says."""
    pathlib.Path("job.json").write_text(json.dumps(job))
    run = subprocess.run(["./job", "--check", "job.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode not in (0, 1, 2):
        failures.append(f"--check ends with {run.returncode}: {run.stderr}")
    return run.returncode == 0, run.stderr


# ---- samples ----

count = 0
for job in sorted(pathlib.Path(samples).glob("*/job*.json")):
    validator = build(next(source for source in sorted(job.parent.glob("*.phb")) if source.stem in (job.parent.name, "puzzle34")))
    for error in validator.iter_errors(json.loads(job.read_text())):
        failures.append(f"{job}: {error.message}")
    count += 1
if count < 20:
    failures.append(f"only {count} samples")

# ---- jobs that are changed in one place ----

pathlib.Path("all.phb").write_text("""
@cluster(BLOCK in [64, 128])
@autotune(BLOCK in [16, 32])
kernel scale(x: tensor<f32>[N], y: tensor<f32>[N], a: f32, h: f16, i: i8, u: u16, w: i64, z: u64, flag: bool) {
    let at = ctx.block.x * BLOCK
    let factor = where(flag, a + f32(h), f32(i) + f32(u) + f32(w) + f32(z))
    y[at :+ BLOCK] = x[at :+ BLOCK] * factor
}
@autotune(T in [16])
kernel add(p: tensor<f32>[M, T], q: tensor<f32>[M, T]) {
    q[ctx.block.x, :] = p[ctx.block.x, :] + 1.0
}
""")
subprocess.run([tensor, "create", "x.npy:f32[256]"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([tensor, "create", "p.npy:f32[4,16]"], check=True, stdout=subprocess.DEVNULL)
validator = build("all.phb")
scalars = {"a": 0.5, "h": 1.5, "i": -128, "u": 65535, "w": -2**63, "z": 2**64 - 1, "flag": True}
jobs = [
    {"$schema": "job.schema.json", "kernel": "scale", "dims": {"N": 256}, "scalars": scalars, "cluster": {"BLOCK": 64},
     "tensors": {"x": "x.npy", "y": {"uri": "y.npy", "dtype": "f32", "shape": [256]}}},
    {"kernel": "add", "dims": {"M": 4, "T": 16}, "tensors": {"p": {"uri": "p.npy"}, "q": "q.npy"}},
    {"steps": [{"kernel": "add", "tensors": {"p": "p", "q": "t"}}, {"kernel": "add", "tensors": {"p": "t", "q": "q"}}], "repeat": 2,
     "tensors": {"p": "p.npy", "q": "q.npy", "t": {}}},
]
values = [None, "text", 0, 1.5, True, [], {}, 2**63, 2**64, 70000, 1e39]
# What the schema cannot know, by what the reader says of it: files, sizes that must agree, who uses a tensor.
reader_alone = ["cannot open", "axis ", "no leaf", "nothing says", "is used by no step", "would be lost", "the job has no tensor", "before any step", "the same tensor",
                "is missing", "in the kernel", "has no \"uri\"", "would wait", "the path is empty"]


def places(node, path=()):
    yield path
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(child, path + (key,))


def at(job, path):
    for key in path:
        job = job[key]
    return job


def changed(job):
    """The job with a value of another kind in one place, a member more or less, or of another name."""
    for path in places(job):
        if not path:
            continue
        for value in values:
            other = copy.deepcopy(job)
            at(other, path[:-1])[path[-1]] = value
            yield other, path, value
        other = copy.deepcopy(job)
        del at(other, path[:-1])[path[-1]]
        yield other, path, "(none)"
        if isinstance(path[-1], str):
            other = copy.deepcopy(job)
            at(other, path[:-1])[path[-1] + "_"] = at(other, path[:-1]).pop(path[-1])
            yield other, path, "(renamed)"


admitted = refused = alone = 0
for job in jobs:
    for error in validator.iter_errors(job):
        failures.append(f"{job}: {error.message}")
    fine, said = reads(job)
    if not fine:
        failures.append(f"the reader refuses {job}: {said}")
    for other, path, value in changed(job):
        valid = validator.is_valid(other)
        fine, said = reads(other)
        admitted, refused = admitted + (valid and fine), refused + (not valid and not fine)
        if fine and not valid:
            failures.append(f"{path} = {value!r}: the schema alone refuses it: {jsonschema.exceptions.best_match(validator.iter_errors(other)).message}")
        if valid and not fine:
            alone += 1
            if not any(text in said for text in reader_alone):
                failures.append(f"{path} = {value!r}: the schema admits it, the reader says: {said}")
print(f"{count} samples; {admitted} changed jobs admitted, {refused} refused by both, {alone} by the reader alone")
if refused < 200:
    failures.append("too few refused")
for failure in failures[:20]:
    print(failure, file=sys.stderr)
sys.exit(1 if failures else 0)

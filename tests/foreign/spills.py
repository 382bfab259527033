"""spills.py PHOBOSC: the kernels of this folder as PTX for sm_80 and sm_90a, the four variants that the model puts first, through ptxas: none is
refused, and none spills more than is known. 77 where there is no ptxas."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
KNOWN = {  # bytes, by kernel and target
    ("bias_gelu", "sm_90a"): 16, ("sliding_window", "sm_80"): 24, ("alibi", "sm_80"): 12, ("soft_cap", "sm_80"): 48, ("grouped_query", "sm_80"): 48,
    ("cross_ragged", "sm_80"): 4, ("sink", "sm_80"): 48, ("short_keys", "sm_80"): 4, ("short_keys", "sm_90a"): 8,
    ("decode_step", "sm_80"): 3480, ("decode_step", "sm_90a"): 3392,
}


def images(phobosc, source):
    text = subprocess.run([phobosc, "-w", "--gpu=sm_80,sm_90a", "--emit=ptx", source, "-o", "-"], capture_output=True, text=True, check=True).stdout
    for image in re.split(r"^(?=// phobos )", text, flags=re.M)[1:]:
        yield json.loads(image.splitlines()[0].removeprefix("// phobos ")), image


def assemble(about, image):
    """Bytes spilled; or what the assembler says."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(image)
        file.flush()
        done = subprocess.run(["ptxas", f"-arch={about['target']}", "-v", file.name, "-o", "/dev/null"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    return max(map(int, re.findall(r"(\d+) bytes spill stores", done.stderr)), default=0)


def main():
    if not shutil.which("ptxas"):
        return 77
    count = failed = 0
    for source in ("products.phb", "attention.phb"):
        for about, image in images(sys.argv[1], HERE / source):
            count += 1
            said = assemble(about, image)
            if isinstance(said, str) or said > KNOWN.get((about["kernel"], about["target"]), 0):
                failed += 1
                print(about["kernel"], about["target"], about["values"], said if isinstance(said, str) else f"spills {said} bytes", flush=True)
    print(f"{count} images, {failed} refused or spilling more than is known")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

"""Which instructions each dot of this folder's kernels becomes, by the compiler's remarks on the variants that the model puts first.

paths.py PHOBOSC [--update] PAGE: the table between the two comments in PAGE is what the compiler says now, or is made so; exit code 1
where it was not."""
import difflib
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = ["sm_80", "sm_90a"]
BEGIN, END = "<!-- tests/foreign/paths.py: begin -->\n", "<!-- end -->\n"
REMARK = re.compile(r"(\S+):(\d+):(\d+): remark: on (\w+) (.*) \[-R(?:layout|tensorcore)\]")
WAITS = [(r"copied ahead by a tensor map", "tensor map"), (r"copied ahead", "ring"), (r"staged", "staged"), (r"in registers", "registers")]


class Dot:
    def __init__(self, text):
        self.text = text
        self.does, self.factors, self.reasons = ({target: [] for target in TARGETS} for _ in range(3))

    def add(self, target, said):
        """One remark, its extents left out."""
        said = re.sub(r"this dot, \d+ x \d+ x \d+,?", "this dot", said)
        ways = re.match(r"the factors of this dot: the first (.*), the second (.*)", said)
        if ways:
            kinds = [next(word for pattern, word in WAITS if re.search(pattern, way)) for way in ways.groups()]
            into, what = self.factors, " × ".join(kinds)
        elif said.startswith("this dot is"):
            into, what = self.does, re.sub(r" m\d+n\d+k\d+ on", "", said.removeprefix("this dot is "))
        elif " is chains of fma: " in said:
            into, what = self.does, re.match(r"this dot of (\w+)", said)[1] + " by fma"
            self.note(target, said.split(": ", 1)[1])
        elif re.match(r"this dot of \w+, is", said):
            into, what = self.does, said.split(" is ", 1)[1]
        elif said.startswith("this dot"):
            return self.note(target, said.removeprefix("this dot "))
        else:
            return None
        if what not in into[target]:
            into[target].append(what)

    def note(self, target, reason):
        if reason not in self.reasons[target]:
            self.reasons[target].append(reason)

    def cell(self, target, notes):
        for reason in self.reasons[target]:
            notes.setdefault(reason, len(notes) + 1)
        where = "; ".join(self.factors[target])
        numbers = ", ".join(str(notes[reason]) for reason in self.reasons[target])
        return "; ".join(self.does[target]) + (f": {where}" if where else "") + (f" ({numbers})" if numbers else "")


def remarks(phobosc, source):
    options = ["-w", "-O0", "--no-cluster", f"--gpu={','.join(TARGETS)}", "--variants=1", "-Rtensorcore", "-Rlayout", "--emit=ptx"]
    done = subprocess.run([phobosc, *options, source, "-o", "/dev/null"], capture_output=True, text=True, check=True)
    return REMARK.findall(done.stderr)


def dots(phobosc, source):
    """[(kernel, dot)], in the order of the text."""
    lines = source.read_text().splitlines()
    found = {}
    for _, line, column, target, said in remarks(phobosc, source):
        place = int(line), int(column)
        if "this dot" in said:
            found.setdefault(place, Dot(product(lines[place[0] - 1][place[1] - 1 :]))).add(target, said)
    code = [(number, text) for number, text in enumerate(lines, 1) if not text.startswith("//")]
    expected = [(number, match.start() + 1) for number, text in code for match in re.finditer(r"\bdot(_t)?\(", text)]
    for place in expected:
        found.setdefault(place, Dot(product(lines[place[0] - 1][place[1] - 1 :])))  # nothing was said of it: an empty cell
    kernel = lambda line: next(match[1] for text in reversed(lines[:line]) if (match := re.match(r"kernel (\w+)", text)))
    return [(kernel(line), found[line, column]) for line, column in sorted(found)]


def product(text):
    """The call that the text begins with, without subscripts."""
    depth = 0
    for end, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            break
    return re.sub(r"\[[^]]*\]", "", text[: end + 1])


def table(phobosc):
    notes, rows, before = {}, [f"| kernel | product | {' | '.join(TARGETS)} |", "|---" * (2 + len(TARGETS)) + "|"], None
    for source in ("products.phb", "attention.phb"):
        for kernel, dot in dots(phobosc, HERE / source):
            name = f"`{kernel}`" if kernel != before else ""
            rows.append(f"| {name} | `{dot.text}` | " + " | ".join(dot.cell(target, notes) for target in TARGETS) + " |")
            before = kernel
    return "\n".join([*rows, "", "What the remarks say:", "", *(f"{number}. {reason}" for reason, number in notes.items())]) + "\n"


def main():
    phobosc, *options, page = sys.argv[1:]
    text = Path(page).read_text()
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    new = table(phobosc)
    if options == ["--update"]:
        Path(page).write_text(head + BEGIN + new + END + tail)
    elif old != new:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "the page", "the compiler"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The commands of a page, run in the order of the text by one shell in an empty folder, which is /data in what they print.

    run_commands.py BIN PAGE.md [--update] [--keep]

Fenced blocks, by what stands after the fence:
  console     lines '$ COMMAND', continued by lines '> ', run and end with 0; the lines below each are what it prints, standard output and errors.
              `…` in them is any text of a line, a line of `…` alone any lines.
  LANG FILE   is written to FILE, for the commands after it
Other blocks are left alone, and so is what a comment <!-- not run --> stands before. BIN is a folder put before the PATH.
Measured times and rates, build ids, which pod came first and computed how much, and progress on the way may differ. --update puts what was printed in the place of what differs."""
import os
import re
import signal
import subprocess
import sys
import tempfile

MEASURED = [
    (re.compile(r"\b\d+(\.\d+)?(e[+-]?\d+)? (s|ms|us|F/s)(?!\w)"), r"# \3"),
    (re.compile(r"\b\d+(\.\d+)?(e[+-]?\d+)? [kMGT]?B/s(?!\w)"), "# B/s"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "BUILD"),
    (re.compile(r"\bpod \S+ computed \d+(, pod \S+ computed \d+)*"), lambda found: ", ".join(sorted(re.findall(r"pod \S+ computed", found.group())))),
    (re.compile(r"(?m)^\w+: \d+/\d+ tiles \((?!100 ).*\n"), ""),
]


class Command:
    def __init__(self, line):
        self.line = line  # of the page, from 0
        self.text = ""
        self.expected = []
        self.end = line + 1  # the line after what it is to print


def read_page(lines):
    """The files and commands of a page, in order."""
    steps, i = [], 0
    while i < len(lines):
        fence = re.match(r"```(.+)", lines[i])
        if not fence:
            i += 1
            continue
        first = i + 1
        end = first
        while lines[end] != "```":
            end += 1
        i = end + 1
        words = fence.group(1).split()
        if first >= 2 and lines[first - 2] == "<!-- not run -->":
            continue
        if words == ["console"]:
            steps += read_console(lines, first, end)
        elif len(words) == 2 and "." in words[1]:
            steps.append((words[1], "\n".join(lines[first:end]) + "\n"))
    return steps


def read_console(lines, first, end):
    commands = []
    for k in range(first, end):
        if lines[k].startswith("$ "):
            commands.append(Command(k))
            commands[-1].text = lines[k][2:]
        elif lines[k].startswith("> "):
            commands[-1].text += "\n" + lines[k][2:]
        else:
            commands[-1].expected.append(lines[k])
        commands[-1].end = k + 1
    return commands


def run(steps, binaries, folder):
    """Runs everything; what the k-th command printed and ended with is in the files k.out and k.code."""
    outputs = os.path.join(folder, "outputs")
    work = os.path.join(folder, "work")
    os.mkdir(outputs)
    os.mkdir(work)
    script = ["cd " + work]
    for k, step in enumerate(steps):
        name = f"{outputs}/{k}"
        if isinstance(step, Command):
            script.append(f"{{ {step.text}\n}} >{name}.out 2>&1 </dev/null; echo $? >{name}.code")
        else:
            with open(name, "w") as file:
                file.write(step[1])
            script.append(f"mkdir -p $(dirname {step[0]}); cp {name} {step[0]}")
    script.append("wait")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PHOBOS_")}
    environment.update(PATH=f"{binaries}:{environment['PATH']}", HOME=folder, LC_ALL="C")
    shell = ["bash", "-c", "\n".join(script)]
    # In a network of its own, so that a page may use the ports that a user would, beside other tests.
    if subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL).returncode == 0:
        shell = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"] + shell
    with subprocess.Popen(shell, env=environment, start_new_session=True) as process:
        try:
            process.wait(timeout=240)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    return outputs


def printed_by(outputs, k):
    with open(f"{outputs}/{k}.out", errors="replace") as file:
        text = file.read().replace(f"{os.path.dirname(outputs)}/work", "/data").splitlines()
    with open(f"{outputs}/{k}.code") as file:
        return text, int(file.read())


def matches(expected, found):
    def plain(lines):
        text = "\n".join(line.rstrip() for line in lines)
        for pattern, replacement in MEASURED:
            text = pattern.sub(replacement, text)
        return text + "\n"

    pattern = re.escape(plain(expected))
    pattern = re.sub(r"(?m)^…\\?\n", r"(?:.*\\n)*?", pattern).replace("…", ".*")
    return re.fullmatch(pattern, plain(found)) is not None


def main():
    flags = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    binaries, page = [os.path.abspath(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
    with open(page) as file:
        lines = file.read().split("\n")
    steps = read_page(lines)
    commands = [step for step in steps if isinstance(step, Command)]
    folder = tempfile.mkdtemp()
    failures = 0
    try:
        outputs = run(steps, binaries, folder)
        for k in reversed(range(len(steps))):
            step = steps[k]
            if not isinstance(step, Command):
                continue
            if not os.path.exists(f"{outputs}/{k}.code"):
                found, code = [], None
            else:
                found, code = printed_by(outputs, k)
            if code == 0 and matches(step.expected, found):
                continue
            failures += 1
            print(f"{page}:{step.line + 1}: $ {step.text}")
            print(f"ended with {code} and printed", *found, "expected", *step.expected, sep="\n    ")
            if "--update" in flags and code is not None:
                lines[step.end - len(step.expected):step.end] = found
        if "--update" in flags:
            with open(page, "w") as file:
                file.write("\n".join(lines))
    finally:
        if "--keep" in flags:
            print(folder)
        else:
            subprocess.run(["rm", "-rf", folder], check=False)
    print(f"{len(commands)} commands, {failures} failures")
    return 1 if failures or not commands else 0


sys.exit(main())

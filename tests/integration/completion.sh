#!/bin/sh
# What shells complete of command lines, for phobosc and for an executable that it made.
#
#   completion.sh PHOBOSC SOURCE_ROOT
set -eu

phobosc=$1
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$root/samples/add/add.phb" .
"$phobosc" --gpu=none add.phb -o add
mkdir bin
ln -s "$phobosc" bin/phobosc
cp add bin
PATH=$work/bin:$PATH
export PATH
touch one.phb two.txt

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

for shell in bash zsh fish; do
    command -v $shell >/dev/null || { echo "no $shell here"; exit 77; }
done

# bash_completes EXPECTED WORD...: the last word is being typed; words as bash splits them.
cat >bash_completes <<'BASH'
. "$ROOT/runtime/completion/phobosc.bash"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_phobos "$1"
printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
BASH
bash_completes() {
    expected=$1
    shift
    found=$(ROOT=$root bash bash_completes "$@")
    [ "$found" = "$expected " ] || fail "bash, $*: '$found', expected '$expected '"
}
bash_completes "--emit=" phobosc --em
bash_completes "ptx" phobosc --emit = pt
bash_completes "always auto" phobosc --color = a
bash_completes "-Wedge -Welect -Werror" phobosc -We
bash_completes "one.phb" phobosc one
bash_completes "--device=" add --dev
bash_completes "measure model" add --leaf = m
bash_completes "pod" add --role = p
bash_completes "two.txt" add --trace = two

# fish says what it would complete.
fish_completes() {
    expected=$1
    shift
    found=$(HOME=$work fish -c "source '$root/runtime/completion/phobosc.fish'; complete -c add -a '(__phobos_complete)'; complete -C '$*'" | cut -f1 | sort | tr '\n' ' ')
    [ "$found" = "$expected " ] || fail "fish, $*: '$found', expected '$expected '"
}
fish_completes "--emit=" phobosc --em
fish_completes "--emit=ptx" phobosc --emit=pt
fish_completes "--color=auto" phobosc --color=au
fish_completes "--leaf=measure --leaf=model" add --leaf=m

# zsh completes in an interactive shell alone: one on a terminal of its own, whose matches are listed.
cat >zsh_completes.py <<'PYTHON'
import os, pty, re, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", PS1="> ", ZDOTDIR=os.getcwd(), COLUMNS="200")
    os.execvp("zsh", ["zsh", "-f", "-i"])


def read(seconds):
    text, end = b"", time.time() + seconds
    while time.time() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536)
            except OSError:
                break
            if sys.argv[2].encode() in text:
                break
    return text.decode(errors="replace")


os.write(terminal, f"fpath=({os.environ['ROOT']}/runtime/completion $fpath); autoload -U compinit; compinit -u -D; compdef _phobosc add; echo re''ady\n".encode())
text, end = "", time.time() + 60
while "ready" not in text and time.time() < end:
    text += read(1)
os.write(terminal, sys.argv[1].encode() + b"\t\t")
text = read(30)
sys.exit(0 if sys.argv[2] in text else print(text) or 1)
PYTHON
ROOT=$root
export ROOT
/usr/bin/env python3 zsh_completes.py "phobosc --cubi" "phobosc --cubin" || fail "zsh: --cubin"
/usr/bin/env python3 zsh_completes.py "phobosc --emit=pt" "--emit=ptx" || fail "zsh: --emit=ptx"
/usr/bin/env python3 zsh_completes.py "add --leaf=mea" "--leaf=measure" || fail "zsh: --leaf=measure"

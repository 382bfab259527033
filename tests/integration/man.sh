#!/bin/sh
# The man pages: nothing that groff warns of, and every option of --help in them.
#
#   man.sh PHOBOSC KERNEL PAGES_FOLDER
set -eu
phobosc=$1 kernel=$2 pages=$3
command -v groff >/dev/null || { echo "no groff here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$phobosc" --gpu=none "$kernel" -o "$work/job"

lists() { # PAGE COMMAND
    groff -man -Tutf8 -ww -z "$pages/$1" 2>"$work/warnings"
    [ ! -s "$work/warnings" ] || { cat "$work/warnings" >&2; exit 1; }
    groff -man -Tascii -P-c -P-b -P-u "$pages/$1" >"$work/text"
    count=0
    for option in $("$2" --help | sed -n 's/^  \(--\{0,1\}[A-Za-z][A-Za-z-]*\).*/\1/p'); do
        grep -q -e "^ *$option" "$work/text" || { echo "$1 does not have $option" >&2; exit 1; }
        count=$((count + 1))
    done
    [ $count -gt 20 ] || { echo "$1: only $count options" >&2; exit 1; }
}
lists phobosc.1 "$phobosc"
lists phobos-job.5 "$work/job"

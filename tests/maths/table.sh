#!/bin/sh
# table.sh FIT DEF: the committed table is what the script computes. Needs mpmath.
set -eu

python3 -c 'import mpmath' 2>/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$1" | tr -d ' \n' >"$work/computed"
tr -d ' \n' <"$2" >"$work/committed"
cmp "$work/computed" "$work/committed"

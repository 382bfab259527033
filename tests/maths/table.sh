#!/bin/sh
# table.sh FIT DEF: the committed table is what the script computes. Needs mpmath.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$(dirname "$0")/../tools/python_with.sh" mpmath "$1" >"$work/printed" || exit $?
tr -d ' \n' <"$work/printed" >"$work/computed"
tr -d ' \n' <"$2" >"$work/committed"
cmp "$work/computed" "$work/committed"

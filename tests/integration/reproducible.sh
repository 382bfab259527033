#!/bin/sh
# Two compilations of one source are the same bytes, by one thread or several, and so is the executable made from its --emit=ir.
#
#   reproducible.sh PHOBOSC FOLDER...
set -eu

phobosc=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find "$@" -name '*.phb' >"$work/files"
while read -r file; do
    name=$(basename "$file" .phb)
    cp "$file" "$work"
    cd "$work"
    "$phobosc" "$name.phb" -j 1 -o first
    "$phobosc" "$name.phb" -j 3 -o second
    cmp first second
    "$phobosc" --emit=ir "$name.phb" -o "$name.ir"
    "$phobosc" "$name.ir" -o from_ir
    cmp first from_ir
    mkdir -p elsewhere
    cp "$name.phb" elsewhere
    (cd elsewhere && "$phobosc" "$name.phb" -o here)
    cmp first elsewhere/here
done <"$work/files"

#!/bin/sh
# Two compilations of one source are the same bytes, by one thread or several and whatever SOURCE_DATE_EPOCH says, and so is the executable made
# from its --emit=ir. Code for GPUs is in the first of them.
#
#   reproducible.sh PHOBOSC FOLDER...
set -eu

phobosc=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find "$@" -name '*.phb' | LC_ALL=C sort >"$work/files"
gpu=auto
while read -r file; do
    name=$(basename "$file" .phb)
    cp "$file" "$work"
    cd "$work"
    "$phobosc" --gpu=$gpu "$name.phb" -j 1 -o first
    SOURCE_DATE_EPOCH=86400 "$phobosc" --gpu=$gpu "$name.phb" -j 3 -o second
    cmp first second
    "$phobosc" --emit=ir "$name.phb" -o "$name.ir"
    "$phobosc" --gpu=$gpu "$name.ir" -o from_ir
    cmp first from_ir
    mkdir -p elsewhere
    cp "$name.phb" elsewhere
    (cd elsewhere && "$phobosc" --gpu=$gpu "$name.phb" -o here)
    cmp first elsewhere/here
    gpu=none
done <"$work/files"

#!/bin/sh
# Objects need nothing of libm, libgcc or a half-precision helper: only the block operations that every libc has, and where there is thread code what the
# runtime runs CTAs with.
#
#   undefined_symbols.sh PHOBOSC FOLDER...
set -eu

phobosc=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find "$@" -name '*.phb' >"$work/files"
failed=0
while read -r file; do
    "$phobosc" -w --gpu=none -c "$file" -o "$work/object.o"
    if nm -u "$work/object.o" | awk '{ print $2 }' | grep -vxE 'memcpy|memset|memmove|_GLOBAL_OFFSET_TABLE_|phb_cta_[a-z]+'; then
        echo "undefined in the object of $file" >&2
        failed=1
    fi
    defined=$(nm -g --defined-only "$work/object.o" | awk '{ print $3 }')
    if [ "$defined" != phb_program ]; then
        echo "$file: the object exports $defined" >&2
        failed=1
    fi
done <"$work/files"
exit $failed

#!/bin/sh
# Golden tests by sibling extension: for x.phb with x.ast, x.ir or x.cluster, `phobosc --emit=KIND x.phb` prints exactly that. Every x.phb, with goldens or without,
# also has its .ast and .ir printed, read back and printed again: the two must be equal (a test of syntax, with an .ast alone, has no .ir). An x.llvm or x.ptx
# holds lines for FileCheck ($FILECHECK) that say what matters.
#
#   tests/run_golden.sh [--update] PHOBOSC FOLDER...
set -u

update=0
if [ "$1" = --update ]; then
    update=1
    shift
fi
phobosc=$1
shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$@" -name '*.phb' | LC_ALL=C sort >"$work/files"

failed=0
count=0
fail() {
    failed=$((failed + 1))
    echo "$file: $1"
    cat "$work/diff"
}

# emit KIND FILE OUTPUT, from FILE's folder, so that the text names the file alone.
emit() {
    (cd "$(dirname "$2")" && "$phobosc" -w --emit="$1" -o - "$(basename "$2")") >"$3" 2>"$work/diff" </dev/null
}

while read -r file; do
    base=${file%.phb}
    name=$(basename "$base")
    mkdir -p "$work/again"
    for kind in ast ir cluster llvm ptx; do
        case $kind in
        ir) [ -e "$base.ir" ] || [ ! -e "$base.ast" ] || continue ;;
        cluster | llvm | ptx) [ -e "$base.$kind" ] || continue ;;
        esac
        count=$((count + 1))
        if ! emit $kind "$file" "$work/printed"; then
            fail "--emit=$kind failed"
            continue
        fi
        if [ $kind = llvm ] || [ $kind = ptx ]; then
            "${FILECHECK:-FileCheck-19}" --input-file "$work/printed" "$base.$kind" 2>"$work/diff" || fail "not what $name.$kind wants"
        elif [ -e "$base.$kind" ]; then
            [ $update = 0 ] || cp "$work/printed" "$base.$kind"
            diff -u "$base.$kind" "$work/printed" >"$work/diff" || fail "not as in $name.$kind"
        fi
        case $kind in
        ast) copy=$work/again/$name.phb ;;
        ir) copy=$work/again/$name.ir ;;
        *) continue ;;
        esac
        cp "$work/printed" "$copy"
        if ! emit $kind "$copy" "$work/reprinted"; then
            fail "the printed $kind is not read back"
        else
            diff -u "$work/printed" "$work/reprinted" >"$work/diff" || fail "$kind changes when it is read back"
        fi
    done
done <"$work/files"

echo "$count outputs, $failed failed"
[ $count -gt 0 ] && [ $failed = 0 ]

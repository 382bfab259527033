#!/bin/sh
# Diagnostics: phobosc FILE.phb says exactly FILE.err; exit code 1 and no output where that holds an error, else 0. A first line "// phobosc: OPTIONS" adds
# options. Files without an .err are to compile in silence.
#
#   tests/run_diag.sh [--update] PHOBOSC FILE.phb|FOLDER...
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
while read -r file; do
    count=$((count + 1))
    expected=${file%.phb}.err
    options=$(sed -n '1s|^// phobosc: ||p' "$file")
    # From its own folder, so that messages name the file alone.
    # shellcheck disable=SC2086 # options are words
    (cd "$(dirname "$file")" && "$phobosc" --emit=cluster -o "$work/out" $options "$(basename "$file")") 2>"$work/err" </dev/null
    code=$?

    if [ $update = 1 ]; then
        if [ -s "$work/err" ]; then cp "$work/err" "$expected"; else rm -f "$expected"; fi
    fi
    [ -e "$expected" ] || expected=/dev/null
    want=0
    grep -q ' error: ' "$expected" && want=1

    why=
    [ $code = $want ] || why="exit code $code, expected $want"
    if [ $want = 1 ] && [ -e "$work/out" ]; then why="an output was left behind"; fi
    diff -u "$expected" "$work/err" >"$work/diff" || why="${why:+$why; }other messages than expected"
    if [ -n "$why" ]; then
        failed=$((failed + 1))
        echo "$file: $why"
        cat "$work/diff"
    fi
    rm -f "$work/out"
done <"$work/files"

echo "$count files, $failed failed"
[ $count -gt 0 ] && [ $failed = 0 ]

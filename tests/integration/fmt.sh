#!/bin/sh
# phobosc fmt: one layout, the same program, nothing changed the second time; samples are in it.
#
#   fmt.sh PHOBOSC SOURCE_ROOT
set -u

phobosc=$1
root=$2
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

"$phobosc" fmt - <"$root/tests/integration/fmt/before.phb" >"$work/formatted" || fail "fmt/before.phb is refused"
diff "$root/tests/integration/fmt/after.phb" "$work/formatted" || fail "fmt/before.phb is not formatted as fmt/after.phb"
"$phobosc" fmt --check "$root"/samples/*/*.phb || fail "samples are not formatted"

# Every source of the tests, in copies: what has errors stays as it is, the rest says the same and is not changed again.
mkdir "$work/copies"
count=0
find "$root/tests" -name '*.phb' -size -64k | LC_ALL=C sort | while read -r file; do
    count=$((count + 1))
    cp "$file" "$work/copies/$count.phb"
    # And without indentation.
    printf '// first\n%s' "$(cat "$file")" | tr -s ' ' >"$work/copies/$count.dense.phb"
done
cp -r "$work/copies" "$work/before"
(cd "$work/copies" && "$phobosc" fmt ./*.phb 2>"$work/said")
grep -q 'internal error' "$work/said" && fail "$(grep 'internal error' "$work/said")"
cp -r "$work/copies" "$work/once"
(cd "$work/copies" && "$phobosc" fmt ./*.phb 2>"$work/again")
diff -r "$work/once" "$work/copies" >"$work/diff" || fail "formatting twice changes $(head -5 "$work/diff")"
cmp -s "$work/said" "$work/again" || fail "formatted sources have other errors than before: $(diff "$work/said" "$work/again" | head -4)"
changed=$(diff -rq "$work/before" "$work/once" | wc -l)
[ "$changed" -gt 50 ] || fail "only $changed sources were changed"

# Bad input.
cd "$work" || exit 1
printf 'kernel k(a: tensor<f32>[N]) {\n  a[0] = \n}\n' >wrong.phb
cp wrong.phb same.phb
"$phobosc" fmt wrong.phb 2>said && fail "a wrong source is formatted"
grep -q 'wrong.phb:3:1: error: ' said || fail "no position: $(cat said)"
cmp -s wrong.phb same.phb || fail "a wrong source was changed"
printf 'kernel k(a: tensor<f32>[N]) { a[0]=1.0 }\n' >dense.phb
chmod 640 dense.phb
"$phobosc" fmt --check dense.phb 2>said && fail "--check accepts what is not formatted"
grep -q "'dense.phb' is not formatted" said || fail "--check: $(cat said)"
"$phobosc" fmt dense.phb || fail "dense.phb"
[ "$(stat -c %a dense.phb)" = 640 ] || fail "permissions changed to $(stat -c %a dense.phb)"
"$phobosc" fmt --check dense.phb || fail "dense.phb is not formatted after fmt"
"$phobosc" fmt 2>said
[ $? = 2 ] || fail "no file is no usage error"
"$phobosc" fmt --chekc dense.phb 2>said
[ $? = 2 ] || fail "an unknown option is no usage error"
"$phobosc" fmt absent.phb dense.phb 2>said && fail "an absent file is no failure"
[ "$(ls | tr '\n' ' ')" = "$(printf 'again before copies dense.phb diff formatted once said same.phb wrong.phb ')" ] || fail "left behind: $(ls)"
[ "$failures" = 0 ]

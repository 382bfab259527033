#!/bin/sh
# Text nested a million deep, in each way that the grammar nests, is an error with a position; where a million is more than a source file may hold, as many
# as go in.
#
#     deep_nesting.sh PHOBOSC
set -u
phobosc=$1 depth=1000000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refused NAME: deep.phb
refused() {
    timeout 60 "$phobosc" --emit=ir "$work/deep.phb" -o "$work/out" >"$work/said" 2>&1
    code=$?
    if [ $code != 1 ] || ! grep -q 'deep.phb:[0-9]*:[0-9]*: error: ' "$work/said"; then
        echo "$1: exit code $code"
        head -c 400 "$work/said"
        failed=1
    fi
    [ ! -e "$work/out" ] || { echo "$1: an output was left behind"; failed=1; }
}

many() {
    perl -e 'print $ARGV[0] x $ARGV[1]' -- "$1" "$depth"
}

# deep NAME HEAD OPEN MIDDLE CLOSE TAIL
deep() {
    { printf '%s' "$2"; many "$3"; printf '%s' "$4"; many "$5"; printf '%s' "$6"; } >"$work/deep.phb"
    refused "$1"
}

head='kernel k(c: tensor<i32>[4]) { '
tail='
}
'
deep parentheses "$head c[:] = " '(' 1 ')' "$tail"
deep calls "$head c[:] = " 'abs(' 1 ')' "$tail"
deep subscripts "$head c[:] = " 'c[' 0 ']' "$tail"
deep slices "$head c[:] = " 'c[0 :+ ' 1 ']' "$tail"
deep 'open brackets' "$head c[:] = " 'c[' '' '' ''
deep minus "$head c[:] = " '-' 1 '' "$tail"
deep 'minus and not' "$head c[:] = " '~-' 1 '' "$tail"
deep not "$head if " '!' 'true {}' '' "$tail"
deep sums "$head c[:] = 1" ' + 1' '' '' "$tail"
deep 'right-leaning sums' "$head c[:] = " '1 + (' 1 ')' "$tail"
deep fields "$head c[:] = ctx" '.x' '' '' "$tail"
deep 'chained subscripts' "$head c[:] = c" '[0]' '' '' "$tail"
deep ifs "$head" 'if true {
' '' '}
' "$tail"
deep 'else ifs' "$head if true {}" ' else if true {}' '' '' "$tail"
deep whiles "$head" 'while true {
' '' '}
' "$tail"
depth=800000
deep fors "$head" 'for i in range(2){' '' '}' "$tail"
depth=1000000
deep 'extents of types' 'kernel k(c: tensor<i32>[' '(' 4 ')' "]) {}"
deep 'values of attributes' '@autotune(B in [' '(' 4 ')' '])
kernel k(c: tensor<i32>[4]) {}'
deep braces "$head" '{' '' '}' "$tail"
perl -e 'print "fn f0(x) { return x }\n"; print "fn f$_(x) { return f", $_ - 1, "(x) }\n" for 1 .. 400000;
    print "kernel k(c: tensor<i32>[4]) {\n    c[:] = f400000(1)\n}\n"' >"$work/deep.phb"
refused fns
exit $failed

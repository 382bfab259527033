#!/bin/sh
# What --autotune predicts against what the run takes: samples in two sizes on files in memory, by one pod and by two, each five times.
#
#     predict.sh PHOBOSC
set -eu
phobosc=$1 samples=$(cd "$(dirname "$0")/../../samples" && pwd)
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
cd "$work"
floats() { # NAME COUNT
    perl -e 'binmode STDOUT; for (1 .. $ARGV[0] / 4096) { print pack("f<*", map { rand() } 1 .. 4096) }' "$2" >"$1.bin"
}
input() { # NAME SHAPE
    count=$(($(echo "$2" | sed 's/,/ */g')))
    [ -e $count.bin ] || head -c $((4 * count)) big.bin >$count.bin
    printf '"%s": {"uri": "%s.bin", "dtype": "f32", "shape": [%s]}' "$1" $count "$2"
}
output() { # NAME SHAPE
    printf '"%s": {"uri": "out.bin", "dtype": "f32", "shape": [%s]}' "$1" "$2"
}
# predict NAME SAMPLE JOB
predict() {
    [ -e "$2" ] || "$phobosc" --gpu=none "$samples/${2%.*}/${2#*.}.phb" -o "$2"
    echo "{$3}" >job.json
    for pods in 1 2; do
        rm -f out.bin
        for _ in 1 2 3 4 5; do ./"$2" job.json --autotune --pods=$pods --progress=none 2>/dev/null; done |
            sed -n 's/.* in \([0-9.]*\) s on .*predicted \([0-9.]*\) s.*/\2 \1/p' | awk '{ print $2 / $1, $1, $2 }' | sort -n |
            awk -v what="$1 by $pods" '{ ratio[NR] = $1; predicted[NR] = $2; taken[NR] = $3 }
                END { m = int((NR + 1) / 2); printf "%-32s %.2f (%.2f to %.2f); the median run: predicted %.3f, took %.3f s\n", what, ratio[m], ratio[1], ratio[NR], predicted[m], taken[m] }'
    done
}
floats big $((1 << 25))
for n in 23 25; do
    size=$((1 << n))
    predict "add 2^$n" add.add "\"tensors\": {$(input a $size), $(input b $size), $(output c $size)}"
done
for n in 1024 2048; do
    predict "gemm $n^3" gemm.gemm "\"kernel\": \"gemm_f32\", \"scalars\": {\"alpha\": 1, \"beta\": 0}, \"tensors\": {
        $(input A "$n, $n"), $(input B "$n, $n"), $(output C "$n, $n")}"
    predict "streamed product $n^3" matmul.matmul "\"scalars\": {\"alpha\": 1, \"beta\": 0}, \"tensors\": {
        $(input A "$n, $n"), $(input B "$n, $n"), $(output C "$n, $n")}"
    predict "attention 4x${n}x64" flash_attention.flash_attention "\"kernel\": \"attention\", \"scalars\": {\"scale\": 0.1}, \"tensors\": {
        $(input Q "4, $n, 64"), $(input K "4, $n, 64"), $(input V "4, $n, 64"), $(output O "4, $n, 64")}"
    predict "stencil $((2 * n))^2" stencil.stencil "\"tensors\": {$(input u "$((2 * n)), $((2 * n))"), $(output w "$((2 * n)), $((2 * n))")}"
done

#!/bin/sh
# What --autotune predicts against what the run takes: add, gemm and attention on files in memory, by one pod and by two, each five times.
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
tensor() { # NAME SHAPE
    printf '"%s": {"uri": "%s.bin", "dtype": "f32", "shape": [%s]}' "$1" "$1" "$2"
}
floats a $((1 << 25)) && cp a.bin b.bin
floats A $((1536 * 1536)) && cp A.bin B.bin
floats Q $((4 * 2048 * 64)) && cp Q.bin K.bin && cp Q.bin V.bin
echo "{\"tensors\": {$(tensor a $((1 << 25))), $(tensor b $((1 << 25))), $(tensor c $((1 << 25)))}}" >add.json
echo "{\"kernel\": \"gemm_f32\", \"scalars\": {\"alpha\": 1, \"beta\": 0}, \"tensors\": {$(tensor A '1536, 1536'), $(tensor B '1536, 1536'), $(tensor C '1536, 1536')}}" >gemm.json
echo "{\"kernel\": \"attention\", \"scalars\": {\"scale\": 0.1}, \"tensors\": {$(tensor Q '4, 2048, 64'), $(tensor K '4, 2048, 64'), $(tensor V '4, 2048, 64'), $(tensor O '4, 2048, 64')}}" >flash_attention.json
for kernel in add gemm flash_attention; do
    "$phobosc" --gpu=none "$samples/$kernel/$kernel.phb" -o run
    for pods in 1 2; do
        for _ in 1 2 3 4 5; do ./run $kernel.json --autotune --pods=$pods --progress=none 2>/dev/null; done |
            sed -n 's/.* in \([0-9.]*\) s on .*predicted \([0-9.]*\) s.*/\2 \1/p' |
            awk -v what="$kernel by $pods" '{ printf "%s%s %s %.2f", NR == 1 ? what ": predicted, taken, ratio: " : "; ", $1, $2, $2 / $1 } END { print "" }'
    done
done

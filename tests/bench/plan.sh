#!/bin/sh
# How long planning takes: a matrix product of 10^4, 10^5 and 10^6 super-tiles over 1000 nodes.
#
#     plan.sh PHOBOSC
set -eu
phobosc=$1 kernel=$(cd "$(dirname "$0")/../../samples/matmul" && pwd)/matmul.phb
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
tiles="-D leaf.TILE_M=32 -D leaf.TILE_N=32 -D leaf.TILE_K=32 -D cluster.TILE_M=64 -D cluster.TILE_N=64 -D cluster.TILE_K=64"
# shellcheck disable=SC2086 # tiles are words
"$phobosc" --gpu=none $tiles "$kernel" -o plan
for side in 100 316 1000; do
    size=$((64 * side))
    truncate -s $((size * 64 * 4)) A.bin B.bin
    printf '{"scalars": {"alpha": 1, "beta": 0}, "tensors": {
        "A": {"uri": "A.bin", "dtype": "f32", "shape": [%d, 64]}, "B": {"uri": "B.bin", "dtype": "f32", "shape": [64, %d]},
        "C": {"uri": "C.bin", "dtype": "f32", "shape": [%d, %d]}}}\n' $size $size $size $size >job.json
    for how in round-robin block "block --link-bw=1e12"; do # the last: shared tiles are fetched
        # shellcheck disable=SC2086
        /usr/bin/time -f "%U s of processor time, %e s, %M KiB" ./plan --plan job.json --nodes=1000 --memory=8G --placement=$how >text 2>used
        printf '%7d super-tiles, %-20s %s\n' $((side * side)) "$how" "$(cat used)"
    done
done

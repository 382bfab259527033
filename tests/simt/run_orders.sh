#!/bin/sh
# Under the simulator a job gives the bytes that the CPU gives, in every order of CTAs, warps and lanes, and no correct kernel is stopped.
#
#   tests/simt/run_orders.sh PHOBOSC ORACLE KERNEL.phb SEEDS JOB.json...
set -eu

phobosc=$1
oracle=$2
kernel=$3
seeds=$4
shift 4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$phobosc" --gpu=none --simt "$kernel" -o "$work/kernel"
for job in "$@"; do
    seed=0
    while [ $seed -le "$seeds" ]; do
        device="--device=simt --simt-seed=$seed --simt-elect=random"
        [ $seed -gt 0 ] || device=--device=cpu
        rm -rf "$work/job"
        mkdir "$work/job"
        cp "$job" "$work/job/job.json"
        "$oracle" make "$work/job/job.json"
        # shellcheck disable=SC2086 # options are words
        "$work/kernel" "$work/job/job.json" $device --pods=1 --progress=none </dev/null >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
        "$oracle" check "$work/job/job.json" >"$work/out" 2>&1 || { echo "$(basename "$job") $device"; cat "$work/out"; exit 1; }
        [ $seed -gt 0 ] || cp -r "$work/job" "$work/first"
        diff -r "$work/first" "$work/job" || { echo "$(basename "$job") $device: other bytes than on the CPU" >&2; exit 1; }
        seed=$((seed + 1))
    done
    rm -rf "$work/first"
    echo "$(basename "$job"): $seeds orders, the same bytes"
done

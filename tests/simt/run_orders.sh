#!/bin/sh
# Under the simulator a job gives the same bytes in every order of CTAs, warps and lanes, and no correct kernel is stopped. FIRST is what the bytes are
# compared with: `cpu` for thread code, which runs in the same way there, `simt` for tile code: that device in ascending order. `simt:sm_90a` is the same as
# that GPU runs it, with wgmma somewhere.
#
#   tests/simt/run_orders.sh PHOBOSC ORACLE KERNEL.phb FIRST SEEDS JOB.json...
set -eu

phobosc=$1
oracle=$2
kernel=$3
first=$4
seeds=$5
shift 5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

target=none
case $first in
simt:*)
    target=${first#simt:}
    first=simt
    "$phobosc" "--gpu=$target" --emit=ptx "$kernel" -o "$work/ptx"
    grep -q wgmma.mma_async "$work/ptx" || { echo "no product of four warps in $kernel" >&2; exit 1; }
    ;;
esac
"$phobosc" "--gpu=$target" --simt "$kernel" -o "$work/kernel"
run() { # OPTIONS..: in a folder of its own, on the same inputs
    rm -rf "$work/job"
    cp -r "$work/inputs" "$work/job"
    "$work/kernel" "$work/job/job.json" "$@" --pods=1 --progress=none </dev/null >"$work/out" 2>&1 || { echo "$*"; cat "$work/out"; exit 1; }
}

how=
[ "$first" = cpu ] || how=--tensor-cores
for job in "$@"; do
    rm -rf "$work/inputs" "$work/first"
    mkdir "$work/inputs"
    cp "$job" "$work/inputs/job.json"
    "$oracle" make "$work/inputs/job.json"
    run "--device=$first"
    # shellcheck disable=SC2086 # an option or nothing
    "$oracle" check "$work/job/job.json" $how >"$work/out" 2>&1 || { echo "$(basename "$job") --device=$first"; cat "$work/out"; exit 1; }
    cp -r "$work/job" "$work/first"
    seed=1
    while [ $seed -le "$seeds" ]; do
        run --device=simt --simt-seed=$seed --simt-elect=random
        diff -r "$work/first" "$work/job" || { echo "$(basename "$job") seed $seed: other bytes than with --device=$first" >&2; exit 1; }
        seed=$((seed + 1))
    done
    echo "$(basename "$job"): $seeds orders, the same bytes"
done

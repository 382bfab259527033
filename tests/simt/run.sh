#!/bin/sh
# What tests/simt/faults.phb plants is caught in every order and said as faults.txt has it, and the kernels of correct.phb run in every order with the bits
# of the CPU device.
#
#   tests/simt/run.sh PHOBOSC FAULT-ORDERS ORDERS
set -eu

phobosc=$1
fault_orders=$2
orders=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$phobosc" -w --simt "$here/faults.phb" -o faults
"$phobosc" -w --simt "$here/correct.phb" -o correct
# 256 numbers of f32, 1.0 .. 1.98, as bytes.
printf '%b' "$(awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\0%03o\\0%03o\\0%03o\\0077", 0, i, 128 + i % 127 }')" >x.bin

job() {
    printf '{"kernel": "%s", "dims": {"N": 256}, "tensors": {"x": {"uri": "x.bin", "dtype": "f32", "shape": [256]}, "y": {"uri": "y.bin", "dtype": "f32", "shape": [256]}}}\n' \
        "$1" >job.json
}

run() { # EXECUTABLE ARGUMENTS..: the exit code is the executable's; the error is in `said`
    executable=$1
    shift
    rm -f y.bin
    "./$executable" job.json --progress=none "$@" >said 2>&1 </dev/null
}

failed=0
elects="low high random"
caught=0
while read -r kernel message; do
    case $kernel in '' | '#'*) continue ;; esac
    job "$kernel"
    seed=0
    while [ $seed -le "$fault_orders" ]; do
        for elect in $elects; do
            if [ $seed = 0 ]; then order=; else order="--simt-seed=$seed"; fi
            # shellcheck disable=SC2086 # an option or nothing
            if run faults --device=simt --simt-elect=$elect $order; then
                echo "$kernel: order $seed, $elect: not caught"
                failed=1
            elif ! grep -q "kernel '$kernel': faults.phb:[0-9]*:[0-9]*: .*$message" said; then
                echo "$kernel: order $seed, $elect: expected $message, found"
                cat said
                failed=1
            fi
        done
        seed=$((seed + 1))
    done
    caught=$((caught + 1))
done <"$here/faults.txt"
echo "$caught faults planted"

for kernel in neighbours counted one_lock ring reductions apart carried walks mixed; do
    job "$kernel"
    if ! run correct --device=cpu; then
        echo "$kernel: on the CPU device"
        cat said
        failed=1
        continue
    fi
    mv y.bin expected.bin
    seed=1
    while [ $seed -le "$orders" ]; do
        elect=$(echo "$elects" | cut -d' ' -f$((seed % 3 + 1)))
        if ! run correct --device=simt --simt-seed=$seed "--simt-elect=$elect" || ! cmp -s y.bin expected.bin; then
            echo "$kernel: order $seed, $elect: failed, or other bits"
            cat said
            failed=1
        fi
        seed=$((seed + 1))
    done
    run correct --device=simt --simt-weak && cmp -s y.bin expected.bin || { echo "$kernel: --simt-weak"; failed=1; }
done
exit $failed

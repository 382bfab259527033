#!/bin/sh
# Random kernels of thread code: the simulator, in several orders of CTAs, warps and threads and with each way to elect, gives the CPU device's bits and
# stops at nothing.
#
#   tests/simt/random_threads.sh PHOBOSC GENERATOR SEED|SOURCE-DIR KERNELS ORDERS       of a folder the seed is its commit
set -eu

phobosc=$1
generator=$2
seed=$3
kernels=$4
orders=$5
[ ! -d "$seed" ] || seed=0x$(git -C "$seed" rev-parse --short=8 HEAD 2>/dev/null || echo 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$generator" "$seed" "$kernels" >threads.phb
"$phobosc" -w --gpu=none --simt -O1 --cpu=x86-64-v3 threads.phb -o threads
# 256 numbers of f32, 1.0 .. 1.98, and of i32, 0 .. 17, as bytes.
printf '%b' "$(awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\0%03o\\0%03o\\0%03o\\0077", 0, i, 128 + i % 127 }')" >x.bin
printf '%b' "$(awk 'BEGIN { for (i = 0; i < 256; i++) printf "\\0%03o\\0000\\0000\\0000", i * 7 % 18 }')" >k.bin

tensor() {
    printf '"%s": {"uri": "%s.bin", "dtype": "%s", "shape": [%s]}' "$1" "$1" "$2" "$3"
}

run() { # OPTIONS..
    rm -f y.bin n.bin counts.bin
    ./threads job.json --progress=none --pods=1 "$@" >said 2>&1 </dev/null || { echo "t$kernel $*: failed"; cat said; return 1; }
}

failed=0
kernel=0
while [ $kernel -lt "$kernels" ]; do
    printf '{"kernel": "t%s", "dims": {"N": 256}, "tensors": {%s, %s, %s, %s, %s}}\n' $kernel "$(tensor x f32 256)" "$(tensor k i32 256)" \
        "$(tensor y f32 256)" "$(tensor n i32 256)" "$(tensor counts i32 8)" >job.json
    if run --device=cpu; then
        cat y.bin n.bin counts.bin >expected
        order=1
        while [ $order -le "$orders" ]; do
            elect=$(echo low high random | cut -d' ' -f$((order % 3 + 1)))
            if ! run --device=simt --simt-seed=$order "--simt-elect=$elect"; then
                failed=1
            elif ! cat y.bin n.bin counts.bin | cmp - expected; then
                echo "t$kernel: order $order, $elect: other bits than on the CPU"
                failed=1
            fi
            order=$((order + 1))
        done
    else
        failed=1
    fi
    kernel=$((kernel + 1))
done
[ $failed = 0 ] || { echo "seed $seed:"; cat threads.phb; }
echo "$kernels kernels, $orders orders"
exit $failed

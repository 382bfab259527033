#!/bin/sh
# Jobs that no plan can be made for: each is refused with what it has and what it would need, by --check, --plan and a run alike, and leaves nothing behind.
# What is wrong with a job by itself is in tests/unit/bad_jobs.txt.
#
#     bad_input.sh PHOBOSC
set -eu
phobosc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >product.phb <<'END'
@cluster(T in [16]) @autotune(T in [8], D in [32])
@halo(edge = 20)
kernel product(A: tensor<f32>[M, D], B: tensor<f32>[D, N], edge: tensor<f32>[M], C: tensor<f32>[M, N]) {
    let row = ctx.block.y * T
    let col = ctx.block.x * T
    C[row :+ T, col :+ T] = dot(A[row :+ T, :], B[:, col :+ T]) + edge[row - 20] + edge[row + 20 + T - 1]
}
@cluster(TY in [1], TX in [1]) @autotune(TY in [1], TX in [1])
kernel ones(C: tensor<u8>[M, N]) {
    C[ctx.block.y * TY :+ TY, ctx.block.x * TX :+ TX] = 1
}
END
"$phobosc" --gpu=none product.phb -o program

# tensor NAME SHAPE [DTYPE]
tensor() {
    printf '"%s": {"uri": "%s.bin", "dtype": "%s", "shape": [%s]}' "$1" "$1" "${3:-f32}" "$2"
}
truncate -s $((90 * 32 * 4)) A.bin
truncate -s $((32 * 70 * 4)) B.bin
truncate -s $((90 * 4)) edge.bin
product="\"kernel\": \"product\", \"tensors\": {$(tensor A '90, 32'), $(tensor B '32, 70'), $(tensor edge 90), $(tensor C '90, 70')}"

# refused JOB TEXT: by each of them
refused() {
    job=$1 text=$2
    echo "$job" >job.json
    for how in --plan '' --check; do
        # shellcheck disable=SC2086
        ./program $how job.json >log 2>&1 && { echo "taken by ${how:-a run}: $job" && exit 1; }
        grep -qF -e "$text" log || { echo "${how:-a run} of $job does not say \"$text\":" && cat log && exit 1; }
    done
    [ ! -e C.bin ] || { echo "an output was left behind by $job" && exit 1; }
}

refused "{$product, \"cluster\": {\"T\": 20}}" "the super-tile T = 20 is not a multiple of the leaf's tile T = 8"
refused "{$product, \"cluster\": {\"T\": 16}}" "tensor 'edge': its halo '20' = 20 is wider than the super-tiles along axis 0, which are T = 16; choose at least 20"
refused "{$product, \"cluster\": {\"T\": 0}}" 'T: expected 1 to 2^63-1, found 0'
refused "{$product, \"cluster\": {\"T\": -8}}" 'T: expected 1 to 2^63-1, found -8'
refused "{$product, \"cluster\": {\"T\": 9223372036854775808}}" 'T: expected 1 to 2^63-1, found 9223372036854775808'
refused "{$product, \"dims\": {\"M\": 89}}" 'axis 0 is M = 89 in the job, found 90'
refused "{$product, \"autotune\": {\"D\": 64}}" '"D" is 64 here, and 32 is the extent of a tensor'
refused "{$product, \"autotune\": {\"T\": 16}}" 'no leaf with T = 16, D = 32 is embedded; there are: T = 8, D = 32 (phobosc -D leaf.NAME=N and --variants=N embed others)'
refused "{\"kernel\": \"ones\", \"dims\": {\"M\": 1000000, \"N\": 1000000}, \"tensors\": {\"C\": {\"uri\": \"C.bin\"}}}" \
    '1000000 x 1000000 x 1 = 1000000000000 super-tiles are more than 68719476736'
refused "{\"kernel\": \"ones\", \"dims\": {\"M\": 3000000000, \"N\": 1}, \"tensors\": {\"C\": {\"uri\": \"C.bin\"}}}" \
    "TY = 1 cuts 'M' = 3000000000 into 3000000000 super-tiles, more than 2147483647"
refused "{\"kernel\": \"ones\", \"dims\": {\"M\": 4294967296, \"N\": 4294967296}, \"tensors\": {\"C\": {\"uri\": \"C.bin\"}}}" 'takes more than 2^63 bytes'

# Need against have, of each tensor.
echo "{$product, \"cluster\": {\"T\": 24}}" >job.json
for how in "--plan --memory=9000" --budget=9000; do
    # shellcheck disable=SC2086
    ./program job.json $how >log 2>&1 && { echo "9000 bytes were enough: $how" && exit 1; }
    grep -q "one unit of work needs [0-9]* bytes for its tiles (A 3072, B 4096, edge 256, C 3072), but a pod has 9000" log || { cat log && exit 1; }
done
[ ! -e C.bin ]
./program job.json --progress=none
[ -e C.bin ]

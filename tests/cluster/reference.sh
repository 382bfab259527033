#!/bin/sh
# What went wrong in the reference implementation of the language, a case each.
#
#     reference.sh PHOBOSC CASE
set -eu
phobosc=$1 case=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "$case: $*"
    [ ! -e log ] || cat log
    exit 1
}

# floats NAME COUNT VALUE
floats() {
    perl -e 'binmode STDOUT; print pack("f<", $ARGV[1]) x $ARGV[0]' "$2" "$3" >"$1.bin"
}

# holds NAME COUNT VALUE: so many floats, each of them the value
holds() {
    perl -e 'local $/; open my $f, "<:raw", shift or die; my @found = unpack "f<*", <$f>; my ($count, $value) = @ARGV;
        exit(@found != $count || grep { $_ != $value } @found);' "$1.bin" "$2" "$3" || fail "$1 is not $2 times $3"
}

# tensor NAME SHAPE [DTYPE]
tensor() {
    printf '"%s": {"uri": "%s.bin", "dtype": "%s", "shape": [%s]}' "$1" "$1" "${3:-f32}" "$2"
}

compile() {
    cat >kernel.phb
    "$phobosc" --gpu=none kernel.phb -o program 2>log || fail "does not compile"
}

refused() {
    cat >kernel.phb
    "$phobosc" --gpu=none kernel.phb -o program 2>log && fail "compiles"
    grep -q "^kernel.phb:$1: error: .*$2" log || fail "no error at $1 that says '$2'"
}

run() {
    ./program job.json --progress=none "$@" >log 2>&1 || fail "does not run: $*"
}

# A product of ones with a last line of its own, 20 x 24 elements over chunks of 16 of 40, and another start.
product() {
    compile <<END
@cluster(T in [16], S in [16]) @autotune(T in [8], S in [8])
kernel product(A: tensor<f32>[M, K], B: tensor<f32>[K, N], bias: tensor<f32>[N], C: tensor<f32>[M, N]) {
    let row = ctx.block.y * T
    let col = ctx.block.x * T
    var acc: tile<f32>[T, T] = $1
    for k in range(0, K, S) {
        acc += dot(A[row :+ T, k :+ S], B[k :+ S, col :+ T])
    }
    C[row :+ T, col :+ T] = $2
}
END
    floats A 800 1 && floats B 960 1 && floats bias 24 3 && floats C 480 1000000
    printf '{"tensors": {%s, %s, %s, %s}}\n' "$(tensor A '20, 40')" "$(tensor B '40, 24')" "$(tensor bias 24)" "$(tensor C '20, 24')" >job.json
}

case $case in
bias_is_not_the_old_output)
    product 0.0 'acc + bias[col :+ T]'
    run --pods=2
    holds C 480 43
    ;;
initial_accumulator_counts_once)
    product 5.0 'acc'
    run --pods=2
    holds C 480 45
    product 5.0 'acc + bias[col :+ T]'
    run --pods=2
    holds C 480 48
    ;;
least_memory_is_enough)
    product 0.0 'acc + C[row :+ T, col :+ T]'
    ./program job.json --progress=none --budget=1 >log 2>&1 && fail "one byte was enough"
    run --pods=1 --budget="$(sed -n 's/.*one unit of work needs \([0-9]*\) bytes.*/\1/p' log)"
    holds C 480 1000040
    ;;
job_contradicts_autotune)
    compile <<'END'
@cluster(BR in [16]) @autotune(BR in [8], D in [32])
kernel rows(a: tensor<f32>[M, D], c: tensor<f32>[M, D]) {
    let row = ctx.block.x * BR
    c[row :+ BR, :] = a[row :+ BR, :]
}
END
    floats a 1280 1
    printf '{"dims": {"D": 64}, "tensors": {%s, %s}}\n' "$(tensor a '20, 64')" "$(tensor c '20, 64')" >job.json
    ./program job.json --progress=none >log 2>&1 && fail "it ran"
    grep -q 64 log && grep -q 32 log || fail "the message does not have both values"
    ;;
dims_and_blocks_outside_slices)
    refused 4:33 "'N' names a split axis" <<'END'
@cluster(B in [64]) @autotune(B in [16])
kernel mean(a: tensor<f32>[N], c: tensor<f32>[N]) {
    let i = ctx.block.x * B
    c[i :+ B] = a[i :+ B] / f32(N)
}
END
    refused 4:29 "depends on 'ctx.block.x' other than" <<'END'
@cluster(B in [64]) @autotune(B in [16])
kernel place(a: tensor<f32>[N], c: tensor<f32>[N]) {
    let i = ctx.block.x * B
    c[i :+ B] = a[i :+ B] * f32(i)
}
END
    ;;
offset_assigned_again)
    compile <<'END'
@cluster(B in [64]) @autotune(B in [16]) @halo(a = 1)
kernel next(a: tensor<f32>[N], c: tensor<f32>[N]) {
    let first = ctx.block.x * B
    var row = first
    row = row + 1
    c[first :+ B] = a[row :+ B]
}
END
    printf '{"tensors": {%s, %s}}\n' "$(tensor a 100)" "$(tensor c 100)" >job.json
    perl -e 'binmode STDOUT; print pack("f<*", 1, (7) x 99)' >a.bin # nobody reads the first one
    run --pods=2
    head -c 396 c.bin >most.bin
    holds most 99 7
    ;;
second_kernel_of_a_file)
    compile <<'END'
@cluster(B in [64]) @autotune(B in [16])
kernel one(c: tensor<f32>[N]) { c[ctx.block.x * B :+ B] = 1.0 }
@cluster(B in [64]) @autotune(B in [16])
kernel two(c: tensor<f32>[N]) { c[ctx.block.x * B :+ B] = 2.0 }
END
    printf '{"kernel": "two", "tensors": {%s}}\n' "$(tensor c 100)" >job.json
    run
    holds c 100 2
    ;;
f16_is_not_read_as_f32)
    compile <<'END'
@cluster(B in [64]) @autotune(B in [16])
kernel widen(a: tensor<f16>[N], c: tensor<f32>[N]) { c[ctx.block.x * B :+ B] = f32(a[ctx.block.x * B :+ B]) }
END
    perl -e 'binmode STDOUT; print pack("v", 0x4500) x 100' >a.bin
    printf '{"tensors": {%s, %s}}\n' "$(tensor a 100 f16)" "$(tensor c 100)" >job.json
    run
    holds c 100 5
    ;;
leaf_is_not_the_first_value)
    compile <<'END'
@cluster(B in [4096]) @autotune(B in [16, 256])
kernel copy(a: tensor<f32>[N], c: tensor<f32>[N]) { c[ctx.block.x * B :+ B] = a[ctx.block.x * B :+ B] }
END
    floats a 10000 6
    printf '{"tensors": {%s, %s}}\n' "$(tensor a 10000)" "$(tensor c 10000)" >job.json
    ./program --plan job.json >log 2>&1 || fail "no plan"
    grep -q 'B = 256' log || fail "the leaf's tile is not the largest"
    run
    holds c 10000 6
    ;;
*)
    fail "no such case"
    ;;
esac

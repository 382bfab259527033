#!/bin/sh
# A cluster loop whose bound is 0, or less, has no turn: what comes before and after it runs, and what it alone stores stays as it was.
#
#     no_turns.sh PHOBOSC
set -eu
phobosc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >turns.phb <<'END'
@cluster(BR in [16], BC in [32]) @autotune(BR in [8], BC in [16]) @halo(x = [0, SKIP])
kernel turns(x: tensor<i32>[M, N], y: tensor<i32>[M, 1], z: tensor<i32>[M, 2], s: tensor<i32>[M, 1], skip: tensor<i32>[SKIP]) {
    let row = ctx.block.x * BR
    var head: tile<i32>[BR, 1]
    var total: tile<i32>[BR, 1]
    for t in range(0, N - SKIP, BC) {
        total += rowsum(x[row :+ BR, t :+ BC])
        z[row :+ BR, :] = 7
        head += x[row :+ BR, t]
    }
    y[row :+ BR, :] = total + skip[0] + 2
    s[row :+ BR, :] = head
}
END
"$phobosc" --gpu=none turns.phb -o cluster
"$phobosc" --gpu=none turns.phb --no-cluster -o plain
perl -e 'srand(5); binmode STDOUT; print pack("l<", rand(100)) for 1 .. 20 * 50' >x.bin
perl -e 'binmode STDOUT; print pack("l<", $_) for 1 .. 40' >before.bin
for skip in 5 50 57; do
    perl -e 'binmode STDOUT; print pack("l<*", (3) x $ARGV[0])' $skip >skip.bin
    printf '{"tensors": {"x": {"uri": "x.bin", "dtype": "i32", "shape": [20, 50]}, "y": {"uri": "y.bin", "dtype": "i32", "shape": [20, 1]},
        "z": {"uri": "z.bin", "dtype": "i32", "shape": [20, 2]}, "s": {"uri": "s.bin", "dtype": "i32", "shape": [20, 1]},
        "skip": {"uri": "skip.bin", "dtype": "i32", "shape": [%s]}}}\n' $skip >job.json
    for program in plain cluster; do
        rm -f y.bin s.bin
        cp before.bin z.bin
        ./$program job.json --pods=2 --progress=none >log 2>&1 || { cat log && echo "$program failed with SKIP = $skip" && exit 1; }
        cat y.bin s.bin z.bin >$program.out
    done
    cmp plain.out cluster.out
    [ $skip -lt 50 ] || cmp z.bin before.bin
    rm y.bin s.bin
    cp before.bin z.bin
    ./cluster job.json --split-k=2 --pods=2 --progress=none >log 2>&1 || { cat log && echo "--split-k=2 failed with SKIP = $skip" && exit 1; }
    cat y.bin s.bin z.bin | cmp plain.out -
    ./cluster --plan job.json --nodes=2 >/dev/null
    ./cluster --plan job.json --split-k=2 >plan
    grep -q 'level' plan && are=there || are=none
    [ $are = "$([ $skip -lt 50 ] && echo there || echo none)" ] || { cat plan && echo "partial sums with SKIP = $skip: $are" && exit 1; }
done

#!/bin/sh
# A stencil whose halo is 2 rows and 1 column wide, under random super-tiles, pods, placements and budgets: the bits of the kernel built without the
# second reading each time, or a refusal where a halo is wider than the last super-tile.
#
#     random_splits.sh PHOBOSC COUNT
set -eu
phobosc=$1 count=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >star.phb <<'END'
@cluster(BY in [16], BX in [16])
@autotune(BY in [4], BX in [8])
@halo(u = [2, 1])
kernel star(u: tensor<f32>[N, M], w: tensor<f32>[N, M]) {
    let y = ctx.block.y * BY
    let x = ctx.block.x * BX
    let beside = u[y - 2 :+ BY, x :+ BX] + u[y + 2 :+ BY, x :+ BX] + u[y :+ BY, x - 1 :+ BX] + u[y :+ BY, x + 1 :+ BX]
    w[y :+ BY, x :+ BX] = 0.5 * u[y :+ BY, x :+ BX] + 0.125 * beside
}
END
"$phobosc" star.phb --gpu=none -o cluster
"$phobosc" star.phb --gpu=none --no-cluster -o plain

# The widest super-tiles cover the plate; the last one is often narrower than the halo.
perl -e '
    srand(11);
    open my $u, ">:raw", "u.bin" or die;
    print $u pack("f<", rand(100)) for 1 .. 61 * 83;
    close $u;
    for my $i (1 .. shift) {
        my ($by, $bx) = (4 * (1 + int rand 16), 8 * (1 + int rand 12));
        my $last = $by >= 61 ? 61 : (61 - 1) % $by + 1;
        my ($pods, $placement, $slack) = (1 + int rand 4, rand() < 0.5 ? "block" : "round-robin", 1 + int rand 3);
        printf "%d %d %s %d %s %d\n", $by, $bx, $by < 61 && $last < 2 ? "refused" : "runs", $pods, $placement, $slack;
    }' "$count" >splits

# job FILE BY BX
job() {
    printf '{"tensors": {"u": {"uri": "u.bin", "dtype": "f32", "shape": [61, 83]}, "w": {"uri": "w.bin", "dtype": "f32", "shape": [61, 83]}}%s}\n' "$2" >"$1"
}

job plain.json ""
./plain plain.json --progress=none >log
mv w.bin reference
ran=0 refused=0
while read -r by bx expected pods placement slack; do
    job job.json ", \"cluster\": {\"BY\": $by, \"BX\": $bx}"
    if [ "$expected" = refused ]; then
        ./cluster job.json --progress=none >log 2>&1 && { echo "$by x $bx: a halo wider than the last super-tile was taken" && exit 1; }
        grep -q 'is wider than the smallest super-tile' log
        refused=$((refused + 1))
        continue
    fi
    ./cluster job.json --budget=1 --progress=none >log 2>&1 && exit 1
    least=$(sed -n 's/.*one unit of work needs \([0-9]*\) bytes.*/\1/p' log)
    ./cluster job.json --pods="$pods" --placement="$placement" --budget=$((slack * least)) --progress=none >log 2>&1 || { cat log && exit 1; }
    cmp -s reference w.bin || { echo "$by x $bx, $pods pods, $placement, $slack times the least budget: other bits" && exit 1; }
    rm w.bin
    ran=$((ran + 1))
done <splits
echo "$ran splits have the same bits, $refused were refused"
[ "$ran" -gt $((count / 2)) ] && [ "$refused" -gt 0 ]

#!/bin/sh
# --split-k: the sums of parts of K, each by the kernel built without the second reading, added in the tree that the number of parts gives, are the bits of
# every plan: super-tiles, pods, placements, budgets, devices, a scheduler with its pods. And what cannot be divided.
#
#     split_k.sh PHOBOSC SAMPLES
set -eu
phobosc=$1 samples=$2
. "$(dirname "$0")/../tools/processes.sh"
export M=40 N=50 K=180 LEAF=16

# The first sum waits in the output itself, the second one in a state; the third kernel begins with a bias.
cat >product.phb <<'END'
@cluster(TM in [64], TN in [64], TK in [64]) @autotune(TM in [16], TN in [16], TK in [16])
kernel product(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {
    let row = ctx.block.y * TM
    let col = ctx.block.x * TN
    var acc: tile<f32>[TM, TN]
    for k in range(0, K, TK) {
        acc += dot(A[row :+ TM, k :+ TK], B[k :+ TK, col :+ TN])
    }
    C[row :+ TM, col :+ TN] = acc
}

@cluster(TM in [64], TN in [64], TK in [64]) @autotune(TM in [16], TN in [16], TK in [16])
kernel scaled(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {
    let row = ctx.block.y * TM
    let col = ctx.block.x * TN
    var acc: tile<f32>[TM, TN]
    for k in range(0, K, TK) {
        acc += dot(A[row :+ TM, k :+ TK], B[k :+ TK, col :+ TN])
    }
    C[row :+ TM, col :+ TN] = 3.0 * acc
}

@cluster(TM in [64], TN in [64], TK in [64]) @autotune(TM in [16], TN in [16], TK in [16])
kernel biased(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {
    let row = ctx.block.y * TM
    let col = ctx.block.x * TN
    var acc: tile<f32>[TM, TN] = 0.5
    for k in range(0, K, TK) {
        acc += dot(A[row :+ TM, k :+ TK], B[k :+ TK, col :+ TN])
    }
    C[row :+ TM, col :+ TN] = acc
}

// A sum a thread.
@cluster(TM in [64], TK in [64]) @autotune(TM in [32], TK in [16]) @launch(32) @grid(ceildiv(M, TM))
kernel sums(A: tensor<f32>[M, K], C: tensor<f32>[M]) {
    let row = ctx.block.x * TM
    var total: f32 = 0.0
    for k in range(0, K, TK) {
        for i in range(0, TK) {
            total += A[row + ctx.thread.x, k + i]
        }
    }
    C[row + ctx.thread.x] = total
}
END
"$phobosc" --gpu=none --simt product.phb -o cluster
"$phobosc" --gpu=none --no-cluster product.phb -o plain
perl -e 'srand(7); binmode STDOUT; print pack("f<", rand(2) - 1) for 1 .. $ENV{M} * $ENV{K}' >A.bin
perl -e 'srand(8); binmode STDOUT; print pack("f<", rand(2) - 1) for 1 .. $ENV{K} * $ENV{N}' >B.bin

# job KERNEL A-FILE B-FILE K CLUSTER
job() {
    b=", \"B\": {\"uri\": \"$3\", \"dtype\": \"f32\", \"shape\": [$4, $N]}" c="[$M, $N]"
    [ "$1" != sums ] || b='' c="[$M]"
    printf '{"kernel": "%s", "tensors": {"A": {"uri": "%s", "dtype": "f32", "shape": [%s, %s]}%s,
        "C": {"uri": "C.bin", "dtype": "f32", "shape": %s}}%s}\n' "$1" "$2" "$M" "$4" "$b" "$c" "$5"
}

# expect KERNEL PARTS: to `expected`
expect() {
    part=0 files=
    while [ $part -lt "$2" ]; do
        PART=$part PARTS=$2 perl -e '
            my ($steps, $parts, $p) = (int(($ENV{K} + $ENV{LEAF} - 1) / $ENV{LEAF}), $ENV{PARTS}, $ENV{PART});
            my $first = sub { my $longer = $steps % $parts; $_[0] * int($steps / $parts) + ($_[0] < $longer ? $_[0] : $longer) };
            my ($from, $to) = map { my $end = $ENV{LEAF} * $first->($_); $end < $ENV{K} ? $end : $ENV{K} } $p, $p + 1;
            my $read = sub { local (@ARGV, $/) = @_; binmode ARGV; <> };
            my ($a, $b) = ($read->("A.bin"), $read->("B.bin"));
            open my $out, ">:raw", "a.bin"; print $out map { substr $a, 4 * ($_ * $ENV{K} + $from), 4 * ($to - $from) } 0 .. $ENV{M} - 1; close $out;
            open $out, ">:raw", "b.bin"; print $out substr $b, 4 * $from * $ENV{N}, 4 * ($to - $from) * $ENV{N}; close $out;
            print $to - $from;' >width
        [ "$1" = sums ] && of=sums || of=product
        job $of a.bin b.bin "$(cat width)" '' >part.json
        rm -f C.bin
        ./plain part.json --progress=none >log 2>&1 || { cat log && exit 1; }
        mv C.bin part$part
        files="$files part$part" part=$((part + 1))
    done
    SCALE=$([ "$1" != scaled ] || echo 3) perl -e '
        my $add = sub { my ($a, $b) = map { [unpack "f<*", $_] } @_; pack "f<*", map { $a->[$_] + $b->[$_] } 0 .. $#$a };
        my @stack;
        for my $p (0 .. $#ARGV) {
            my $sum = do { open my $in, "<:raw", $ARGV[$p]; local $/; <$in> };
            push @stack, $sum;
            for (my $bits = $p; @stack > 1 && ($bits & 1 || $p == $#ARGV); $bits >>= 1) { my $top = pop @stack; $stack[-1] = $add->($stack[-1], $top) }
        }
        print $ENV{SCALE} ? pack "f<*", map { $ENV{SCALE} * $_ } unpack "f<*", $stack[0] : $stack[0];' $files >expected
}

# run OPTIONS...
run() {
    rm -f C.bin
    ./cluster job.json --progress=none "$@" >log 2>&1 || { cat log && echo "failed: $kernel $*" && exit 1; }
    cmp C.bin expected || { echo "$kernel: other bits: $(cat job.json) $*" && exit 1; }
}

for kernel in product scaled sums; do
    tn=', "TN": 32' wide=', "TN": 64'
    [ $kernel != sums ] || tn='' wide=''
    case $kernel in product) some='2 3 4 7 12' ;; scaled) some=5 ;; sums) some='3 12' ;; esac
    for parts in $some; do
        expect $kernel $parts
        job $kernel A.bin B.bin $K ", \"cluster\": {\"TM\": 32$tn, \"TK\": 32}" >job.json
        ./cluster job.json --split-k=$parts --budget=1 >log 2>&1 && { echo "a budget of one byte was enough" && exit 1; }
        least=$(sed -n 's/.*one unit of work needs \([0-9]*\) bytes.*/\1/p' log)
        run --split-k=$parts --pods=2 "--budget=$((2 * least))"
        job $kernel A.bin B.bin $K ", \"cluster\": {\"TM\": 64$wide, \"TK\": 48}" >job.json
        run --split-k=$parts --pods=1
        job $kernel A.bin B.bin $K ", \"cluster\": {\"TM\": 32$wide, \"TK\": 256}" >job.json
        run --split-k=$parts --pods=3 --placement=block
    done
done
run --split-k=12 --device=simt --pods=2
kernel=product
expect product 7
job product A.bin B.bin $K ', "cluster": {"TM": 32, "TN": 32, "TK": 32}' >job.json
run --split-k=7 --selfcheck --pods=2
grep -q 'the same bits' log
run --split-k=7 --device=simt

# A scheduler and two pods: they learn the number of parts from it.
rm -f C.bin
./cluster --role=sched job.json --split-k=7 --nodes=2 --listen=$listen --progress=none >sched.log 2>&1 &
scheduler=$!
for name in one two; do ./cluster --role=pod --sched=$listen --node-name=$name >$name.log 2>&1 & done
wait $scheduler || { cat sched.log && exit 1; }
wait
cmp C.bin expected

# What a plan says of it.
./cluster --plan job.json --split-k=7 --nodes=2 >plan
grep -q '^stage 1: .* in 7 parts:.*; partial sums are added in a tree$' plan
grep -q '^state:       partial sums of the sum in .C. (level 2), ' plan
./cluster --plan job.json --split-k=7 --format=json >plan.json
perl -MJSON::PP -e '
    my $plan = decode_json(do { local $/; <> });
    my %kinds;
    $kinds{$_->{kind}}++ for grep { $_->{op} eq "COMPUTE" } @{$plan->{instructions}};
    my $units = $plan->{super_tiles};
    die "split_k\n" unless $plan->{split_k} == 7;
    die "$kinds{clear} and $kinds{merge} of 6 a unit\n" unless $kinds{clear} == 6 * $units && $kinds{merge} == 6 * $units;' plan.json
./cluster --plan job.json --split-k=2 --format=dot | grep -q 'its sum is added'

# refused KERNEL PARTS TEXT
refused() {
    ./cluster --check job.json "--split-k=$2" >log 2>&1 && { echo "$1: --split-k=$2 was not refused" && exit 1; }
    grep -q -- "$3" log || { cat log && echo "$1: expected $3" && exit 1; }
}
refused product 13 "are more parts than 'K' = 180 has steps of TK = 16, which are 12"
job biased A.bin B.bin $K '' >job.json
refused biased 2 "cannot divide the cluster loop to 'K': the sum in 'C' does not start at 0"
"$phobosc" --gpu=none "$samples/flash_attention/streamed.phb" -D D=32 -o cluster
perl -e 'print pack("f<", 0.5) x (2 * 64 * 32)' >Q.bin
for name in Q K V O; do printf '"%s": {"uri": "Q.bin", "dtype": "f32", "shape": [2, 64, 32]}\n' $name; done | paste -sd, | sed 's/Q.bin\(", "dtype": "f32", "shape": \[2, 64, 32\]}\)$/O.bin\1/' >tensors
printf '{"kernel": "attention", "scalars": {"scale": 1}, "tensors": {%s}}\n' "$(cat tensors)" >job.json
refused attention 2 "cannot divide the cluster loop to 'T': state 0 (line [0-9]*) is no sum"
"$phobosc" --gpu=none "$samples/add/add.phb" -o cluster
printf '{"tensors": {"a": {"uri": "Q.bin", "dtype": "f32", "shape": [64]}, "b": {"uri": "Q.bin", "dtype": "f32", "shape": [64]}, "c": {"uri": "O.bin"}}}\n' >job.json
perl -e 'print pack("f<", 0.5) x 64' >Q.bin
refused add 2 "it has no such loop"

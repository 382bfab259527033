#!/bin/sh
# Stencils of rank 1 to 3 with random radii, tiles and ragged extents, under random super-tiles, pods, placements and budgets: the bits of the kernel
# built without the second reading each time, or a refusal where a halo is wider than the super-tiles.
#
#     random_splits.sh PHOBOSC COUNT SEED
set -eu
phobosc=$1 count=$2 seed=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Writes KERNEL.phb, and to `splits` a line for each run: KERNEL, whether it is refused, pods, placement, slack, "cluster" of the job.
cat >generate.pl <<'END'
my ($count, $seed) = @ARGV;
srand($seed);
my @letters = ("z", "y", "x");
sub pick { $_[0] + int rand($_[1] - $_[0] + 1) }
open my $splits, ">", "splits" or die;
for (my $kernel = 0; $kernel * 5 < $count; $kernel++) {
    my $rank = 1 + $kernel % 3;
    my @axes = @letters[3 - $rank .. 2];
    my @most = ([400], [70, 90], [14, 25, 40])[$rank - 1]->@*;
    my @extent = map { pick(int($_ / 3), $_) } @most;
    my @leaf = map { $_ eq "z" ? 1 : $_ eq "y" ? 2 ** pick(0, 3) : 2 ** pick(2, 4) } @axes;
    my @width = map { pick(0, 6) } @axes;
    $width[pick(0, $rank - 1)] += 1;
    # An element at so far from the own one; undefined: the tile itself.
    my $slice = sub { my @far = @_; "u[" . join(", ", map { "$axes[$_] + " . ($far[$_] // 0) . " :+ B\U$axes[$_]" } 0 .. $#axes) . "]" };
    my @reads = ($slice->(@width), $slice->(map { -$_ } @width));
    for my $k (0 .. $#axes) {
        push @reads, $slice->(map { $_ == $k ? pick(-$width[$k], $width[$k]) : 0 } 0 .. $#axes);
    }
    my $set = sub { join(", ", map { "B\U$axes[$_]\E in [$_[$_]]" } 0 .. $#axes) };
    my $dims = join(", ", map { "\U$_" } @axes);
    open my $text, ">", "$kernel.phb" or die;
    print $text "\@cluster(", $set->(@leaf), ")\n\@autotune(", $set->(@leaf), ")\n\@halo(u = [", join(", ", @width), "])\n",
        "kernel star(u: tensor<f32>[$dims], w: tensor<f32>[$dims]) {\n",
        (map { "    let $_ = ctx.block.$_ * B\U$_\E\n" } @axes),
        "    w[", join(", ", map { "$_ :+ B\U$_" } @axes), "] = ", join(" + ", map { "0.25 * $_" } @reads), "\n}\n";
    close $text;
    my $elements = 1;
    $elements *= $_ for @extent;
    open my $u, ">:raw", "$kernel.bin" or die;
    print $u pack("f<", rand 100) for 1 .. $elements;
    close $u;
    open my $job, ">", "$kernel.tensors" or die;
    print $job join(", ", map { "\"$_->[0]\": {\"uri\": \"$_->[1]\", \"dtype\": \"f32\", \"shape\": [" . join(", ", @extent) . "]}" } ["u", "$kernel.bin"], ["w", "w.bin"]);
    close $job;
    for my $run (1 .. ($count - $kernel * 5 < 5 ? $count - $kernel * 5 : 5)) {
        my @super = map { $leaf[$_] * pick(1, 1 + int($extent[$_] / $leaf[$_])) } 0 .. $#axes;
        my $refused = grep { $super[$_] < $extent[$_] && $width[$_] > $super[$_] } 0 .. $#axes;
        print $splits join(" ", $kernel, $refused ? "refused" : "runs", pick(1, 4), rand() < 0.5 ? "block" : "round-robin", pick(1, 3),
            join(", ", map { "\"B\U$axes[$_]\E\": $super[$_]" } 0 .. $#axes)), "\n";
    }
}
END
perl generate.pl "$count" "$seed"

# Both programs of a kernel, and the reference.
build() {
    "$phobosc" "$1.phb" --gpu=none --cpu=x86-64-v3 -o cluster
    "$phobosc" "$1.phb" --gpu=none --cpu=x86-64-v3 --no-cluster -o plain
    printf '{"tensors": {%s}}\n' "$(cat "$1.tensors")" >plain.json
    ./plain plain.json --progress=none >log
    mv w.bin reference
}

built='' ran=0 refused=0
while read -r kernel expected pods placement slack split; do
    [ "$built" = "$kernel" ] || build "$kernel"
    built=$kernel
    printf '{"tensors": {%s}, "cluster": {%s}}\n' "$(cat "$kernel.tensors")" "$split" >job.json
    what="seed $seed, kernel $kernel with {$split}"
    if [ "$expected" = refused ]; then
        ./cluster job.json --progress=none >log 2>&1 && { echo "$what: a halo wider than the super-tiles was taken" && exit 1; }
        grep -q 'is wider than the super-tiles' log || { echo "$what" && cat log && exit 1; }
        refused=$((refused + 1))
        continue
    fi
    ./cluster job.json --budget=1 --progress=none >log 2>&1 && { echo "$what: one byte was enough" && exit 1; }
    least=$(sed -n 's/.*one unit of work needs \([0-9]*\) bytes.*/\1/p' log)
    [ -n "$least" ] || { echo "$what, with --budget=1, does not say what it needs:" && cat log && exit 1; }
    ./cluster job.json --pods="$pods" --placement="$placement" --budget=$((slack * least)) --progress=none >log 2>&1 || { echo "$what" && cat log && exit 1; }
    cmp -s reference w.bin || { echo "$what, $pods pods, $placement, $slack times the least budget: other bits" && exit 1; }
    rm w.bin
    ran=$((ran + 1))
done <splits
echo "$ran splits have the same bits, $refused were refused"
[ "$ran" -gt $((count / 2)) ] && { [ "$count" -lt 100 ] || [ "$refused" -gt 0 ]; }

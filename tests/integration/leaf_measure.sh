#!/bin/sh
# --leaf=measure: every leaf that the job admits is run and compared, the choice is kept and found again, and neither a damaged nor a missing cache matters.
#
#   tests/integration/leaf_measure.sh PHOBOSC FAKE_CUDA
set -u
phobosc=$1 fake=$2
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
failed=0

fail() {
    failed=$((failed + 1))
    echo "$1" >&2
}

# @aligned decides T at launch, so that the CPU's code holds every value of it.
cat >rows.phb <<'END'
@autotune(T in [16, 32, 64])
@aligned(N = T)
@grid(M)
kernel rows(x: tensor<f32>[M, N], y: tensor<f32>[M, N], s: tensor<f32>[M]) {
    var sums: tile<f32>[1, 1]
    let row = ctx.block.x
    for j in range(0, N, T) {
        let t = x[row :+ 1, j :+ T]
        y[row :+ 1, j :+ T] = y[row :+ 1, j :+ T] + exp(t)
        sums += rowsum(t)
    }
    s[row :+ 1] = sums
}
END
"$phobosc" --gpu=sm_80 rows.phb -o rows || exit 1
cat >job.json <<'END'
{ "dims": { "M": 37, "N": 192 }, "tensors": { "x": "x.bin", "y": "y.bin", "s": "s.bin" } }
END
head -c $((37 * 192 * 4)) /dev/zero | tr '\0' '\075' >x.bin # each element 0.046
cp x.bin old.bin

# runs TEXT ARGUMENTS...: the same numbers each time, and TEXT on stderr; nothing where it is empty.
runs() {
    text=$1
    shift
    cp old.bin y.bin
    ./rows job.json --device=cpu --progress=none "$@" >out 2>said || fail "$*: $(cat said)"
    [ -n "$text" ] || [ ! -s said ] || fail "$*: said '$(cat said)'"
    grep -qE -- "$text" said || [ -z "$text" ] || fail "$*: said '$(cat said)', expected '$text'"
    [ -e first.bin ] || cp y.bin first.bin
    cmp -s y.bin first.bin || fail "$*: other numbers"
}

runs '' --leaf=first
runs 'rows: leaf T = (16|32|64), the fastest of 3 on cpu' --leaf=measure --threads=1
[ "$(ls cache/phobos | wc -l)" = 1 ] || fail "kept: $(ls -R cache)"
runs 'as measured before on cpu' --leaf=measure --threads=1
runs 'the fastest of 3 on cpu' --leaf=measure --threads=2 # another device
entry=$(ls cache/phobos/* | head -1)

# A damaged entry is not there: it is measured anew and kept again.
for damage in '' 'phobos leaf 1' 'nonsense' "$(head -2 "$entry")"; do
    for file in cache/phobos/*; do printf '%s' "$damage" >"$file"; done
    runs 'the fastest of 3 on cpu' --leaf=measure --threads=1
    runs 'as measured before on cpu' --leaf=measure --threads=1
done
for file in cache/phobos/*; do sed -i '3s/.*/7000/' "$file"; done
runs 'the fastest of 3 on cpu' --leaf=measure --threads=1

# A cache that cannot be written.
rm -rf cache
: >cache
runs 'what was measured is not kept: cannot write' --leaf=measure --threads=1 --log=info
rm cache
XDG_CACHE_HOME='' HOME='' runs 'neither XDG_CACHE_HOME nor HOME' --leaf=measure --threads=1 --log=info

# What the job fixes leaves nothing to measure.
sed 's/{ "dims"/{ "autotune": { "T": 32 }, "dims"/' job.json >fixed.json
cp job.json kept.json
cp fixed.json job.json
runs '' --leaf=measure
cp kept.json job.json

# On a card whose leaves do nothing all of them are the same; one that cannot be loaded is left out.
export FAKE_CUDA_IDLE=1 LD_LIBRARY_PATH="$fake/whole"
cp old.bin y.bin
./rows job.json --device=cuda:0 --leaf=measure --progress=none >out 2>said || fail "on a card: $(cat said)"
grep -qE 'rows: leaf T = [0-9]+, the fastest of 3 on cuda:0 Fake Card' said || fail "on a card: $(cat said)"
rm -rf cache
FAKE_CUDA_FAIL=cuModuleLoadDataEx=218@2 ./rows job.json --device=cuda:0 --leaf=measure --progress=none --log=info >out 2>said
grep -qF 'cannot be measured' said || fail "a leaf that does not load: $(cat said)"

[ $failed = 0 ]

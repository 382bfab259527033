#!/bin/sh
# The pictures that samples and plans draw, anew: kernels are compiled and run, what they store is drawn. Graphviz's dot draws the plan.
#
#   make.sh BIN SAMPLES FOLDER
set -eu
PATH=$1:$PATH
samples=$(cd "$2" && pwd)
folder=$(cd "$3" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# run SAMPLE JOB...: a job of a sample, on two pods.
run() {
    [ -x "$1" ] || phobosc --gpu=none "$samples/$1/$1.phb" -o "$1"
    echo "$2" >job.json
    "./$1" job.json --pods=2 --progress=none >/dev/null
}

run mandelbrot '{ "dims": { "H": 240, "W": 301 }, "scalars": { "left": -2.2, "top": -1.2, "step": 0.01, "limit": 60 }, "tensors": { "count": "count.npy" } }'
phobos-tensor draw count.npy -o "$folder/mandelbrot.png"

phobos-tensor convert count.npy "a.npy:f32[240,301]"
run sobel '{ "tensors": { "a": "a.npy", "edges": "edges.npy" }, "cluster": { "TY": 64, "TX": 128 } }'
phobos-tensor draw edges.npy -o "$folder/sobel.png"

run transpose '{ "tensors": { "A": "a.npy", "B": "b.npy" } }'
phobos-tensor draw b.npy -o "$folder/transpose.png"

phobosc --gpu=none "$samples/gemm/gemm.phb" -o gemm
for name in A B C; do phobos-tensor create "$name.npy:f16[512,512]"; done
echo '{ "kernel": "gemm_f16", "tensors": { "A": "A.npy", "B": "B.npy", "C": "C.npy" }, "cluster": { "TM": 256, "TN": 256 } }' >job.json
if command -v dot >/dev/null; then
    ./gemm --plan job.json --nodes=2 --format=dot | dot -Tsvg >"$folder/plan.svg"
else
    echo "there is no dot: plan.svg is as it was" >&2
fi

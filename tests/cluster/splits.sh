#!/bin/sh
# One kernel, read at two levels: whatever the super-tiles, pods, placement and budget, the outputs have the bits of the same kernel built with --no-cluster.
#
#     splits.sh PHOBOSC SAMPLES KERNEL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
phobosc=$1 samples=$2 kernel=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# floats FILE COUNT LOW HIGH
floats() {
    perl -e 'my ($count, $low, $high) = @ARGV; srand(7); binmode STDOUT; print pack("f<", $low + rand() * ($high - $low)) for 1 .. $count;' "$2" "$3" "$4" >"$1.bin"
}

# tensor NAME SHAPE: an entry of the job's tensors
tensor() {
    printf '"%s": {"uri": "%s.bin", "dtype": "f32", "shape": [%s]}' "$1" "$1" "$2"
}

# What each kernel computes on, ragged everywhere, the leaf's tiles, and the super-tiles that are tried.
source=$samples/$kernel/$kernel.phb scalars= job_kernel=
case $kernel in
matmul)
    leaf='TILE_M=16 TILE_N=16 TILE_K=16'
    output=C scalars='"alpha": 1.5, "beta": 0.25'
    floats A $((150 * 173)) -1 1 && floats B $((173 * 201)) -1 1 && floats C $((150 * 201)) -1 1
    tensors="$(tensor A '150, 173'), $(tensor B '173, 201'), $(tensor C '150, 201')"
    splits='"TILE_M": 64, "TILE_N": 64, "TILE_K": 64
"TILE_M": 32, "TILE_N": 112, "TILE_K": 16
"TILE_M": 256, "TILE_N": 48, "TILE_K": 96'
    ;;
attention | attention_causal)
    source=$samples/flash_attention/streamed.phb leaf='BR=16 BC=16' job_kernel="\"kernel\": \"$kernel\", "
    output=O scalars='"scale": 0.17'
    floats Q $((3 * 150 * 32)) -2 2 && floats K $((3 * 130 * 32)) -2 2 && floats V $((3 * 130 * 32)) -1 1
    tensors="$(tensor Q '3, 150, 32'), $(tensor K '3, 130, 32'), $(tensor V '3, 130, 32'), $(tensor O '3, 150, 32')"
    splits='"BH": 1, "BR": 64, "BC": 32
"BH": 2, "BR": 48, "BC": 144
"BH": 3, "BR": 16, "BC": 16'
    ;;
kda)
    leaf=BT=16
    output=o
    for input in q k v; do floats $input $((5 * 110 * 32)) -1 1; done
    floats g $((5 * 110 * 32)) -0.2 0
    tensors="$(tensor q '5, 110, 32'), $(tensor k '5, 110, 32'), $(tensor g '5, 110, 32'), $(tensor v '5, 110, 32'), $(tensor o '5, 110, 32')"
    splits='"BH": 1, "BT": 32
"BH": 2, "BT": 16
"BH": 3, "BT": 112'
    ;;
stencil | clamped)
    [ $kernel = stencil ] || source=$here/clamped.phb
    leaf='BY=8 BX=16'
    output=w
    floats u $((133 * 150)) 0 100
    tensors="$(tensor u '133, 150'), $(tensor w '133, 150')"
    splits='"BY": 32, "BX": 32
"BY": 8, "BX": 64
"BY": 136, "BX": 16'
    ;;
chunks)
    source=$here/chunks.phb leaf='BR=8 BC=16'
    output=y
    floats x $((70 * 90)) -3 3
    tensors="$(tensor x '70, 90'), $(tensor y '70, 90'), $(tensor count '70, 1')"
    splits='"BR": 16, "BC": 32
"BR": 64, "BC": 16
"BR": 24, "BC": 96'
    ;;
conv1d)
    leaf=BLOCK=32
    output=y
    floats x 1007 -1 1 && floats w 5 -1 1
    tensors="$(tensor x 1007), $(tensor w 5), $(tensor y 1003)"
    splits='"BLOCK": 64
"BLOCK": 96
"BLOCK": 1024'
    ;;
esac
[ ! -e "$output.bin" ] || cp "$output.bin" before

leaf=$(printf -- ' -D leaf.%s' $leaf)
# shellcheck disable=SC2086 # the leaf's tiles are words
{
    "$phobosc" --gpu=none $leaf "$source" -o cluster
    "$phobosc" --gpu=none $leaf "$source" --no-cluster -o plain
}
printf '{%s"scalars": {%s}, "tensors": {%s}}\n' "$job_kernel" "$scalars" "$tensors" >plain.json

# run NAME PROGRAM JOB OPTIONS: from the first contents to NAME
run() {
    name=$1 && shift
    rm -f "$output.bin"
    [ ! -e before ] || cp before "$output.bin"
    "$@" --progress=none >log 2>&1 || {
        cat log
        echo "$kernel: failed: $*"
        exit 1
    }
    cp "$output.bin" "$name"
}

run reference ./plain plain.json
number=0
printf '%s\n' "$splits" | while IFS= read -r split; do
    printf '{%s"scalars": {%s}, "tensors": {%s}, "cluster": {%s}}\n' "$job_kernel" "$scalars" "$tensors" "$split" >job.json
    ./cluster job.json --budget=1 --progress=none >log 2>&1 && { echo "$kernel: a budget of one byte was enough" && exit 1; }
    least=$(sed -n 's/.*one unit of work needs \([0-9]*\) bytes.*/\1/p' log)
    for options in "--pods=1 --budget=$least" "--pods=2 --placement=block --budget=$((2 * least))" "--pods=3" "--pods=4 --placement=block --budget=$least"; do
        # shellcheck disable=SC2086
        run result ./cluster job.json $options
        cmp reference result || {
            echo "$kernel: other bits with {$split} $options"
            exit 1
        }
        number=$((number + 1))
    done
    ./cluster job.json --budget=$((least - 1)) --progress=none >log 2>&1 && { echo "$kernel: $((least - 1)) bytes were enough" && exit 1; }
    grep -q 'but a pod has' log
    run result ./cluster job.json --pods=2 --selfcheck
    grep -q 'the same bits' log
    cmp reference result
done

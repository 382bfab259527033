#!/bin/sh
# Thread code with cluster loops: on the CPU and in the simulator, by one pod and by two, with any super-tiles, the bits of the kernel built with --no-cluster.
#
#     threads.sh PHOBOSC KERNELS.phb
set -eu
phobosc=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

perl -e 'srand(7); binmode STDOUT; print pack("f<", rand(5) - 2) for 1 .. 22 * 330' >x.bin
perl -e 'srand(8); binmode STDOUT; print pack("l<", rand(1000)) for 1 .. 22 * 330' >k.bin
"$phobosc" --gpu=none --simt "$source" -o cluster
"$phobosc" --gpu=none --simt --no-cluster "$source" -o plain

# tensor NAME FILE TYPE SHAPE: an entry of the job's tensors
tensor() {
    printf '"%s": {"uri": "%s.bin", "dtype": "%s", "shape": [%s]}' "$1" "$2" "$3" "$4"
}

# run PROGRAM OPTIONS...: the outputs' bytes go to `result`
run() {
    rm -f y.bin z.bin
    "$@" --progress=none >log 2>&1 || {
        cat log
        echo "$kernel: failed: $*"
        exit 1
    }
    cat [yz].bin >result
}

# check KERNEL TENSORS SPLIT...
check() {
    kernel=$1 tensors=$2
    shift 2
    printf '{"kernel": "%s", "tensors": {%s}}\n' "$kernel" "$tensors" >job.json
    run ./plain job.json --device=cpu
    mv result reference
    for split in "$@"; do
        printf '{"kernel": "%s", "tensors": {%s}, "cluster": {%s}}\n' "$kernel" "$tensors" "$split" >job.json
        for options in "--device=cpu --pods=1" "--device=cpu --pods=2" "--device=simt --pods=2" "--device=simt --pods=1 --simt-seed=5"; do
            # shellcheck disable=SC2086
            run ./cluster job.json $options
            cmp result reference || {
                echo "$kernel: other bits with {$split} $options"
                exit 1
            }
        done
    done
}

x=$(tensor x x f32 '22, 330')
check norms "$x, $(tensor y y f32 22), $(tensor places z i32 '22, 64')" '"BR": 8, "BC": 64' '"BR": 5, "BC": 128'
check counts "$(tensor x k i32 '22, 330'), $(tensor n y i32 '22, 16'), $(tensor last z i32 '22, 64')" '"BR": 8, "BC": 64' '"BR": 5, "BC": 128'
check exchange "$x, $(tensor y y f32 '22, 32')" '"BR": 8, "BC": 32' '"BR": 4, "BC": 128'
check between "$x, $(tensor y y f32 '22, 32')" '"BR": 8, "BC": 32' '"BR": 4, "BC": 128'
check mixed "$x, $(tensor y y f32 '22, 330'), $(tensor z z f32 22)" '"BR": 8, "BC": 32' '"BR": 4, "BC": 128'
check sums "$(tensor x x f32 '330, 22'), $(tensor y y f32 330)" '"BR": 96, "BC": 8' '"BR": 32, "BC": 16'
check tail "$x, $(tensor y y f32 '22, 1')" '"BR": 8, "BC": 32'

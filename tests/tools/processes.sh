# To be sourced by scripts that run a scheduler and pods as processes, which may run beside each other: a folder of its own, where the script goes on, and two
# ports of its own, $port and the next, below those that the system gives out. What still runs at the end is ended, then what was made outside of the folder is
# taken away as $undo says; `jobs -p` would not do, which tells nothing within $( ) of a POSIX shell.

undo=:
work=$(mktemp -d)
trap 'pkill -P $$ || true; wait 2>/dev/null || true; eval "$undo"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work"
port=$((10000 + $$ % 11000 * 2))
listen=tcp://127.0.0.1:$port

fail() {
    echo "FAILED: $*" >&2
    ls -lA >&2
    for log in *.log; do
        echo "--- $log" >&2
        cat "$log" >&2
    done
    exit 1
}

# skip WHY: what the test needs is not here.
skip() {
    echo "skipped: $*"
    exit 77
}

says() {
    grep -q -e "$2" "$1" || fail "$1 does not say '$2'"
}

# wait_for FILE PATTERN: until the file says so, at most 20 seconds.
wait_for() {
    for _ in $(seq 200); do
        grep -q -e "$2" "$1" 2>/dev/null && return
        sleep 0.1
    done
    fail "$1 does not say '$2'"
}

# ends CODE PID WHO: the process ends by itself, with this code.
ends() {
    code=0
    wait "$2" || code=$?
    [ "$code" = "$1" ] || fail "$3 ended with $code, expected $1"
}

# The process that a `timeout` watches.
child() {
    pgrep -P "$1"
}

nothing_left() {
    find . -name '*.part' -o -name '*.phobos-*' | grep . && fail "left behind"
    return 0
}

# C = alpha A B + beta C in 4 x 4 super-tiles of 3 chunks, as ./EXECUTABLE, job.json and before.bin, and what one pod makes of it, expected.bin: done twice,
# it is something else. make_product EXECUTABLE
make_product() {
    "$phobosc" --gpu=none -D leaf.TILE_M=16 -D leaf.TILE_N=16 -D leaf.TILE_K=16 "$samples/matmul/matmul.phb" -o "$1"
    perl -e 'srand(3); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 250 * 180)' >A.bin
    perl -e 'srand(4); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 180 * 250)' >B.bin
    perl -e 'srand(5); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 250 * 250)' >before.bin
    printf '{"scalars": {"alpha": 1.5, "beta": 0.25}, "cluster": {"TILE_M": 64, "TILE_N": 64, "TILE_K": 64}, "tensors": {
        "A": {"uri": "A.bin", "dtype": "f32", "shape": [250, 180]}, "B": {"uri": "B.bin", "dtype": "f32", "shape": [180, 250]},
        "C": {"uri": "C.bin", "dtype": "f32", "shape": [250, 250]}}}\n' >job.json
    cp before.bin C.bin && "./$1" job.json --progress=none >local.log 2>&1 || fail "one pod failed"
    mv C.bin expected.bin
    cp before.bin C.bin
}

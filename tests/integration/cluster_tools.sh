# To be sourced by scripts that run a scheduler and pods as processes, with $phobosc, $oracle and $samples set: a folder of its own, and the sample `add`.

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work"

# Its own port, so that tests may run beside each other.
port=$((20000 + $$ % 20000))
listen=tcp://127.0.0.1:$port

fail() {
    echo "FAILED: $*" >&2
    for log in *.log; do
        echo "--- $log" >&2
        cat "$log" >&2
    done
    exit 1
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

nothing_left() {
    find . -name '*.part' -o -name '*.phobos-lock' | grep . && fail "left behind"
    return 0
}

make_job() { # UNITS of 4096 elements, the last of them ragged
    cat >job.json <<JOB
{
  "kernel": "add",
  "dims": { "N": $(($1 * 4096 - 4091)) },
  "tensors": { "a": "a.npy", "b": "b.npy", "c": "c.npy" },
  "cluster": { "BLOCK": 4096 }
}
JOB
    "$oracle" make job.json
}

sched() {
    : >sched.log
    timeout 60 ./add --role=sched job.json --listen=$listen --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
}

pod() { # NAME ...
    name=$1
    shift
    : >"$name.log"
    timeout 60 ./add --role=pod --sched=$listen --node-name="$name" --threads=1 --log=info "$@" >"$name.log" 2>&1 &
    eval "$name=\$!"
}

# The process that a `timeout` watches.
child() {
    pgrep -P "$1"
}

tiles_of() {
    sed -n "s/.*pod $1 computed \([0-9]*\).*/\1/p" sched.log
}

finished() {
    ends 0 "$sched" scheduler
    "$oracle" check job.json || fail "wrong bytes"
    nothing_left
}

"$phobosc" --gpu=none "$samples/add/add.phb" -o add

# C = alpha A B + beta C in 4 x 4 super-tiles of 3 chunks, and what it is by one pod.
make_product() {
    "$phobosc" --gpu=none -D leaf.TILE_M=16 -D leaf.TILE_N=16 -D leaf.TILE_K=16 "$samples/matmul/matmul.phb" -o add
    perl -e 'srand(3); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 250 * 180)' >A.bin
    perl -e 'srand(4); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 180 * 250)' >B.bin
    perl -e 'srand(5); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 250 * 250)' >before.bin
    printf '{"scalars": {"alpha": 1.5, "beta": 0.25}, "cluster": {"TILE_M": 64, "TILE_N": 64, "TILE_K": 64}, "tensors": {
        "A": {"uri": "A.bin", "dtype": "f32", "shape": [250, 180]}, "B": {"uri": "B.bin", "dtype": "f32", "shape": [180, 250]},
        "C": {"uri": "C.bin", "dtype": "f32", "shape": [250, 250]}}}\n' >job.json
    cp before.bin C.bin && ./add job.json --progress=none >local.log 2>&1 || fail "one pod failed"
    cp C.bin expected.bin
    oracle=same_product
}

same_product() {
    cmp C.bin expected.bin
}

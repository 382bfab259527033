#!/bin/sh
# Jobs of several steps on pods of other processes: what lives in pods travels between them, and is lost with one of them.
#
#   tests/integration/steps.sh PHOBOSC SAMPLES ORACLE_JACOBI ORACLE_POWER_ITERATION ORACLE_TWO_LAYERS
set -eu

phobosc=$1 samples=$2
shift 2
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cd "$work"
port=$((20000 + $$ % 20000))

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 ./*.log >&2
    exit 1
}

start() { # KERNEL PODS ...: the scheduler of job.json and its pods
    kernel=$1 pods=$2
    shift 2
    port=$((port + 1))
    rm -f ./*.log
    : >sched.log
    timeout 60 "./$kernel" --role=sched job.json --listen=tcp://127.0.0.1:$port --nodes="$pods" --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
    for p in $(seq "$pods"); do
        : >"p$p.log"
        timeout 60 "./$kernel" --role=pod --sched=tcp://127.0.0.1:$port --node-name="p$p" --threads=1 --memory=64M >"p$p.log" 2>&1 &
        eval "p$p=\$!"
    done
}

ends() { # CODE
    code=0
    wait "$sched" || code=$?
    [ "$code" = "$1" ] || fail "the scheduler ended with $code, expected $1"
    find . -name '*.part' -o -name '*.phobos-lock' | grep . && fail "left behind"
    return 0
}

for kernel in jacobi power_iteration two_layers; do
    oracle=$1
    shift
    "$phobosc" --gpu=none "$samples/$kernel/$kernel.phb" -o "$kernel"
    for how in "3 --placement=block" "2 --placement=round-robin"; do
        cp "$samples/$kernel/job.json" .
        "$oracle" make job.json
        # shellcheck disable=SC2086 # the number of pods, and an option
        start $kernel $how
        ends 0
        "$oracle" check job.json || fail "$kernel $how"
    done
    [ $kernel = jacobi ] && jacobi=$oracle
done
grep -q ' 0 fetched' sched.log && fail "nothing was fetched"

# One of three dies in the middle: the others begin again.
sed 's/"repeat": *10/"repeat": 50/; s/301/4001/' "$samples/jacobi/job.json" >job.json
"$jacobi" make job.json
start jacobi 3 --placement=block --deadline=1
for _ in $(seq 400); do
    grep -q 'begins with' sched.log && break
    sleep 0.05
done
kill -9 "$(pgrep -P "$p2")"
ends 0
grep -q 'begins again with 2 pods' sched.log || fail "no pod was lost"
"$jacobi" check job.json

# What does not fit the pods is refused, and the old file is as it was.
sed 's/"plate": "plate.npy"/"plate": { "uri": "plate.npy" }/' "$samples/jacobi/job.json" >job.json
"$jacobi" make job.json
cp plate.npy before.npy
start jacobi 2 --budget=200K
ends 1
grep -q 'error: what lives in the pods between steps (plate, next) takes up to [0-9]* bytes of a pod, which has 204800' sched.log || fail "no reason"
cmp plate.npy before.npy

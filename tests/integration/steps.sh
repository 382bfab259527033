#!/bin/sh
# Jobs of several steps on pods of other processes: what lives in pods travels between them, and is lost with one of them.
#
#   tests/integration/steps.sh PHOBOSC SAMPLES ORACLE_JACOBI ORACLE_POWER_ITERATION ORACLE_TWO_LAYERS
set -eu

phobosc=$1 samples=$2
shift 2
. "$(dirname "$0")/../tools/processes.sh"

start() { # KERNEL PODS ...: the scheduler of job.json and its pods
    kernel=$1 pods=$2
    shift 2
    rm -f ./*.log
    : >sched.log
    timeout 60 "./$kernel" --role=sched job.json --listen=$listen --nodes="$pods" --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
    for p in $(seq "$pods"); do
        : >"p$p.log"
        timeout 60 "./$kernel" --role=pod --sched=$listen --listen="tcp://127.0.0.$(echo "$host" | tr - "$p"):*" --node-name="p$p" --threads=1 --memory=64M --log=info \
            >"p$p.log" 2>&1 &
        eval "p$p=\$!"
    done
}

over() { # CODE
    ends "$1" "$sched" "the scheduler"
    nothing_left
}

# Pods of one host, 127.0.0.$host, read each other's memory; where each is on one of its own, what it needs travels.
for kernel in jacobi power_iteration two_layers; do
    oracle=$1
    shift
    "$phobosc" --gpu=none "$samples/$kernel/$kernel.phb" -o "$kernel"
    for how in "1 3 --placement=block" "- 3 --placement=block" "1 2 --placement=round-robin"; do
        cp "$samples/$kernel/job.json" .
        "$oracle" make job.json
        host=${how%% *}
        # shellcheck disable=SC2086 # the number of pods, and an option
        start $kernel ${how#* }
        over 0
        "$oracle" check job.json || fail "$kernel $how"
        grep -q 'moved:.* [1-9][0-9]* fetched' sched.log || fail "nothing was fetched: $kernel $how"
        near=$(cat p?.log | grep -c "reads what lives in pod p[123] from its memory") || true
        case $host:$near in 1:0 | -:[1-9]*) fail "$near times pods read each other's memory: $kernel $how" ;; esac
    done
    [ $kernel = jacobi ] && jacobi=$oracle
done
host=1

# A doctor looks at the files of all steps.
timeout 60 ./two_layers --role=doctor job.json --listen=$listen --nodes=1 >doctor.log 2>&1 &
doctor=$!
timeout 60 ./two_layers --role=pod --sched=$listen --node-name=p1 >p1.log 2>&1 &
pod=$!
ends 0 "$doctor" "the doctor"
kill "$pod"
for file in $(sed -n 's/.*"\([^"]*\.npy\)".*/\1/p' job.json); do
    grep -q "^p1: $work/$file: " doctor.log || fail "the doctor does not look at $file: $(cat doctor.log)"
done

# One of three dies in the middle: the others begin again.
sed 's/"repeat": *10/"repeat": 50/; s/301/4001/' "$samples/jacobi/job.json" >job.json
"$jacobi" make job.json
start jacobi 3 --placement=block --deadline=1
wait_for sched.log 'begins with'
kill -9 "$(child "$p2")"
over 0
grep -q 'begins again with 2 pods' sched.log || fail "no pod was lost"
"$jacobi" check job.json

# What does not fit the pods is refused, and the old file is as it was.
sed 's/"plate": "plate.npy"/"plate": { "uri": "plate.npy" }/' "$samples/jacobi/job.json" >job.json
"$jacobi" make job.json
cp plate.npy before.npy
start jacobi 2 --budget=200K
over 1
grep -q 'error: what lives in the pods between steps (plate, next) takes up to [0-9]* bytes of a pod, which has 204800' sched.log || fail "no reason"
cmp plate.npy before.npy

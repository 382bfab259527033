#!/bin/sh
# --persist: two pods and one scheduler after another. Nothing of one job stays for the next: descriptors, threads and memory are counted.
#
#   tests/integration/persist.sh PHOBOSC SAMPLES ORACLE_JACOBI
set -eu

phobosc=$1 samples=$2 oracle=$3
. "$(dirname "$0")/../tools/processes.sh"

sched() { # CODE JOB ...
    expected=$1 job=$2
    shift 2
    code=0
    timeout 60 ./jacobi --role=sched "$job" --listen="$listen" --nodes=2 --progress=none "$@" >sched.log 2>&1 || code=$?
    [ "$code" = "$expected" ] || fail "the scheduler of $job ended with $code, expected $expected"
}

# What a pod holds: descriptors, threads, and MiB of memory.
descriptors() {
    ls "/proc/$1/fd" "/proc/$1/task" | wc -l
}
memory() {
    sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$1/status"
}

"$phobosc" --gpu=none "$samples/jacobi/jacobi.phb" -o jacobi
cp "$samples/jacobi/job.json" steps.json
cat >one.json <<JOB
{ "dims": { "N": 301, "M": 203 }, "tensors": { "u": "plate.npy", "w": "w.npy" } }
JOB
for p in p1 p2; do
    ./jacobi --role=pod --sched="$listen" --node-name=$p --threads=1 --memory=64M --persist >$p.log 2>&1 &
    eval "$p=\$!"
done

# Jobs of both kinds in turn; the first ones take what is taken once.
for turn in 1 2 3 4; do
    "$oracle" make steps.json
    sched 0 one.json
    sched 0 steps.json
    "$oracle" check steps.json || fail "turn $turn"
    [ $turn -gt 1 ] || { held1=$(descriptors "$p1"); held2=$(descriptors "$p2"); memory1=$(memory "$p1"); }
done

# One that fails, and one whose scheduler is no more: pods wait for the next.
ln -s /dev/full full 2>/dev/null
sched 2 full
"$oracle" make steps.json
sed 's/"repeat": *10/"repeat": 100000/' steps.json >long.json
./jacobi --role=sched long.json --listen="$listen" --nodes=2 --progress=none --deadline=1 --log=info >sched.log 2>&1 &
sched=$!
wait_for sched.log 'begins with'
kill -9 $sched
wait $sched 2>/dev/null || true
rm -f .plate.npy.*.part plate.npy.phobos-lock
sched 0 steps.json
"$oracle" check steps.json || fail "after a lost scheduler"

for p in "$p1" "$p2"; do
    kill -0 "$p" || fail "a pod has ended"
done
[ "$(descriptors "$p1")" -le "$held1" ] || fail "p1 has $(descriptors "$p1") descriptors and threads, and had $held1"
[ "$(descriptors "$p2")" -le "$held2" ] || fail "p2 has $(descriptors "$p2") descriptors and threads, and had $held2"
[ "$(memory "$p1")" -le $((memory1 + 8192)) ] || fail "p1 has $(memory "$p1") KiB, and had $memory1"
kill "$p1" "$p2"
for p in "$p1" "$p2"; do
    code=0
    wait "$p" || code=$?
    [ $code = 0 ] || fail "a pod ended with $code when it was asked to"
done

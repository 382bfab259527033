#!/bin/sh
# --audit: tiles that another pod computes again. A byte that is wrong is found, and nothing is published; pods that are lost, resumption, and what is refused.
#
#   tests/integration/audit.sh PHOBOSC SAMPLES
set -eu

phobosc=$1 samples=$2

. "$(dirname "$0")/../tools/processes.sh"

sched() {
    : >sched.log
    timeout 60 ./run --role=sched job.json --listen=$listen --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
}

pod() { # NAME [PLACE to crash at]
    : >"$1.log"
    PHOBOS_CRASH_AT=${2:-} timeout 60 ./run --role=pod --sched=$listen --node-name="$1" --threads=1 --log=info >"$1.log" 2>&1 &
    eval "$1=\$!"
}

whole() { # LOG TILES
    says "$1" "^audit: $2 tiles were computed again by another pod: the same bits"
    cmp C.bin expected.bin || fail "wrong bytes"
    nothing_left
    cp before.bin C.bin
}

untouched() {
    cmp C.bin before.bin || fail "the output was touched"
    nothing_left
}

make_product run

# All tiles by two pods; what is wrong in one of them, whichever it is, shows.
sched --nodes=2 --audit=100%
pod p1
pod p2
ends 0 "$sched" scheduler
whole sched.log 16
for place in store:1 store:3; do
    sched --nodes=2 --audit=100% --keep-staging
    pod p1
    pod p2 $place:begin:flip
    ends 1 "$sched" "a scheduler of pods that do not agree"
    says sched.log "^error: audit: super-tile [0-9]*: pod p[12] and pod p[12] computed different bits"
    untouched
done

# One of three dies with what it stored: what others computed again instead agrees, too.
sched --nodes=3 --audit=100% --deadline=3
pod p1
pod p2 store:3:end
pod p3
ends 0 "$sched" "a scheduler that loses a pod"
says sched.log "pod p2 .*: it is given up"
whole sched.log 16

# One pod alone is not enough, until another one comes.
pod p1
wait_for p1.log "waiting for a scheduler"
sched --nodes=1 --audit=1% --join-timeout=1
ends 1 "$sched" "a scheduler of one pod"
says sched.log "^error: audit: 1 super-tiles are to be computed again by another pod, and none came for 1 s"
untouched
sched --nodes=1 --audit=50%
pod p1
wait_for sched.log "audit: [0-9]* super-tiles wait for another pod"
pod p2
ends 0 "$sched" "a scheduler to which a second pod came late"
whole sched.log "[1-9][0-9]*"

# In one process, twice the same tiles.
./run job.json --pods=2 --audit=100% --progress=none >local.log 2>&1 || fail "a local audit"
whole local.log 16
code=0
PHOBOS_CRASH_AT=store:5:begin:flip ./run job.json --pods=2 --audit=100% --progress=none >local.log 2>&1 || code=$?
[ $code = 1 ] || fail "a wrong byte in a local job: $code"
says local.log "^error: audit: super-tile [0-9]*: pod [01] and pod [01] computed different bits"
untouched
PHOBOS_CRASH_AT=store:9:end ./run job.json --resume --pods=2 --audit=30% --progress=none >local.log 2>&1 && fail "it was to crash"
./run job.json --resume --pods=2 --audit=30% --progress=none >local.log 2>&1 || fail "it does not go on"
audited=$(sed -n 's/^audit: \([0-9]*\) tiles.*/\1/p' local.log) kept=$(sed -n 's/^\([0-9]*\) of 16 tiles are kept.*/\1/p' local.log)
[ "$kept" -gt 0 ] && [ "$kept" -le $((16 - audited)) ] || fail "$kept kept, $audited audited"
whole local.log "$audited"
./run job.json --pods=3 --audit=30% --progress=none >local.log 2>&1 || fail "a local audit"
whole local.log "$audited"

# What there is nobody for, or nothing left to compute it from.
refused() { # TEXT OPTION...
    text=$1 code=0
    shift
    ./run "$@" --progress=none >local.log 2>&1 || code=$?
    [ $code = 2 ] || fail "$*: $code"
    says local.log "$text"
}
refused "error: --audit computes tiles again on another pod, and there is one" job.json --pods=1 --audit=5%
sed 's/^{"scalars": \(.*}\), "cluster"/{"steps": [{"kernel": "matmul", "scalars": \1}], "repeat": 2, "cluster"/' job.json >steps.json
refused "error: --audit: a job of several steps overwrites what it computed with" steps.json --pods=2 --audit=5%
refused "error: --audit: a job of several steps overwrites what it computed with" --role=sched steps.json --listen=$listen --audit=5%
untouched

#!/bin/sh
# What storage does to a scheduler and its pods: calls that fail, that move less than asked, files that change. A job ends well with the right bytes, or it fails,
# says which file it was, and the old output is untouched; in both cases nothing is left beside it.
#
#   tests/integration/storage.sh PHOBOSC ORACLE_ADD SAMPLES SLOW_IO CASE...
set -eu

phobosc=$1 oracle=$2 samples=$3 slow_io=$4
shift 4

. "$(dirname "$0")/../tools/processes.sh"
pods=

make_job() { # FOLDER of the output
    cat >job.json <<JOB
{
  "kernel": "add",
  "dims": { "N": 200005 },
  "tensors": { "a": "a.npy", "b": "b.npy", "c": "${1:-.}/c.npy" },
  "cluster": { "BLOCK": 4096 }
}
JOB
    "$oracle" make job.json
    printf 'old contents' >"${1:-.}/c.npy"
}

# The command that makes call CALL of what it runs fail with ERROR from the Nth time on (N+), or that time alone (N).
failing() { # CALL ERROR N
    echo "strace -f -qq -o trace.$1 -e trace=$1 -e inject=$1:error=$2:when=$3"
}

sched() { # WRAPPER OPTION...
    wrapper=$1
    shift
    : >sched.log
    # shellcheck disable=SC2086
    timeout 60 $wrapper ./add --role=sched job.json --listen=$listen --progress=none --log=info --deadline=3 "$@" >sched.log 2>&1 &
    sched=$!
}

pod() { # NAME WRAPPER
    : >"$1.log"
    # shellcheck disable=SC2086
    timeout 60 $2 ./add --role=pod --sched=$listen --node-name="$1" --threads=1 --log=info >"$1.log" 2>&1 &
    pods="$pods $!"
}

# Who waits for a scheduler that failed before it was there waits for ever.
lose_pods() {
    for pid in $pods; do
        pkill -9 -P "$pid" || true
        wait "$pid" || true
    done
    pods=
}

# How the job ends: well, or with this said and nothing touched.
ended() { # WHAT PATTERN OUTPUT
    code=0
    wait "$sched" || code=$?
    case $code in
    0) "$oracle" check job.json >/dev/null || fail "$1: wrong bytes" ;;
    1)
        says sched.log "^error: .*$2"
        [ "$(cat "$3")" = 'old contents' ] || fail "$1: the old output was touched"
        ;;
    *) fail "$1: the scheduler ended with $code" ;;
    esac
    lose_pods
    nothing_left
}

needs_strace() {
    strace -o /dev/null true 2>/dev/null || skip "strace can run nothing here"
}

"$phobosc" --gpu=none "$samples/add/add.phb" -o add

# Reads and writes that move little, or nothing because a signal came.
case_short() {
    make_job
    sched "env LD_PRELOAD=$slow_io SHORT_IO=1000" --nodes=2
    pod p1 "env LD_PRELOAD=$slow_io SHORT_IO=1000"
    pod p2 "env LD_PRELOAD=$slow_io SHORT_IO=333"
    ended "short reads and writes" "" c.npy
    [ $code = 0 ] || fail "short reads and writes are no failure"
    rm c.npy
    LD_PRELOAD=$slow_io SHORT_IO=1001 ./add job.json --resume --progress=none >local.log 2>&1 || fail "short reads and writes in one process"
    "$oracle" check job.json >/dev/null || fail "wrong bytes in one process"
}

# One of two pods has a disk that fails it.
case_pod() {
    needs_strace
    for how in "pwritev ENOSPC 1+" "pwritev EIO 5" "pwritev EDQUOT 2+" "pwritev EROFS 2+" "fdatasync EIO 1" "fdatasync ENOSPC 1+" "preadv EIO 4"; do
        make_job
        # shellcheck disable=SC2086
        pod p1 "$(failing $how)"
        sched "" --nodes=2
        pod p2 ""
        ended "a pod whose $how" "c.npy\|a.npy\|b.npy" c.npy
        says "trace.${how%% *}" INJECTED
    done
}

# The scheduler's own calls: reserving, marking, the journal, bringing it to the disk, putting it in place.
case_sched() {
    needs_strace
    for how in "fallocate EDQUOT 1" "pwrite64 ENOSPC 1" "pwrite64 EIO 3" "fdatasync EIO 1" "fdatasync ENOSPC 2" "fsync EIO 1" "rename EIO 1" "rename EROFS 1" \
        "fchmod EROFS 1" "ftruncate EIO 1" "unlink EROFS 1+"; do
        make_job
        # shellcheck disable=SC2086
        sched "$(failing $how)" --nodes=1
        pod p1 ""
        case $how in
        unlink*) # what cannot be removed is left, and the job is done all the same
            code=0
            wait "$sched" || code=$?
            [ $code = 0 ] && "$oracle" check job.json >/dev/null || fail "$how: ended with $code"
            lose_pods
            rm -f ./*.phobos-*
            ;;
        *) ended "$how" "c.npy" c.npy ;;
        esac
        says "trace.${how%% *}" INJECTED
    done
}

# A disk that is too small, and one that fills up while the job runs.
case_full() {
    [ "$(id -u)" = 0 ] || skip "mounts want root"
    mkdir small
    undo="$undo; umount '$work/small' 2>/dev/null || true"
    mount -t tmpfs -o size=600k none small 2>/dev/null || skip "no tmpfs can be mounted here"
    make_job small
    sched "" --nodes=1
    ended "a small disk" "disk full: .*small/c.npy.* needs [0-9]* bytes, .* has [0-9]*" small/c.npy
    [ $code = 1 ] || fail "a small disk took it all"
    mount -o remount,size=1m small
    sched "" --nodes=1
    for _ in $(seq 100); do
        ! ls small/.c.npy.*.part >/dev/null 2>&1 || break
        sleep 0.05
    done
    dd if=/dev/zero of=small/filler bs=4096 2>/dev/null || true
    pod p1 ""
    ended "a disk that fills up" "small/c.npy" small/c.npy
    rm small/filler
}

# An input that somebody writes to while pods read it.
case_changed() {
    for change in written shortened replaced; do
        make_job
        sched "" --nodes=1
        pod p1 "env LD_PRELOAD=$slow_io SLOW_IO_MS=20"
        for _ in $(seq 200); do
            ! grep -q "the job begins" sched.log || break
            sleep 0.05
        done
        case $change in
        written) printf x | dd of=a.npy bs=1 seek=1000 conv=notrunc 2>/dev/null ;;
        shortened) truncate -s 1000 a.npy ;;
        replaced) cp a.npy other.npy && mv other.npy a.npy ;;
        esac
        ended "an input that is $change" "a.npy.*input changed" c.npy
        [ $code = 1 ] || fail "an input that is $change is taken"
    done
}

for case in "$@"; do
    "case_$case"
done

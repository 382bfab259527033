#!/bin/sh
# Pods that die, sleep, start anew and leave in the middle of a job, which goes on and computes the same.
#
#   tests/integration/recovery.sh PHOBOSC ORACLE_ADD SAMPLES SLOW_IO CASE...
set -eu

phobosc=$1 oracle=$2 samples=$3 slow_io=$4
shift 4

. "$(dirname "$0")/cluster_tools.sh"

# A job of 300 tiles on three pods, in its midst.
in_mid_job() { # OPTIONS of the scheduler
    make_job 300
    printf old >c.npy
    sched --nodes=3 --deadline=2 "$@"
    for p in p1 p2 p3; do
        slow_pod 20 $p
    done
    wait_for sched.log "the job begins with 3 pods"
    sleep 0.5
}

recovered() {
    [ "$(sed -n 's/^recovered: \([0-9]*\) pods\{0,1\} lost.*/\1/p' sched.log)" = "$1" ] || fail "not $1 lost"
    [ $(($(tiles_of p1) + $(tiles_of p2) + $(tiles_of p3) + ${2:-0})) = 300 ] || fail "the summary does not add up"
}

case_killed() {
    in_mid_job --deadline=4
    kill -9 "$(child "$p2")"
    finished
    says sched.log "pod p2 has not been heard for 4 s: it is given up, and what it had is dealt again"
    recovered 1
    # Noticed not before the deadline, less what had passed when it died since it was heard last; and within twice the deadline, for the machine may be busy.
    # Under virtual time control_sim holds every loss to one and a half times it ("a loss was noticed late").
    noticed=$(sed -n 's/^recovered: .* noticed after \([0-9]*\).\([0-9]\) s.*/\1\2/p' sched.log)
    [ "$noticed" -ge 36 ] && [ "$noticed" -le 80 ] || fail "noticed after $noticed tenths of a second"
}

# The second one while what the first one had is done again.
case_killed_twice() {
    in_mid_job
    kill -9 "$(child "$p2")"
    wait_for sched.log "pod p2 .* is given up"
    kill -9 "$(child "$p3")"
    finished
    recovered 2
}

case_all_killed() {
    in_mid_job
    for p in $p1 $p2 $p3; do
        kill -9 "$(child "$p")"
    done
    ends 1 "$sched" scheduler
    says sched.log "error: no pod is left; the last, pod p[123], has not been heard for 2 s"
    [ "$(cat c.npy)" = old ] || fail "the old output was touched"
    nothing_left
}

# What sleeps past its deadline wakes up to find that it is given up, and writes no more, also when the job is over and its outputs are in place.
case_stopped() {
    in_mid_job
    zombie=$(child "$p2")
    staged=$(stat -c %i .c.npy.*.part)
    kill -STOP "$zombie"
    finished
    says sched.log "pod p2 has not been heard for 2 s"
    recovered 1
    before=$(stat -c '%i %Y %s' c.npy)
    kill -CONT "$zombie"
    ends 75 "$p2" p2
    [ "$(stat -c '%i %Y %s' c.npy)" = "$before" ] || fail "somebody wrote"
    [ "${before%% *}" != "$staged" ] || fail "what the zombie may write to was published"
    "$oracle" check job.json || fail "wrong bytes after all"
}

# A pod that was stopped and goes on while the job still runs is told that it is fenced.
case_fenced() {
    make_job 300
    sched --nodes=2 --deadline=2
    slow_pod 40 p1
    slow_pod 40 p2
    wait_for sched.log "the job begins with 2 pods"
    zombie=$(child "$p2")
    kill -STOP "$zombie"
    wait_for sched.log "pod p2 has not been heard for 2 s"
    kill -CONT "$zombie"
    ends 75 "$p2" p2
    finished
}

# A node that is started anew is not waited for: its earlier process is given up as soon as the new one is there, and its work is dealt again.
case_restarted() {
    in_mid_job
    kill -9 "$(child "$p2")"
    cp p2.log p2_before.log
    pod p2
    finished
    says sched.log "pod p2 has started anew: it is given up, and what it had is dealt again"
    grep -q "has not been heard" sched.log && fail "it was waited for"
    ends 0 "$p2" p2
}

# SIGTERM: it ends what it has begun, hands back the rest and leaves; nothing is done twice.
case_drained() {
    in_mid_job
    kill -TERM "$(child "$p2")"
    ends 0 "$p2" p2
    says p2.log "left the job, which goes on"
    says sched.log "pod p2 left"
    finished
    grep -q "^recovered" sched.log && fail "something was lost"
    [ "$(tiles_of p2)" -gt 0 ] || fail "p2 computed nothing"
    [ $(($(tiles_of p1) + $(tiles_of p2) + $(tiles_of p3))) = 300 ] || fail "the summary does not add up"
}

# What a pod that stands still in the middle of a store and is not given up holds others compute as well, and the job ends without it. What it still writes when
# it goes on is not in the file that was published: no two write to that.
case_slow() {
    make_job 60
    sched --nodes=3 --speculate --deadline=30
    slow_pod 10 p1
    slow_pod 10 p2
    PHOBOS_CRASH_AT=store:1:half:stop pod p3
    wait_for sched.log "the job begins with 3 pods"
    staged=$(stat -c %i .c.npy.*.part)
    finished
    says sched.log "^warning: pod p3 is slow: [0-9.]* s for a tile, where others take [0-9.]* s"
    before=$(stat -c '%i %Y %s' c.npy)
    [ "${before%% *}" != "$staged" ] || fail "what the slow pod may write to was published"
    kill -CONT "$(child "$p3")"
    sleep 0.5
    [ "$(stat -c '%i %Y %s' c.npy)" = "$before" ] || fail "somebody wrote"
    "$oracle" check job.json || fail "wrong bytes after all"
    grep -q "given up" sched.log && fail "it was waited for"
    [ $(($(tiles_of p1) + $(tiles_of p2) + $(tiles_of p3))) = 60 ] || fail "the summary does not add up"
}

# C = alpha A B + beta C, which reads what it writes.
case_product() {
    product_job
    cp before.bin C.bin
    sched --nodes=3 --deadline=2
    for p in p1 p2 p3; do
        slow_pod 30 $p
    done
    wait_for sched.log "the job begins with 3 pods"
    sleep 0.3
    kill -9 "$(child "$p3")"
    finished
    says sched.log "^recovered: 1 pod lost"
}

# A pod that dies at each place where it can; another one comes.
case_places() {
    product_job
    for where in hello:1:begin prove:1:begin load:2:begin load:2:end fetch:1:begin fetch:1:end compute:2:begin compute:2:end store:1:begin store:2:half \
        store:2:end flush:1:begin flush:1:end; do
        cp before.bin C.bin
        sched --nodes=2 --link-bw=1e12 --deadline=2
        PHOBOS_CRASH_AT=$where pod p1 --listen=tcp://127.0.0.2:*
        pod p2
        ends 137 "$p1" "a pod that dies at $where"
        pod p3
        finished
        for p in $p2 $p3; do
            kill "$(child "$p")" 2>/dev/null || true
            wait "$p" || true
        done
    done
}

# A tile that every pod dies of: the third one says which.
case_poison() {
    make_job 1
    sched --nodes=4 --deadline=1
    for p in p1 p2 p3 p4; do
        PHOBOS_CRASH_AT=compute:1:begin pod $p
    done
    ends 1 "$sched" scheduler
    says sched.log "^error: super-tile 0 has brought down 3 pods; the last, pod p[1-4], has not been heard for 1 s"
    [ ! -e c.npy ] || fail "an output was published"
    nothing_left
}

# A pod that others fetch from dies: what is at home there comes from the files.
case_lost_home() {
    product_job
    cp before.bin C.bin
    sched --nodes=2 --link-bw=1e12 --deadline=1
    PHOBOS_CRASH_AT=store:1:begin pod p1
    wait_for sched.log "pod p1 joined"
    pod p2 --listen=tcp://127.0.0.2:*
    finished
    says sched.log "pod p1 .*: it is given up"
}

# The wall clock goes a day back and two forward: nothing that is sent is a time of day.
case_clock() {
    clock=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1 2>/dev/null) || skip "no libfaketimeMT.so.1 (faketime)"
    in_mid_job() {
        make_job 100
        sched --nodes=2 --deadline=4
        slow_pod 20 p1
        echo +0 >now
        export LD_PRELOAD="$clock $slow_io" SLOW_IO_MS=20 FAKETIME_TIMESTAMP_FILE="$work/now" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1
        pod p2
        unset LD_PRELOAD SLOW_IO_MS FAKETIME_TIMESTAMP_FILE FAKETIME_NO_CACHE FAKETIME_DONT_FAKE_MONOTONIC NO_FAKE_STAT
        wait_for sched.log "the job begins with 2 pods"
    }
    in_mid_job
    for when in -1d +1d; do
        echo $when >now
        sleep 0.3
    done
    finished
    grep -q "given up" sched.log && fail "a pod was lost by the clock"
    [ "$(tiles_of p2)" -gt 0 ] || fail "p2 computed nothing"
}

# A store that never returns while the pod goes on talking: given up for want of progress.
case_hung() {
    limit=200
    make_job 300
    sched --nodes=2 # whose patience is a minute
    pod p1
    PHOBOS_CRASH_AT=store:3:half:hang pod p2
    finished
    says sched.log "pod p2 has made no progress for 60 s: it is given up"
    ends 75 "$p2" p2
}

# The same, and it is asked to leave, and then to end: nothing waits for that store. So is a local job, and a process that does not even look.
case_hung_stopped() {
    make_job 30
    sched --nodes=2
    PHOBOS_CRASH_AT=store:3:half:hang pod p2
    pod p1
    wait_for sched.log "the job begins with 2 pods"
    sleep 0.3
    hung=$(child "$p2")
    kill -TERM "$hung"
    wait_for p2.log "leaves the job"
    kill -TERM "$hung"
    ends 1 "$p2" p2
    says p2.log "ends while something that the job began goes on"
    finished
    printf old >c.npy
    PHOBOS_CRASH_AT=store:1:half:hang timeout 60 ./add job.json --progress=none >local.log 2>&1 &
    local=$!
    sleep 0.3
    kill -INT "$(child $local)"
    ends 1 $local "the local job"
    says local.log "^error: interrupted"
    says local.log "ends while something that a pod began goes on"
    [ "$(cat c.npy)" = old ] || fail "the old output was touched"
    nothing_left
    PHOBOS_CRASH_AT=hello:1:begin:hang pod p3
    sleep 0.1
    for _ in 1 2 3; do
        kill -TERM "$(child "$p3")"
        sleep 0.1
    done
    ends 1 "$p3" p3
}

for case in "$@"; do
    "case_$case"
done

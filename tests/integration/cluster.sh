#!/bin/sh
# A scheduler and pods as processes: what they compute, whom they refuse, how they end.
#
#   tests/integration/cluster.sh PHOBOSC ORACLE_ADD SAMPLES JUNK_PEER SLOW_IO CASE...
set -eu

phobosc=$1 oracle=$2 samples=$3 junk_peer=$4 slow_io=$5
shift 5

. "$(dirname "$0")/../tools/hosts.sh"
. "$(dirname "$0")/cluster_tools.sh"

case_sched_first() {
    make_job 300
    sched --nodes=2
    pod p1
    pod p2
    finished
    ends 0 "$p1" p1
    ends 0 "$p2" p2
    [ "$(tiles_of p1)" -gt 0 ] && [ "$(tiles_of p2)" -gt 0 ] || fail "a pod computed nothing"
    [ $(($(tiles_of p1) + $(tiles_of p2))) = 300 ] || fail "the summary does not add up"
}

case_pods_first() {
    make_job 300
    pod p1
    pod p2
    wait_for p1.log "waiting for a scheduler"
    wait_for p2.log "waiting for a scheduler"
    sched --nodes=2
    finished
    [ "$(tiles_of p1)" -gt 0 ] && [ "$(tiles_of p2)" -gt 0 ] || fail "a pod computed nothing"
}

case_join_window() {
    make_job 3
    sched --join-window=0.5
    PHOBOS_SCHED=$listen timeout 60 ./add --role=pod --node-name=p1 >p1.log 2>&1 &
    finished
}

# The first pod reads slowly, so that work is left for a late one.
case_late_pod() {
    make_job 300
    sched --nodes=1
    slow_pod 20 p1
    wait_for sched.log "the job begins with 1 pod"
    pod p2
    finished
    [ "$(tiles_of p1)" -gt 0 ] && [ "$(tiles_of p2)" -gt 0 ] || fail "a pod computed nothing"
}

# The job in place of `add`'s has a tile that all units share.
shared_job() {
    shared=$samples/../tests/run/scale_columns
    "$phobosc" --gpu=none "$shared/scale_columns.phb" -o add
    cp "$shared/job.json" .
    oracle=$(dirname "$oracle")/oracle_scale_columns
    "$oracle" make job.json
}

# fetched COUNT: tiles, by all pods
fetched() {
    sum=$(sed -n 's/^pod p[0-9]* moved:.* \([0-9]*\) fetched.*/\1/p' sched.log | awk '{ sum += $1 } END { print sum + 0 }')
    [ "$sum" = "$1" ] || fail "$sum tiles were fetched instead of $1"
}

# That tile travels from its home to a pod of another host (which 127.0.0.2 is, as far as an address tells).
case_shared_tile() {
    shared_job
    sched --nodes=2
    pod p1
    wait_for sched.log "pod p1 joined"
    pod p2 --listen=tcp://127.0.0.2:*
    finished
    [ "$(tiles_of p1)" -gt 0 ] && [ "$(tiles_of p2)" -gt 0 ] || fail "a pod computed nothing"
    fetched 1
}

# moved FILE: "node loaded bytes fetched bytes stored bytes" of each node or pod, in their order
moved() {
    sed -n -e 's/^node \([0-9]*\):.*, \([0-9]*\) tiles loaded (\([0-9]*\) bytes), \([0-9]*\) fetched (\([0-9]*\)), \([0-9]*\) stored (\([0-9]*\)).*/\1 \2 \3 \4 \5 \6 \7/p' \
        -e 's/^pod p\([0-9]*\) moved: \([0-9]*\) tiles loaded (\([0-9]*\) bytes), \([0-9]*\) fetched (\([0-9]*\)), \([0-9]*\) stored (\([0-9]*\)).*/\1 \2 \3 \4 \5 \6 \7/p' "$1"
}

# Each on a host of its own, pods load, fetch and store what the plan says: four units a pod are dealt at once, so that none is taken by another.
case_planned_moves() {
    product_job
    for how in "round-robin --link-bw=1e12" "block --link-bw=1e12" "block --link-bw=1e3"; do
        cp before.bin C.bin
        # shellcheck disable=SC2086
        ./add --plan job.json --nodes=4 --memory=8M --placement=$how >plan.log
        # shellcheck disable=SC2086
        sched --nodes=4 --placement=$how
        for p in 0 1 2 3; do
            pod p$p --listen=tcp://127.0.0.$((p + 1)):* --memory=8M
            wait_for sched.log "pod p$p joined"
        done
        finished
        moved plan.log >planned && moved sched.log >was
        [ "$(wc -l <planned)" = 4 ] && cmp planned was || fail "planned $(cat planned), but it was $(cat was)"
        tiles=$(awk '{ sum += $4 } END { print sum }' was)
        case $how:$tiles in *1e12:0 | *1e3:[1-9]*) fail "$tiles tiles were fetched: $how" ;; esac
        # shellcheck disable=SC2086
        ./add --plan job.json --nodes=4 --memory=8M --placement=$how --format=dot >plan.dot
        [ "$(grep -c '^  h[0-9_]* -> .*style=dashed' plan.dot)" = "$tiles" ] || fail "the picture shows other fetches than $tiles"
        ! command -v dot >/dev/null || dot -Tsvg plan.dot -o plan.svg || fail "dot does not read the picture"
    done
}

# --autotune looks at the pods before it plans: their number, their memory, and the link between two hosts, which nothing goes over where there is one.
case_measured_link() {
    product_job
    for p1 in 1 2; do
        cp before.bin C.bin
        pod p0 --memory=9M
        pod p1 --listen=tcp://127.0.0.$p1:*
        wait_for p0.log "waiting for a scheduler"
        wait_for p1.log "waiting for a scheduler"
        sched --autotune --join-window=1
        finished
        says sched.log "the job begins with 2 pods"
        case $p1 in
        1) grep -q "^autotune: .*, no link, leaf .* F/s (measured)" sched.log || fail "one host has a link" ;;
        2)
            grep -q "^measured the link from pod p[01] to pod p[01]: " sched.log || fail "it was not measured"
            grep -q "^autotune: .* read (measured) .* written (measured), link .* B/s (measured), leaf .* F/s (measured)" sched.log || fail "other figures"
            ;;
        esac
    done
    cp before.bin C.bin
    sched --autotune --nodes=2 --link-bw=5e8 --leaf-flops=1e9
    pod p0
    pod p1 --listen=tcp://127.0.0.2:*
    finished
    grep -q "^autotune: .*, link 5e+08 B/s (given), leaf 1e+09 F/s (given)" sched.log || fail "what is given is not taken"
    grep -q "^measured the link" sched.log && fail "what is given was measured"
    pod p0
    wait_for p0.log "waiting for a scheduler"
    sched --autotune --nodes=2 --join-timeout=1
    ends 1 "$sched" scheduler
    says sched.log "waited 1 s for 2 pods; came: p0"
    kill "$p0" && wait "$p0" || true
    nothing_left
}

# Leaves are timed on what the pods compute on, and what runs there alone is not refused before they come.
case_tuned_device() {
    "$phobosc" --gpu=none --simt -D leaf.TILE_M=16 -D leaf.TILE_N=16 -D leaf.TILE_K=16 "$samples/matmul/matmul.phb" -o add
    head -c 8192 /dev/zero | tee A.bin >B.bin
    head -c 4096 /dev/zero >C.bin
    printf '{"scalars": {"alpha": 1.5, "beta": 0.25}, "cluster": {"TILE_M": 32, "TILE_N": 32, "TILE_K": 64}, "tensors": {
        "A": {"uri": "A.bin", "dtype": "f32", "shape": [32, 64]}, "B": {"uri": "B.bin", "dtype": "f32", "shape": [64, 32]},
        "C": {"uri": "C.bin", "dtype": "f32", "shape": [32, 32]}}}\n' >job.json
    sched --autotune --nodes=1
    pod p0 --device=simt
    ends 0 "$sched" scheduler
    grep -q "^autotune: .*, leaf .* F/s (measured)" sched.log || fail "leaves were not timed"
    leaves=$(sed -n 's/^autotune: .*, compute \([0-9.e-]*\), launches \([0-9.e-]*\),.*/\1 \2/p' sched.log)
    [ "$(echo "$leaves" | awk '{ print ($1 + $2 > 0.001) }')" = 1 ] || fail "$leaves s are not the simulator's"
    nothing_left
}

# A pod that nobody reaches: what is at home there comes from the files.
case_lost_source() {
    product_job
    cp before.bin C.bin
    sched --nodes=2 --link-bw=1e12
    pod p0
    wait_for sched.log "pod p0 joined"
    pod p1 --listen=tcp://127.0.0.2:* --advertise=tcp://127.0.0.3:9
    finished
    says p0.log "cannot fetch a tile from tcp://127.0.0.3:9: the peer is not to be reached; it comes from its file"
    grep -q "cannot fetch" p1.log && fail "p0 can be reached"
    [ "$(moved sched.log | sed -n 's/^0 [0-9]* [0-9]* \([0-9]*\).*/\1/p')" = 0 ] || fail "p0 fetched something"
    return 0
}

# relay FROM TO HOW...: what is said to 127.0.0.FROM, at the port after ours, goes to 127.0.0.TO, by relay.c.
relay() {
    from=127.0.0.$1 to=127.0.0.$2
    shift 2
    "$(dirname "$junk_peer")/relay" "$from" $((port + 1)) "$to" $((port + 1)) "$@" 2>relay.log &
    relay=$!
}

# Bits of tiles change on their way: a tile is asked for again, and one that never comes right is read from its file.
case_spoilt_tiles() {
    product_job
    for often in once ""; do
        cp before.bin C.bin
        relay 3 2 flip 8000 $often
        sched --nodes=2 --link-bw=1e12
        pod p0
        wait_for sched.log "pod p0 joined"
        pod p1 --listen=tcp://127.0.0.2:$((port + 1)) --advertise=tcp://127.0.0.3:$((port + 1))
        finished
        kill $relay
        wait $relay || true
        says relay.log "flipped a bit"
        if [ -n "$often" ]; then
            grep "cannot fetch" p0.log && fail "a tile was not asked for again"
        else
            says p0.log "cannot fetch a tile from tcp://127.0.0.3:.*: the peer sends wrong bytes; it comes from its file"
        fi
    done
}

# What a pod says and hears takes 0.3 s, tiles too: it is slower, and nobody is given up.
case_far_pod() {
    product_job
    cp before.bin C.bin
    relay 4 3 delay 300
    tiles=$relay
    relay 1 2 delay 300
    listen=tcp://127.0.0.1:$((port + 1))
    pod p0 --listen=tcp://127.0.0.3:$((port + 1)) --advertise=tcp://127.0.0.4:$((port + 1))
    listen=tcp://127.0.0.2:$((port + 1))
    sched --nodes=2 --link-bw=1e12 --deadline=2
    pod p1 --listen=tcp://127.0.0.5:*
    finished
    kill $relay $tiles
    grep "given up" sched.log && fail "a pod was given up"
    [ "$(tiles_of p0)" -gt 0 ] || fail "p0 computed nothing"
    says sched.log "pod p[01] moved:.* [1-9][0-9]* fetched"
}

# What both pods did, the second one by a clock of its own where the kernel has such, in one file that is JSON: as many events as tiles were moved, none
# over another in its row, all within the job's time.
case_trace() {
    product_job
    cp before.bin C.bin
    sched --nodes=2 --link-bw=1e12 --trace=trace.json
    pod p0
    wait_for sched.log "pod p0 joined"
    clock=
    unshare --time --monotonic 100000 true 2>/dev/null && clock="unshare --time --monotonic 100000"
    # shellcheck disable=SC2086
    timeout 60 $clock ./add --role=pod --sched=$listen --node-name=p1 --threads=1 --log=info --listen=tcp://127.0.0.2:* >p1.log 2>&1 &
    finished
    cat >trace.pl <<'PERL'
use strict;
use JSON::PP;
local $/;
open my $file, "<", "trace.json" or die;
my $trace = decode_json(<$file>);
my (%pods, %counts, %rows, $end);
for (@{$trace->{traceEvents}}) {
    $pods{$_->{pid}} = $_->{args}{name} if $_->{ph} eq "M" && $_->{name} eq "process_name";
    next if $_->{ph} ne "X";
    $counts{$pods{$_->{pid}}}{$_->{cat}}++;
    die "before the begin" if $_->{ts} < 0 || $_->{dur} < 0;
    die "60 s and more" if $_->{ts} + $_->{dur} > 60e6;
    my $row = \$rows{"$_->{pid} $_->{tid}"};
    die "one over another in $_->{pid} $_->{tid}" if defined $$row && $_->{ts} < $$row - 0.01;
    $$row = $_->{ts} + $_->{dur};
}
for my $pod (sort keys %counts) {
    print join(" ", $pod, map { $counts{$pod}{$_} || 0 } qw(load fetch store)), "\n";
}
PERL
    perl trace.pl >traced || fail "the trace: $(cat traced)"
    moved sched.log | awk '{ print "p" $1, $2, $4, $6 }' >was
    cmp was traced || fail "traced $(cat traced), but it was $(cat was)"
    ./add job.json --pods=2 --trace=trace.json --progress=none >local.log 2>&1 && perl trace.pl >traced || fail "the local trace"
    [ "$(awk '{ stores += $5 } END { print NR, stores }' traced)" = "2 16" ] || fail "traced $(cat traced)"
    ./add job.json --pods=2 --trace=trace.svg --progress=none >local.log 2>&1 || fail "no picture"
    perl -MXML::Parser -e 1 2>/dev/null && { perl -MXML::Parser -e 'XML::Parser->new->parsefile("trace.svg")' || fail "the picture is no XML"; }
    [ "$(grep -c 'font-weight="bold">pod [01]<' trace.svg)" = 2 ] && [ "$(tail -n 1 trace.svg)" = "</svg>" ] || fail "the picture lacks a pod"
    for kind in "load A 0" "compute super-tile 15, stage" "store C 15"; do
        grep -q "<title>\($kind\|${kind%% *}, [0-9]* of them\)" trace.svg || fail "the picture lacks '$kind'"
    done
    ./add job.json --trace=nowhere/trace.json >local.log 2>&1 && fail "a trace was written nowhere"
    says local.log 'cannot write the trace "nowhere/trace.json": No such file'
    ./add job.json --trace=A.bin >local.log 2>&1 && fail "a trace took the place of a tensor"
    says local.log "the trace \"A.bin\" would take the place of tensor 'A'"
    [ "$(wc -c <A.bin)" = $((250 * 180 * 4)) ] || fail "a tensor was overwritten"
}

case_too_few() {
    make_job 3
    pod p1
    wait_for p1.log "waiting for a scheduler"
    sched --nodes=2 --join-timeout=1
    ends 1 "$sched" scheduler
    says sched.log "waited 1 s for 2 pods; came: p1"
    ends 1 "$p1" p1
    [ -e c.npy ] && fail "an output was published"
    nothing_left
}

case_no_pods() {
    make_job 3
    sched --join-timeout=1
    ends 1 "$sched" scheduler
    says sched.log "came: none"
    nothing_left
}

case_another_build() {
    make_job 3
    "$phobosc" --gpu=none -O1 "$samples/saxpy/saxpy.phb" -o other
    sched --nodes=1
    code=0
    timeout 20 ./other --role=pod --sched=$listen >other.log 2>&1 || code=$?
    [ $code = 78 ] || fail "the stranger ended with $code, expected 78"
    ours=$(./add --info=json | sed -n 's/.*"build": *"\([0-9a-f]*\)".*/\1/p')
    theirs=$(./other --info=json | sed -n 's/.*"build": *"\([0-9a-f]*\)".*/\1/p')
    [ -n "$ours" ] && [ -n "$theirs" ] || fail "--info=json does not give the build id"
    for log in other.log sched.log; do
        says $log "$ours"
        says $log "$theirs"
    done
    pod p1
    finished
}

case_port_in_use() {
    make_job 3
    sched --nodes=1
    wait_for sched.log "waiting for pods"
    mkdir second && cp add job.json a.npy b.npy second
    code=0
    (cd second && timeout 20 ./add --role=sched job.json --listen=$listen >second.log 2>&1) || code=$?
    [ $code = 1 ] || fail "the second scheduler ended with $code, expected 1"
    grep -q "cannot listen on '$listen': Address already in use" second/second.log || fail "$(cat second/second.log)"
    (cd second && nothing_left)
    pod p1
    finished
}

case_same_output() {
    make_job 3
    sched --nodes=1
    wait_for sched.log "waiting for pods"
    code=0
    timeout 20 ./add --role=sched job.json --listen=tcp://127.0.0.1:* >second.log 2>&1 || code=$?
    [ $code = 1 ] || fail "the second scheduler ended with $code, expected 1"
    says second.log "another job is writing"
    pod p1
    finished
}

case_bad_addresses() {
    make_job 3
    for address in tcp://0.0.0.0:0 'tcp://*:5870' tcp://192.0.2.1:5870 tcp://127.0.0.1 tcp://127.0.0.1:70000 tcp://127.0.0.1:port http://127.0.0.1:80 127.0.0.1:80 ''; do
        for role in sched pod; do
            code=0
            timeout 20 ./add --role=$role $([ $role = sched ] && echo job.json) --listen="$address" >bad.log 2>&1 || code=$?
            [ $code = 2 ] || fail "--role=$role --listen=$address ended with $code, expected 2"
        done
    done
    nothing_left
}

case_strangers() {
    make_job 300
    sched --nodes=2
    wait_for sched.log "waiting for pods"
    pod p1 --listen=tcp://127.0.0.1:$((port + 1))
    wait_for sched.log "pod p1 joined"
    strangers=
    for to in $port $((port + 1)); do
        for way in stall "idle 200" raw http zmtp1 huge; do
            # shellcheck disable=SC2086 # a way and its argument
            "$junk_peer" "$to" $way &
            case $way in stall | idle*) ;; *) strangers="$strangers $!" ;; esac # those stay
        done
    done
    for stranger in $strangers; do
        ends 0 "$stranger" "a stranger"
    done
    pod p2
    finished
}

# Before the job begins it is as if it had never come.
case_dead_pod() {
    make_job 300
    printf old >c.npy
    sched --nodes=2 --deadline=2
    pod p1
    wait_for sched.log "pod p1 joined"
    kill -9 "$(child "$p1")"
    wait_for sched.log "pod p1 has not been heard for 2 s: it is given up"
    [ "$(cat c.npy)" = old ] || fail "the old output was touched"
    pod p2
    pod p3
    finished
}

case_dead_scheduler() {
    make_job 300
    sched --nodes=2 --deadline=2
    pod p1
    wait_for sched.log "pod p1 joined"
    kill -9 "$(child "$sched")"
    ends 75 "$p1" p1
    says p1.log "the scheduler has not been heard for 2 s"
    rm -f .c.npy.*.part c.npy.phobos-lock
}

case_stop_scheduler() {
    make_job 300
    for signal in INT TERM; do
        sched --nodes=2
        pod p1
        wait_for sched.log "pod p1 joined"
        kill -$signal "$(child "$sched")"
        ends 1 "$sched" scheduler
        ends 1 "$p1" p1
        [ -e c.npy ] && fail "an output was published"
        nothing_left
    done
}

case_stop_pod() {
    make_job 300
    sched --nodes=2
    pod p1
    wait_for sched.log "pod p1 joined"
    kill -TERM "$(child "$p1")"
    ends 0 "$p1" p1
    wait_for sched.log "pod p1 left"
    pod p2
    pod p3
    finished
}

# A pod for whom another file lies at the job's path.
case_other_files() {
    [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || skip "no mount namespace can be made here"
    make_job 3
    for change in bytes size time; do
        cp -p a.npy other.npy
        case $change in
        bytes) printf x | dd of=other.npy bs=1 seek=200 conv=notrunc 2>/dev/null && touch -r a.npy other.npy ;;
        size) printf x >>other.npy && touch -r a.npy other.npy ;;
        time) touch -d '2001-01-01' other.npy ;;
        esac
        sched --nodes=1
        timeout 60 unshare -m sh -c "mount --bind other.npy a.npy && exec ./add --role=pod --sched=$listen --node-name=blind" >blind.log 2>&1 &
        blind=$!
        ends 1 "$sched" scheduler
        says sched.log "pod blind .*a.npy"
        ends 1 "$blind" "the pod"
        nothing_left
    done
}

case_many_pods() {
    make_job 640
    sched --nodes=64
    for i in $(seq 64); do
        pod "p$i"
    done
    finished
}

# By IPv6 and by name; a tile that is shared travels.
case_ipv6() {
    grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null || skip "no ::1"
    shared_job
    listen="tcp://[::1]:$port"
    sched --nodes=2
    pod p1 --listen="tcp://[::1]:*"
    wait_for sched.log "pod p1 joined"
    pod p2 --listen="tcp://127.0.0.1:$((port + 1))" --advertise="tcp://localhost:$((port + 1))"
    finished
    fetched 1
    says sched.log "waiting for pods at tcp://\[::1\]:$port"
}

# A scheduler and a pod that may open 64 files, each with more connections than that: they say so, and the job goes on.
case_few_files() {
    make_job 300
    (ulimit -n 64 && exec timeout 60 ./add --role=sched job.json --listen=$listen --progress=none --log=info --nodes=2 >sched.log 2>&1) &
    sched=$!
    wait_for sched.log "waiting for pods"
    (ulimit -n 64 && exec timeout 60 ./add --role=pod --sched=$listen --listen=tcp://127.0.0.1:$((port + 1)) --node-name=p1 --log=info >p1.log 2>&1) &
    p1=$!
    wait_for sched.log "pod p1 joined"
    "$junk_peer" $port idle 110 &
    idle=$!
    "$junk_peer" $((port + 1)) idle 110 &
    idle="$idle $!"
    for log in sched.log p1.log; do
        wait_for $log "warning: no more peers can be spoken with: Too many open files: who comes now is let in when others have gone"
    done
    pod p2
    # shellcheck disable=SC2086
    kill $idle
    finished
}

doctor() {
    : >doctor.log
    timeout 60 ./add --role=doctor job.json --listen=$listen --log=info "$@" >doctor.log 2>&1 &
    doctor=$!
}

# All is well; a pod that others cannot reach, one that may not see the job's files; another build; nobody.
case_doctor() {
    make_job 3
    doctor --nodes=2
    pod p1
    pod p2 --listen=tcp://127.0.0.2:*
    ends 0 "$doctor" "the doctor"
    for line in "sched <-> p1: [0-9.]* ms" "sched <-> p2: " "p1 -> p2 (tcp://127.0.0.2:[0-9]*): [0-9.]* ms, [0-9.e+]* B/s" "p2 -> p1 (" \
        "p1: $work/a.npy: [0-9.e+]* B/s" "p2: $work/b.npy: " "p1: $work/c.npy: can be written" "all 10 checks are fine"; do
        says doctor.log "^$line"
    done
    nothing_left
    [ ! -e c.npy ] || fail "the doctor wrote an output"
    sched --nodes=2 # the pods are still there for it
    finished
    ends 0 "$p1" p1
    ends 0 "$p2" p2

    mkdir elsewhere
    "$phobosc" --gpu=none -O1 "$samples/saxpy/saxpy.phb" -o other
    doctor --nodes=2
    pod p1 --advertise=tcp://127.0.0.3:9
    pod p2 --root=elsewhere
    timeout 20 ./other --role=pod --sched=$listen --node-name=p3 >p3.log 2>&1 || true
    wait_for p2.log "for a doctor"
    pod p4 # is too late
    ends 1 "$doctor" "the doctor"
    says doctor.log "^p2 -> p1 (tcp://127.0.0.3:9): FAILED: not reached within 5 s"
    says doctor.log "^p1 -> p2 (tcp://127.0.0.1:[0-9]*): [0-9.]* ms"
    says doctor.log "^p2: $work/a.npy: FAILED: in no folder that its --root allows"
    says doctor.log "^p2: $work/c.npy: FAILED: "
    says doctor.log "^p3 -> sched: FAILED: it is another build"
    says doctor.log "^error: 5 of 11 checks failed: .*p2 -> p1"
    : >doctor.log
    doctor --nodes=3
    wait_for doctor.log "waiting for pods"
    kill "$(child "$doctor")"
    ends 1 "$doctor" "the doctor"
    says doctor.log "^error: stopped by the user"
    ! grep FAILED doctor.log || fail "a doctor that was stopped found something wrong"
    kill "$p1" "$p2" "$p4"

    code=0
    timeout 20 ./add --role=doctor --listen=$listen --join-timeout=0.5 >doctor.log 2>&1 || code=$?
    [ $code = 1 ] || fail "the doctor without pods ended with $code, expected 1"
    says doctor.log "waited 0.5 s for 1 pod; 0 came"
    for bad in missing.json "job.json --threads=2" "--listen=tcp://0.0.0.0:1"; do
        code=0
        # shellcheck disable=SC2086
        timeout 20 ./add --role=doctor $bad >doctor.log 2>&1 || code=$?
        [ $code = 2 ] || fail "the doctor of '$bad' ended with $code, expected 2"
    done
}

# With keys: p2's file of peers lacks p1, so that neither of them reaches the other.
case_doctor_keys() {
    make_job 3
    make_keys
    doctor --nodes=2 --key=sched.key --peers=peers
    pod p1 --key=p1.key --peers=peers
    grep -v '^p1 ' peers >fewer
    pod p2 --key=p2.key --peers=fewer
    ends 1 "$doctor" "the doctor"
    says doctor.log "^p1 -> p2 (.*): FAILED: its key is not known there"
    says doctor.log "^p2 -> p1 (.*): FAILED: the file that its --peers names has no key of that one"
    says doctor.log "^sched <-> p1: [0-9.]* ms"
    kill "$p1" "$p2"
    wait "$p1" "$p2" || true
    doctor --nodes=2 --key=sched.key --peers=peers
    pod p1 --key=p1.key --peers=peers
    pod p2 --key=p2.key --peers=peers
    ends 0 "$doctor" "the doctor"
    says doctor.log "all 10 checks are fine"
    doctor --nodes=2 --key=sched.key --peers=peers # once more, the same pods
    ends 0 "$doctor" "the second doctor"
    says doctor.log "all 10 checks are fine"
    kill "$p1" "$p2"
}

# Keys for the scheduler, pods and a stranger, who is not among the peers.
make_keys() {
    for name in sched p1 p2 stranger; do
        ./add --role=keygen --key=$name.key >made || fail "no key for $name"
        grep -q "$(sed -n 's/^secret //p' $name.key | sed 's/[][\.*^$/]/\\&/g')" made && fail "keygen prints the secret"
    done
    cat sched.key.pub p1.key.pub p2.key.pub >peers
    [ "$(stat -c %a p1.key)" = 600 ] || fail "a key that others may read"
}

# What no process may show of its key: not in its arguments, its environment or what it says.
keeps_secrets() {
    for name in sched p1 p2 stranger; do
        secret=$(sed -n 's/^secret //p' $name.key)
        grep -lF -e "$secret" ./*.log && fail "$name's secret is in a log"
        for pid in $(pgrep -P $$); do
            cat "/proc/$pid/cmdline" "/proc/$pid/environ" 2>/dev/null | grep -qF -e "$secret" && fail "$name's secret is in the arguments of $pid"
        done
    done
    return 0
}

# Pods of two hosts with keys, who fetch a shared tile from each other, and everybody who has none that counts.
case_keys() {
    shared_job
    make_keys
    sched --nodes=2 --key=sched.key --peers=peers
    pod stranger --key=stranger.key --peers=peers
    ends 78 "$stranger" "a stranger"
    says stranger.log "does not know this pod's key"
    pod keyless
    ends 78 "$keyless" "a pod without keys"
    says keyless.log "no scheduler that talks without keys"
    sed "s/^sched .*/sched $(cut -d' ' -f2 stranger.key.pub | sed 's/[&/\\]/\\&/g')/" peers >other_peers
    pod deceived --node-name=p1 --key=p1.key --peers=other_peers
    ends 78 "$deceived" "a pod that expects another scheduler"
    says deceived.log "no scheduler with the key"
    pod p2 --node-name=p1 --key=p2.key --peers=peers
    ends 78 "$p2" "a pod with another's name"
    says p2.log "the key of 'p2' does not prove the name 'p1'"
    pod p1 --key=p1.key --peers=peers
    wait_for sched.log "pod p1 joined"
    keeps_secrets
    PHOBOS_KEY=p2.key timeout 60 ./add --role=pod --sched=$listen --threads=1 --log=info --peers=peers --listen=tcp://127.0.0.2:* >p2.log 2>&1 &
    finished
    [ "$(tiles_of p1)" -gt 0 ] && [ "$(tiles_of p2)" -gt 0 ] || fail "a pod computed nothing"
    fetched 1
    says sched.log "connections refused so far whose keys are not among the peers"
    keeps_secrets
}

# What is wrong with keys is said before anything begins; and who listens beyond this machine has some, or says that it wants none.
case_bad_keys() {
    make_job 3
    make_keys
    refuses() { # TEXT OPTION...
        text=$1
        shift
        code=0
        timeout 20 ./add "$@" >refused.log 2>&1 || code=$?
        [ $code != 0 ] && [ $code -lt 124 ] || fail "$* ended with $code"
        says refused.log "$text"
    }
    refuses "go together" --role=sched job.json --key=sched.key
    refuses "go together" --role=pod --peers=peers
    refuses "cannot open 'absent'" --role=sched job.json --key=absent --peers=peers
    chmod 644 p1.key
    refuses "others than its owner may read the key" --role=pod --key=p1.key --peers=peers
    chmod 600 p1.key
    grep -v '^sched' peers >headless
    refuses "has no line for 'sched'" --role=pod --key=p1.key --peers=headless
    refuses "give --key and --peers, or say --insecure" --role=sched job.json --listen=tcp://0.0.0.0:$port
    refuses "give --key and --peers, or say --insecure" --role=pod --listen=tcp://0.0.0.0:*
    refuses "cannot make 'p1.key'" --role=keygen --key=p1.key
    refuses "is no name for a key" --role=keygen --key=new.key --node-name='a b'
    refuses "needs --key=FILE" --role=keygen
    refuses "takes no job file" --role=keygen --key=new.key job.json
    [ ! -e new.key ] || fail "a key was left behind"
    refuses "--root: cannot open the folder '/nonexistent'" --role=pod --root=/nonexistent
    sched --nodes=1 --listen=tcp://0.0.0.0:$port --key=sched.key --peers=peers
    pod p1 --key=p1.key --peers=peers
    finished
    grep -q "nothing authenticates" sched.log && fail "a warning about keys that are there"
    return 0
}

# A pod that is told of files outside of its --root does not touch them.
case_roots() {
    mkdir inside outside
    make_job 30
    for name in a b; do cp $name.npy inside; done
    printf old >inside/c.npy
    sed 's|"a.npy"|"inside/a.npy"|; s|"b.npy"|"inside/b.npy"|; s|"c.npy"|"inside/c.npy"|' job.json >inside.json
    mv job.json outside.json
    cp inside.json job.json
    sched --nodes=1
    pod p1 --root="$work/outside" --root="$work/inside"
    ends 0 "$sched" scheduler
    "$oracle" check job.json || fail "wrong bytes"
    ln -s "$work/a.npy" inside/link.npy
    sed 's|"inside/a.npy"|"a.npy"|' inside.json >job.json
    sched --nodes=1
    pod p1 --root="$work/inside"
    ends 1 "$sched" scheduler
    says sched.log "is in no folder that --root allows"
    says p1.log "is in no folder that --root allows"
    nothing_left
}

case_namespaces() {
    make_hosts
    make_job 300
    timeout 60 ip netns exec $here ./add --role=sched job.json --listen=tcp://10.77.0.1:5870 --insecure --nodes=2 --log=info >sched.log 2>&1 &
    sched=$!
    timeout 60 ip netns exec $here ./add --role=pod --sched=tcp://10.77.0.1:5870 --listen=tcp://10.77.0.1:* --insecure --node-name=p1 --threads=1 >p1.log 2>&1 &
    timeout 60 ip netns exec $there ./add --role=pod --sched=tcp://10.77.0.1:5870 --node-name=p2 --threads=1 >p2.log 2>&1 &
    finished
    [ "$(tiles_of p1)" -gt 0 ] && [ "$(tiles_of p2)" -gt 0 ] || fail "a pod computed nothing"
    says sched.log "warning: nothing authenticates who connects to tcp://10.77.0.1:5870"
    says p2.log "pods of other machines cannot fetch tiles from tcp://127.0.0.1:"
    grep -q "cannot fetch tiles" p1.log && fail "a pod that others reach is warned"
    return 0
}

for case in "$@"; do
    "case_$case"
done

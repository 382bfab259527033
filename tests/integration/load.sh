#!/bin/sh
# More than there is room for: tiles, bytes, connections, time. A job is slower or refused, never wrong and never stuck.
#
#   tests/integration/load.sh PHOBOSC ORACLE_ADD SAMPLES GREEDY_PEER CASE
set -eu

phobosc=$1 oracle=$2 samples=$3 greedy_peer=$4
shift 4
. "$(dirname "$0")/../tools/hosts.sh"
. "$(dirname "$0")/cluster_tools.sh"

# 10^5 tiles of 64 elements, the last of them ragged.
case_tiles() {
    "$phobosc" --gpu=none -D leaf.BLOCK=16 "$samples/add/add.phb" -o add
    cat >job.json <<JOB
{ "dims": { "N": 6399977 }, "tensors": { "a": "a.npy", "b": "b.npy", "c": "c.npy" }, "cluster": { "BLOCK": 64 } }
JOB
    "$oracle" make job.json
    sched --nodes=2 --log=debug
    pod p1
    pod p2
    finished
    [ $(($(tiles_of p1) + $(tiles_of p2))) = 100000 ] || fail "not 100000 tiles: $(tiles_of p1) and $(tiles_of p2)"
}

# ---- memory ----

# What a row of a matrix adds up to; a file with holes, of ROWS rows of 64 KiB. Each EVERYth has a number, in its own column.
make_rows() { # ROWS EVERY
    cat >rows.phb <<'KERNEL'
@cluster(ROWS in [16, 64])
@autotune(ROWS in [4], COLUMNS in [1024])
kernel rows(a: tensor<f32>[M, 16384], c: tensor<f32>[M, 1]) {
    let row = ctx.block.x * ROWS
    var total: tile<f32>[ROWS, 1]
    for column in range(0, 16384, COLUMNS) {
        total += rowsum(a[row :+ ROWS, column :+ COLUMNS])
    }
    c[row :+ ROWS, :] = total
}
KERNEL
    "$phobosc" --gpu=none rows.phb -o add
    perl -e 'open F, ">", "a.bin"; for (0 .. $ARGV[0] - 1) { next if $_ % $ARGV[1]; seek F, $_ * 65536 + $_ % 16384 * 4, 0; print F pack("f<", $_ + 1) }
        truncate F, $ARGV[0] * 65536' "$1" "$2"
    perl -e 'print pack("f<*", map { $_ % $ARGV[1] ? 0 : $_ + 1 } 0 .. $ARGV[0] - 1)' "$1" "$2" >expected.bin
    cat >job.json <<JOB
{ "tensors": { "a": { "uri": "a.bin", "dtype": "f32", "shape": [$1, 16384] }, "c": { "uri": "c.bin", "dtype": "f32", "shape": [$1, 1] } } }
JOB
}

# make_cgroup NAME BYTES: of memory. limited NAME COMMAND...: in that cgroup.
make_cgroup() {
    [ "$(id -u)" = 0 ] || skip "cgroups want root"
    own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
    if [ -n "$own" ]; then
        cgroups=/sys/fs/cgroup/memory${own%/}/phobos-$$ bound=memory.limit_in_bytes
    else
        cgroups=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/phobos-$$ bound=memory.max
    fi
    mkdir "$cgroups-$1" 2>/dev/null || skip "no cgroup can be made here"
    undo="$undo; rmdir $cgroups-$1 || true"
    { echo "$2" >"$cgroups-$1/$bound"; } 2>/dev/null || skip "the cgroup above gives no memory away"
}

# To be called in a process of its own, which becomes the command's.
limited() {
    echo 0 >"$cgroups-$1/cgroup.procs"
    shift
    exec "$@"
}

# A tensor of eight times the memory that a cgroup allows: locally, and on pods beside a scheduler; what cannot fit is refused.
case_cgroup() {
    make_rows 4096 1
    make_cgroup one $((32 << 20))
    make_cgroup two $((32 << 20))
    (limited one ./add job.json --pods=2 --progress=none) >local.log 2>&1 || fail "a job in a cgroup ended with $?"
    cmp c.bin expected.bin || fail "wrong bytes in a cgroup"
    rm c.bin
    sched --nodes=2
    limited one timeout 60 ./add --role=pod --sched=$listen --node-name=p1 --threads=1 >p1.log 2>&1 &
    p1=$!
    limited two timeout 60 ./add --role=pod --sched=$listen --node-name=p2 --threads=1 >p2.log 2>&1 &
    p2=$!
    ends 0 "$sched" "the scheduler"
    ends 0 "$p1" p1
    ends 0 "$p2" p2
    cmp c.bin expected.bin || fail "wrong bytes of pods in a cgroup"
    nothing_left
    sed 's/"tensors"/"cluster": { "ROWS": 512 }, &/' job.json >large.json
    code=0
    (limited one ./add large.json --memory=1G --progress=none) >large.log 2>&1 || code=$?
    [ $code = 1 ] || fail "more than the cgroup's memory ended with $code"
    says large.log "of which this process may have $((32 << 20)); say a smaller --memory"
    code=0
    (limited one ./add large.json --progress=none) >large.log 2>&1 || code=$?
    [ $code = 1 ] || fail "super-tiles of more than the cgroup's memory ended with $code"
    says large.log "choose smaller super-tiles"
    cmp c.bin expected.bin || fail "a refused job changed its output"
    nothing_left
}

# A file larger than the machine's memory.
case_larger_than_memory() {
    memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
    [ $((memory >> 20)) -le 256 ] || skip "to read more than $((memory >> 20)) GiB takes too long"
    make_rows $((memory / 64 * 5 / 4)) 61 # what lies in many pieces takes long to remove where a file system discards each
    ./add job.json --progress=none >local.log 2>&1 || fail "a job ended with $?"
    cmp c.bin expected.bin || fail "wrong bytes"
}

# ---- links ----

# Each row by one of factors, 300 KB that all of them share. Twice: what the first of two steps makes of `x` instead.
make_factors() {
    cat >factors.phb <<'KERNEL'
@cluster(BY in [2], BX in [75008])
@autotune(BY in [1], BX in [32])
kernel scale(a: tensor<f32>[M, N], s: tensor<f32>[1, N], c: tensor<f32>[M, N]) {
    let y = ctx.block.y * BY
    let x = ctx.block.x * BX
    c[y :+ BY, x :+ BX] = a[y :+ BY, x :+ BX] * s[:, x :+ BX]
}

@cluster(B in [75008, 6272])
@autotune(B in [32])
kernel twice(x: tensor<f32>[1, N], s: tensor<f32>[1, N]) {
    let i = ctx.block.x * B
    s[:, i :+ B] = x[:, i :+ B] + x[:, i :+ B]
}
KERNEL
    "$phobosc" --gpu=none factors.phb -o add
    perl -e 'binmode STDOUT; print pack("f<*", 1 .. 75000)' >x.bin
    perl -e 'binmode STDOUT; print pack("f<*", map { 2 * $_ } 1 .. 75000)' >s.bin
    perl -e 'binmode STDOUT; for $y (1 .. 4) { print pack("f<*", map { $y } 1 .. 75000) }' >a.bin
    perl -e 'binmode STDOUT; for $y (1 .. 4) { print pack("f<*", map { 2 * $_ * $y } 1 .. 75000) }' >expected.bin
    tensor='"dtype": "f32", "shape"'
    tensors='"a": {"uri": "a.bin", '$tensor': [4, 75000]}, "c": {"uri": "c.bin", '$tensor': [4, 75000]}'
    echo '{ "kernel": "scale", "tensors": { "s": {"uri": "s.bin", '"$tensor: [1, 75000]}, $tensors } }" >file.json
    echo '{ "steps": [{ "kernel": "twice" }, { "kernel": "scale" }], "tensors": { "x": {"uri": "x.bin", '"$tensor: [1, 75000]}, \"s\": {}, $tensors } }" >steps.json
}

# 1 Mbit/s between two pods: large chunks would take longer there than anybody waits before asking again.
case_slow_link() {
    make_hosts
    slow_down $here 1mbit
    slow_down $there 1mbit
    make_factors
    for job in file.json steps.json; do
        rm -f c.bin
        cp $job job.json
        timeout 60 ip netns exec $here ./add --role=sched job.json --listen=tcp://10.77.0.1:5870 --insecure --nodes=2 --link-bw=1e12 --placement=round-robin --log=info >sched.log 2>&1 &
        sched=$!
        timeout 60 ip netns exec $here ./add --role=pod --sched=tcp://10.77.0.1:5870 --listen=tcp://10.77.0.1:* --insecure --node-name=p1 --log=info >p1.log 2>&1 &
        wait_for sched.log "pod p1 joined"
        timeout 60 ip netns exec $there ./add --role=pod --sched=tcp://10.77.0.1:5870 --listen=tcp://10.77.0.2:* --insecure --node-name=p2 --log=info >p2.log 2>&1 &
        ends 0 "$sched" "the scheduler"
        cmp c.bin expected.bin || fail "wrong bytes of $job"
        says sched.log "moved:.* 1 fetched (300000)"
        nothing_left
        wait
    done
}

# Somebody asks a pod for 800 MB and reads nothing: little of it is made, and the pod does its work beside that.
case_stops_reading() {
    make_job 300
    pod p1 --listen=tcp://127.0.0.1:$((port + 1)) --persist
    wait_for p1.log "waiting for a scheduler"
    "$greedy_peer" tcp://127.0.0.1:$((port + 1)) >greedy.log 2>&1 &
    wait_for greedy.log answered
    sched --nodes=1
    finished
    # The pod waits for another job: what it has held at most it held while it did this one, and the peer had asked before.
    resident=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(child "$p1")/status")
    [ "$resident" -lt 65536 ] || fail "a pod holds $resident KiB for a peer that reads nothing"
    kill "$p1"
    ends 0 "$p1" p1
}

# Somebody says hello as a hundred thousand pods of another build: that is told of in part, and the job goes on.
case_hellos() {
    make_job 300
    sched --nodes=1
    wait_for sched.log "waiting for pods"
    "$greedy_peer" $listen hellos 100000 >greedy.log 2>&1 &
    wait_for greedy.log said
    pod p1
    finished
    says sched.log "pod stranger refused: its build is 0000"
    says sched.log "[0-9]* lines about pods were left out"
    [ "$(wc -l <sched.log)" -lt 20000 ] || fail "a line for each of them"
}

# ---- descriptors ----

# What may open 64 files and needs more, pods of one process and pods that fetch from many others, says so; what may open too few to begin says that.
case_few_files() {
    make_job 300
    code=0
    (ulimit -n 64 && exec ./add job.json --pods=40 --progress=none) >local.log 2>&1 || code=$?
    [ $code = 1 ] || fail "40 pods with 64 files ended with $code"
    says local.log "Too many open files"
    [ ! -e c.npy ] || fail "an output of a job that failed"
    for role in "sched job.json" pod; do
        code=0
        # shellcheck disable=SC2086
        (ulimit -n 10 && exec timeout 20 ./add --role=$role --listen=tcp://127.0.0.1:$port) >few.log 2>&1 || code=$?
        [ $code = 1 ] || fail "a $role with 10 files ended with $code"
        says few.log "^error: .*files"
    done
    nothing_left

    make_factors
    sed 's/"steps"/"cluster": { "B": 6272 }, &/' steps.json >job.json # what 12 pods make is read by two of them
    sched --nodes=12 --placement=round-robin
    (ulimit -n 32 && exec timeout 60 ./add --role=pod --sched=$listen --node-name=p1 --listen=tcp://127.0.0.2:* --threads=1 --log=info >p1.log 2>&1) &
    p1=$!
    wait_for sched.log "pod p1 joined"
    for p in $(seq 3 13); do
        pod "p$p" --listen=tcp://127.0.0.$p:*
    done
    ends 0 "$sched" "a scheduler"
    cmp c.bin expected.bin || fail "wrong bytes"
    says sched.log "^pod p1 has failed: .*Too many open files"
    nothing_left
}

for case in "$@"; do
    "case_$case"
done

#!/bin/sh
# Runs that are killed, and what --resume makes of what they leave: of everything that is stored nothing is computed again, outputs are old or new, and nothing
# is left beside them at the end.
#
#   tests/integration/resume.sh PHOBOSC SAMPLES CASE...
set -eu

phobosc=$1 samples=$2
shift 2

. "$(dirname "$0")/../tools/processes.sh"

# As before the first run.
restart() {
    rm -f .C.bin.*.part C.bin.phobos-*
    cp before.bin C.bin
}

sched() { # CRASH OPTION...
    crash=$1
    shift
    : >sched.log
    PHOBOS_CRASH_AT=$crash timeout 60 ./run --role=sched job.json --listen=$listen --progress=none --log=info --deadline=4 "$@" >sched.log 2>&1 &
    sched=$!
}

pod() { # NAME OPTION...
    name=$1
    shift
    : >"$name.log"
    timeout 60 ./run --role=pod --sched=$listen --node-name="$name" --threads=1 --log=info "$@" >"$name.log" 2>&1 &
    eval "$name=\$!"
}

# lose PID...: pods that nobody needs any more.
lose() {
    for pid; do
        pkill -9 -P "$pid" || true
        wait "$pid" || true
    done
}

# killed WHERE OPTION...: a scheduler that is killed there, with a pod.
killed() {
    where=$1
    shift
    sched "$where" --nodes=1 "$@"
    case $where in stage*) ;; *) pod p1 ;; esac
    ends 137 "$sched" "the scheduler to be killed at $where"
    case $where in stage*) ;; *) lose "$p1" ;; esac
}

kept() {
    sed -n 's/^\([0-9]*\) of 16 tiles are kept from the earlier run$/\1/p' "$1"
}

computed() {
    sed -n 's/.*: 16 tiles in.*; pod [^ ]* computed \([0-9]*\).*/\1/p' "$1"
}

whole() { # in the end
    cmp C.bin expected.bin || fail "$1: wrong bytes"
    nothing_left
}

# What is stored is kept, the rest is done, wherever the scheduler was killed.
case_scheduler() {
    make_product run
    for where in stage:1:begin stage:1:half stage:1:end batch:1:begin batch:1:end batch:5:end publish:1:begin; do
        restart
        killed $where
        cmp -s C.bin before.bin || fail "$where: the output was touched"
        sched "" --nodes=1 --resume
        pod p1
        ends 0 "$sched" "the scheduler that resumes after $where"
        ends 0 "$p1" p1
        kept=$(kept sched.log)
        case $where in
        stage:1:begin) [ "$kept" = "" ] || fail "$where: $kept tiles are kept" ;;
        stage:* | batch:1:begin) [ "$kept" = 0 ] || fail "$where: $kept tiles are kept" ;;
        batch:*) [ "$kept" -gt 0 ] && [ "$kept" -lt 16 ] || fail "$where: $kept tiles are kept" ;;
        publish:*) [ "$kept" = 16 ] || fail "$where: $kept tiles are kept" ;;
        esac
        [ $((${kept:-0} + $(computed sched.log))) = 16 ] || fail "$where: $kept tiles are kept and $(computed sched.log) computed"
        whole $where
    done
}

# Between PUBLISH and the end nothing is computed any more, and no pod is needed, also where who resumes is killed as well.
case_published() {
    make_product run
    for where in publish:1:half rename:1:begin rename:1:end publish:1:end goodbye:1:begin goodbye:1:end; do
        restart
        killed $where
        cmp -s C.bin before.bin || cmp -s C.bin expected.bin || fail "$where: the output is neither old nor new"
        case $where in
        goodbye:*) cmp C.bin expected.bin || fail "$where: the output is not in place" ;;
        *)
            sched ""
            ends 1 "$sched" "a scheduler that does not resume after $where"
            says sched.log "cut short while it put its outputs in place: --resume finishes that"
            ;;
        esac
        sched goodbye:1:end --resume
        ends 137 "$sched" "the scheduler that is killed as it resumes after $where"
        sched "" --resume
        ends 0 "$sched" "the scheduler that resumes after $where"
        says sched.log "the outputs of an earlier run are in place"
        whole $where
    done
}

# Half of the work by one pod, the rest by three; and a third time.
case_other_pods() {
    make_product run
    killed batch:3:end
    sched batch:2:end --nodes=3 --resume
    for p in p1 p2 p3; do pod $p; done
    ends 137 "$sched" "the scheduler to be killed once more"
    first=$(kept sched.log)
    lose $p1 $p2 $p3
    sched "" --nodes=2 --resume
    pod p4
    pod p5
    ends 0 "$sched" "the scheduler that resumes"
    [ "$(kept sched.log)" -gt "$first" ] || fail "$(kept sched.log) tiles are kept, $first before"
    whole "other pods"
}

# Pods that are still there join the next scheduler.
case_same_pods() {
    make_product run
    sched batch:3:end --nodes=2
    pod p1
    pod p2
    ends 137 "$sched" "the scheduler to be killed"
    sched "" --nodes=2 --resume
    ends 0 "$sched" "the scheduler that resumes"
    for p in $p1 $p2; do
        ends 0 "$p" "a pod that has gone over"
    done
    says p1.log "another scheduler has taken the place of this pod's"
    [ "$(kept sched.log)" -gt 0 ] || fail "nothing is kept"
    whole "the same pods"
}

# A tile that is not what its checksum says, a staging file that is cut off or gone, a journal whose end is torn: done again.
case_spoilt() {
    make_product run
    for what in bytes shorter absent torn; do
        restart
        killed batch:6:end
        case $what in
        bytes) perl -e 'open my $f, "+<", (glob ".C.bin.*.part")[0] or die; print $f "x" x 250000' ;;
        shorter) truncate -s 1000 .C.bin.*.part ;;
        absent) rm .C.bin.*.part ;;
        torn) truncate -s -3 C.bin.phobos-journal ;;
        esac
        sched "" --nodes=1 --resume
        pod p1
        ends 0 "$sched" "the scheduler that resumes with $what"
        case $what in
        bytes | shorter) [ "$(kept sched.log)" = 0 ] || fail "$what: $(kept sched.log) tiles are kept" ;;
        absent) says sched.log "is gone: the job begins anew" ;;
        torn) [ "$(kept sched.log)" -gt 0 ] || fail "nothing is kept" ;;
        esac
        whole "$what"
    done
}

# What is not the same job is refused, and left as it is for the one that is.
case_refused() {
    make_product run
    killed batch:3:end
    refuses() { # TEXT JOB OPTION...
        text=$1 job=$2
        shift 2
        code=0
        timeout 20 ./run --role=sched "$job" --listen=$listen --resume "$@" >refused.log 2>&1 || code=$?
        [ $code = 1 ] || fail "'$text' ended with $code"
        says refused.log "$text"
    }
    sed 's/0.25/0.5/' job.json >other.json
    refuses "is the journal of another job" other.json
    sed 's/"TILE_M": 64/"TILE_M": 128/' job.json >other.json
    refuses "begun with TILE_M = 64 and now says 128" other.json
    cp -p A.bin saved && touch -d '2001-01-01' A.bin
    refuses "A.bin\" has changed since the job was begun" job.json
    touch -r saved A.bin
    cp run built && "$phobosc" --gpu=none -O1 -D leaf.TILE_M=32 -D leaf.TILE_N=32 "$samples/matmul/matmul.phb" -o run
    refuses "is the journal of another build" job.json
    mv built run
    cp C.bin.phobos-journal saved && printf 'PHBJRN9' | dd of=C.bin.phobos-journal conv=notrunc 2>/dev/null
    refuses "is no journal of this version" job.json
    mv saved C.bin.phobos-journal
    sched "" --nodes=1 --resume
    pod p1
    ends 0 "$sched" "the scheduler that resumes"
    [ "$(kept sched.log)" -gt 0 ] || fail "nothing is kept"
    whole refused
}

# Without --resume the job begins anew and clears away what is there; a failed job leaves nothing, or, told to, all that a --resume needs.
case_anew() {
    make_product run
    killed batch:3:end
    sched "" --nodes=1
    pod p1
    ends 0 "$sched" "the scheduler"
    says sched.log "what an earlier run left is removed; --resume would have gone on from there"
    [ "$(computed sched.log)" = 16 ] || fail "something was kept"
    whole anew
    restart
    sched "" --nodes=1 --join-timeout=1
    ends 1 "$sched" "a scheduler without pods"
    nothing_left
    sched batch:3:end:stop --nodes=1 --keep-staging
    pod p1
    wait_for /proc/"$(child $sched)"/status '^State:.T'
    lose "$p1"
    kill -CONT "$(child $sched)"
    ends 1 "$sched" "a scheduler without pods left"
    [ -e C.bin.phobos-journal ] || fail "no journal is kept"
    sched "" --nodes=1 --resume
    pod p1
    ends 0 "$sched" "the scheduler that resumes"
    [ "$(kept sched.log)" -gt 0 ] || fail "nothing is kept"
    whole "kept staging"
}

# Where all is in place, and the run still ends with an error, the next one does not apply the job again.
local_done() {
    run='./run job.json --resume --progress=none' code=0
    restart
    $run >/dev/full 2>first.log || code=$?
    [ $code = 1 ] || fail "a run whose text is lost ended with $code"
    cmp C.bin expected.bin || fail "the output is not in place"
    mv C.bin moved && cp before.bin C.bin
    $run >second.log 2>&1 && fail "another file is taken for the output"
    says second.log "the job is done, and \".*C.bin\" is no more what it wrote; without --resume it begins anew"
    mv moved C.bin
    $run >second.log 2>&1 || fail "no resume after the output is in place"
    says second.log "the outputs of an earlier run are in place"
    whole "text that is lost"
}

# In one process: a journal is kept where --resume says so.
case_local() {
    make_product run
    for where in store:1:half batch:1:begin batch:5:end publish:1:begin publish:1:half publish:1:end goodbye:1:end; do
        restart
        code=0
        PHOBOS_CRASH_AT=$where ./run job.json --resume --pods=2 --progress=none >first.log 2>&1 || code=$?
        [ $code = 137 ] || fail "$where: ended with $code"
        ./run job.json --resume --pods=1 --progress=none >second.log 2>&1 || fail "$where: no resume"
        case $where in
        store:* | batch:1:*) [ "$(kept second.log)" = 0 ] || fail "$where: $(kept second.log) kept" ;;
        batch:5:*) [ "$(kept second.log)" = 5 ] || fail "$where: $(kept second.log) kept" ;;
        publish:1:begin) [ "$(kept second.log)" = 16 ] || fail "$where: $(kept second.log) kept" ;;
        publish:* | goodbye:*) says second.log "the outputs of an earlier run are in place" ;;
        esac
        whole $where
    done
    restart
    ./run job.json --resume --progress=none >second.log 2>&1 || fail "nothing to resume is no failure"
    whole "nothing to resume"
    local_done
}

# Outputs take their places one after another: what is left of that is finished, whoever ran the job.
case_two_outputs() {
    cat >two.phb <<'PHB'
@cluster(BLOCK in [256])
@autotune(BLOCK in [16])
kernel two(a: tensor<f32>[N], total: tensor<f32>[N], twice: tensor<f32>[N]) {
    let i = ctx.block.x * BLOCK
    total[i :+ BLOCK] = total[i :+ BLOCK] + a[i :+ BLOCK]
    twice[i :+ BLOCK] = a[i :+ BLOCK] * 2.0
}
PHB
    "$phobosc" --gpu=none two.phb -o run
    perl -e 'srand(3); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 4000)' >a.bin
    perl -e 'srand(4); binmode STDOUT; print pack("f<*", map { rand() } 1 .. 4000)' >before.bin
    printf '{"tensors": {"a": {"uri": "a.bin", "dtype": "f32", "shape": [4000]}, "total": {"uri": "total.bin", "dtype": "f32", "shape": [4000]},
        "twice": {"uri": "twice.bin", "dtype": "f32", "shape": [4000]}}}\n' >job.json
    cp before.bin total.bin
    ./run job.json --progress=none >local.log 2>&1 || fail "a run"
    nothing_left
    mv total.bin total.expected && mv twice.bin twice.expected
    for how in "env PHOBOS_CRASH_AT=rename:2:begin" "strace -f -qq -o trace -e trace=rename -e inject=rename:error=EIO:when=3"; do
        case $how in strace*) strace -o /dev/null true 2>/dev/null || continue ;; esac
        cp before.bin total.bin
        printf 'old contents' >twice.bin
        code=0
        $how ./run job.json --progress=none >first.log 2>&1 || code=$?
        case $how in
        env*) [ $code = 137 ] || fail "$how: ended with $code" ;;
        strace*)
            [ $code = 1 ] || fail "$how: ended with $code"
            says first.log "cannot rename .*twice.bin.*Input/output error; --resume puts the rest in place"
            ;;
        esac
        cmp total.bin total.expected || fail "$how: the first output is not in place"
        [ "$(cat twice.bin)" = 'old contents' ] || fail "$how: the second output was touched"
        ./run job.json --progress=none >plain.log 2>&1 && fail "$how: a plain run goes on"
        says plain.log "an earlier run was cut short while it put its outputs in place: --resume finishes that; or remove \".*total.bin.phobos-journal\""
        ./run job.json --resume --progress=none >second.log 2>&1 || fail "$how: no resume"
        cmp total.bin total.expected && cmp twice.bin twice.expected || fail "$how: wrong bytes"
        nothing_left
    done
}

for case in "$@"; do
    "case_$case"
done

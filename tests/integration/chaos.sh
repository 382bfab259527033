#!/bin/sh
# Jobs on pods to which something happens every second: a pod or the scheduler is killed, a pod stops for a while or leaves, another comes, the disk fills up. Each
# job ends well with the right bytes, or fails, says why, and has touched nothing; the same command with --resume goes on after a scheduler that was killed; who
# was stopped goes on at the end, and writes no more. No job takes longer than its bound. Of a hundred jobs at least half have to end well, and some resumed.
#
#   tests/integration/chaos.sh PHOBOSC SAMPLES SLOW_IO JOBS SEED
set -eu

# The disk is a tmpfs where root is there to make one, in a namespace that takes it away when the script is killed.
if [ "$(id -u)" = 0 ] && [ "${CHAOS_DISK-}" = "" ] && unshare -m true 2>/dev/null; then
    CHAOS_DISK=tmpfs exec unshare -m --propagation private "$0" "$@"
fi
phobosc=$1 samples=$2 slow_io=$3 jobs=$4 seed=$5 random=$5

. "$(dirname "$0")/../tools/processes.sh"

pods= sched= disk=
cleanup() {
    lose_all
    [ -z "$disk" ] || umount "$work/disk"
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: job $job ($kind $options), seed $seed: $*; faults: $faults" >&2
    ls -lA disk >&2
    tail -n 20 ./*.log >&2
    exit 1
}

# draw N: $drawn is 0 .. N-1, by a seed: the faults and their order are the same again, the moments nearly.
draw() {
    random=$(((random * 1103515245 + 12345) % 2147483648))
    drawn=$((random / 65536 % $1))
}

# signal SIGNAL PID: to what `timeout` watches; false where that has ended.
signal() {
    target=$(child "$2") && kill -"$1" "$target" 2>/dev/null
}

wake() {
    for pid in $stopped; do
        signal CONT "$pid" || true
    done
    stopped=
}

pod() {
    count=$((count + 1))
    LD_PRELOAD=$slow_io SLOW_IO_MS=40 timeout 120 ./$kind --role=pod --sched=$listen --node-name=p$count --threads=1 >p$count.log 2>&1 &
    pods="$pods $!"
}

lose_all() {
    for pid in $pods $sched; do
        signal KILL "$pid" || true
        wait "$pid" 2>/dev/null || true
    done
    pods= sched= stopped=
}

schedule() { # OPTION...
    # shellcheck disable=SC2086 # options, or none
    timeout 120 ./$kind --role=sched $options $kind.json --listen=$listen --nodes=2 --join-timeout=10 --deadline=2 --progress=none "$@" >sched.log 2>&1 &
    sched=$!
}

any_pod() {
    # shellcheck disable=SC2086
    set -- $pods
    draw $#
    shift $drawn
    victim=$1
}

# One that has an effect.
strike() {
    draw 7
    case $drawn in
    0) any_pod && signal KILL "$victim" && struck kill ;;
    1) any_pod && signal STOP "$victim" && stopped="$stopped $victim" && struck stop ;;
    2) [ -n "$stopped" ] && wake && struck wake ;;
    3) any_pod && signal TERM "$victim" && struck leave ;;
    4) pod && struck join ;;
    5)
        draw 192
        [ -n "$disk" ] && { dd if=/dev/zero of=disk/filler bs=64k count=$drawn 2>/dev/null || true; } && struck "fill-$drawn"
        ;;
    6) signal KILL "$sched" && struck kill-sched ;;
    esac
}

struck() {
    faults="$faults $1" strikes=$((strikes + 1))
}

numbers() { # SEED COUNT
    perl -e 'srand($ARGV[0]); binmode STDOUT; print pack("f<*", map { rand() } 1 .. $ARGV[1])' "$1" "$2"
}

mkdir disk
if [ "${CHAOS_DISK-}" = tmpfs ] && mount -t tmpfs -o size=12m none disk; then
    disk=1
else
    echo "no tmpfs: the disk does not fill up"
fi
for kind in add jacobi; do
    "$phobosc" --gpu=none "$samples/$kind/$kind.phb" -o $kind
done
"$phobosc" --gpu=none "$samples/flash_attention/flash_attention.phb" -o attention
"$phobosc" --gpu=none -D leaf.TILE_M=32 -D leaf.TILE_N=32 "$samples/matmul/matmul.phb" -o matmul
numbers 1 400000 >a.bin
numbers 2 400000 >b.bin
printf '{"dims": {"N": 400000}, "cluster": {"BLOCK": 8192}, "tensors": {"a": {"uri": "a.bin", "dtype": "f32", "shape": [400000]},
    "b": {"uri": "b.bin", "dtype": "f32", "shape": [400000]}, "c": {"uri": "disk/out.bin", "dtype": "f32", "shape": [400000]}}}\n' >add.json
printf '{"scalars": {"alpha": 1.5, "beta": 0.25}, "cluster": {"TILE_M": 64, "TILE_N": 64, "TILE_K": 128}, "tensors": {
    "A": {"uri": "a.bin", "dtype": "f32", "shape": [500, 800]}, "B": {"uri": "b.bin", "dtype": "f32", "shape": [800, 500]},
    "C": {"uri": "disk/out.bin", "dtype": "f32", "shape": [500, 500]}}}\n' >matmul.json
numbers 4 307200 >q.bin
printf '{"kernel": "attention_causal", "scalars": {"scale": 0.125}, "cluster": {"BH": 1, "BR": 128}, "tensors": {
    "Q": {"uri": "q.bin", "dtype": "f32", "shape": [32, 300, 32]}, "K": {"uri": "q.bin", "dtype": "f32", "shape": [32, 300, 32]},
    "V": {"uri": "q.bin", "dtype": "f32", "shape": [32, 300, 32]}, "O": {"uri": "disk/out.bin", "dtype": "f32", "shape": [32, 300, 32]}}}\n' >attention.json
count=0 job=0 kind= faults= options= stopped=
printf '{"dims": {"N": 500, "M": 500}, "tensors": {"plate": {"uri": "disk/out.bin", "dtype": "f32", "shape": [500, 500]}, "next": {}},
    "steps": [{"kernel": "jacobi", "tensors": {"u": "plate", "w": "next"}}, {"kernel": "jacobi", "tensors": {"u": "next", "w": "plate"}}],
    "repeat": 40}\n' >jacobi.json
for kind in add matmul attention jacobi; do
    numbers 3 250000 >disk/out.bin
    ./$kind $kind.json --progress=none >local.log 2>&1 || fail "without faults"
    mv disk/out.bin $kind.expected
done
numbers 3 250000 >before.bin

done=0 failed=0 resumed=0 strikes=0
while [ $job -lt "$jobs" ]; do
    job=$((job + 1)) faults= stopped= count=0 lock=
    draw 4
    case $drawn in 0) kind=add ;; 1) kind=matmul ;; 2) kind=attention ;; 3) kind=jacobi ;; esac
    draw 4
    options=
    case $drawn:$kind in 0:jacobi) ;; 0:*) options=--audit=20% ;; 1:*) options=--speculate ;; esac
    cp before.bin disk/out.bin
    schedule
    pod
    pod
    pod
    ticks=0
    while :; do
        code=0
        if [ -n "$(child "$sched" || true)" ] && [ $ticks -lt 40 ]; then
            sleep 1
            ticks=$((ticks + 1))
            if [ $ticks -le 8 ]; then
                strike || true
            fi
            continue
        fi
        wait "$sched" || code=$?
        case $code in
        0) break ;;
        1)
            grep -q '^error: ' sched.log || fail "it failed and did not say why"
            break
            ;;
        137)
            lose_all
            # In place, and killed while it waited for pods to say goodbye: nothing is left to resume, and its lock is for the next job to take.
            if cmp -s disk/out.bin $kind.expected && [ ! -e disk/out.bin.phobos-journal ]; then
                code=0 lock=out.bin.phobos-lock
                break
            fi
            resumed=$((resumed + 1))
            schedule --resume
            pod
            pod
            ;;
        *) fail "the scheduler ended with $code" ;;
        esac
    done
    sched=
    if [ -n "$stopped" ]; then
        wake
        sleep 1
    fi
    lose_all
    rm -f disk/filler
    # A resumption that failed has left what it found: once there is room, another one goes on.
    if [ $code = 1 ] && [ -e disk/out.bin.phobos-journal ]; then
        schedule --resume
        pod
        pod
        code=0
        wait "$sched" || code=$?
        lose_all
        [ $code = 0 ] || fail "the resumption without faults ended with $code"
    fi
    if [ $code = 0 ]; then
        cmp disk/out.bin $kind.expected || fail "wrong bytes"
        done=$((done + 1))
    else
        cmp disk/out.bin before.bin || fail "the old output was touched"
        failed=$((failed + 1))
    fi
    left=$(ls -A disk)
    [ "$left" = out.bin ] || [ "$left" = "out.bin
$lock" ] || fail "left behind: $left"
done
echo "$jobs jobs, $strikes faults: $done done, $failed failed with a message, $resumed resumptions, 0 wrong bytes, 0 hangs; seed $seed"
[ "$jobs" -lt 100 ] || { [ $((2 * done)) -ge "$jobs" ] && [ "$resumed" -gt 0 ]; }

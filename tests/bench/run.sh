#!/bin/sh
# Measures a release build against its peers: medians of alternating runs.
#
#   tests/bench/run.sh cpu [BUILD-FOLDER]        default build/release; needs 1.5 GiB in BENCH_DIR (default /dev/shm, a tmpfs)
#   tests/bench/run.sh cluster [BUILD-FOLDER]    storage is measured in BENCH_DISK (default /var/tmp), a file system on a disk
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
case ${1:-} in
cpu | cluster) table=$1 ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
bin=$(cd "${2:-$root/build/release}/bin" && pwd)
runs=${BENCH_RUNS:-9}
work=$(mktemp -d "${BENCH_DIR:-/dev/shm}/phobos-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

measure() {
    "$bin/measure" "$runs" "$@"
}

# row WHAT: reads "seconds KiB" of ours, then of each peer, named by the other arguments.
row() {
    what=$1
    shift
    read -r ours resident
    echo "$what: ours $ours s, $((resident / 1024)) MiB resident"
    for peer in "$@"; do
        read -r seconds resident
        echo "    $peer $seconds s, ratio $(echo "$ours $seconds" | awk '{ printf "%.2f", $1 / $2 }')"
    done
}

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors, $runs runs in $(df --output=fstype "$work" | tail -n 1)"

cp "$root/samples/add/add.phb" "$here/add/job.json" "$work"
cd "$work"

cpu() {
    for sample in "$root"/samples/*/*.phb; do
        measure -- "$bin/phobosc" "$sample" -o sample --gpu=none 2>warnings | row "phobosc $(basename "$sample") --gpu=none"
        measure -- "$bin/phobosc" "$sample" -o sample 2>warnings | row "phobosc $(basename "$sample"), PTX as well"
        echo "    an executable of $(($(stat -c %s sample) / 1024)) KiB"
    done
    "$bin/phobosc" add.phb -o add --gpu=none
    "$bin/oracle_add" make job.json
    measure -- ./add job.json --threads=2 --progress=none -- "$bin/bench_add_peer" a.bin b.bin peer.bin 262144 -- "$bin/bench_add_peer" a.bin b.bin peer.bin |
        row "add f32, 2^26, 2 threads" "plain C, 1 MiB at a time" "plain C, all at once"
    "$bin/oracle_add" check job.json
    "$bin/bench_rows" 1 "$runs"
    "$bin/bench_rows" 2 "$runs"
    "$bin/bench_threads" 1 "$runs"
    "$bin/bench_threads" 2 "$runs"
    if [ -x "$bin/bench_gemm" ]; then
        "$bin/bench_gemm" 1 "$runs"
        "$bin/bench_gemm" 2 "$runs"
        echo "code for x86-64-v3"
        PHOBOS_CPU_LEVEL=x86-64-v3 "$bin/bench_gemm" 1 "$runs"
    else
        echo "gemm, attention: not measured, OpenBLAS is not installed"
    fi
}

# scheduler_and_pods PODS JOB OPTION...: a script that runs a job by a scheduler and pods of one thread each.
scheduler_and_pods() {
    cat <<'SCRIPT'
#!/bin/sh
pods=$1 job=$2
shift 2
./add --role=sched "$job" --nodes="$pods" --progress=none "$@" &
scheduler=$!
i=0
while [ $i -lt "$pods" ]; do
    ./add --role=pod --threads=1 --node-name=p$i --log=error &
    i=$((i + 1))
done
wait $scheduler
SCRIPT
}

cluster() {
    for threads in 1 2; do
        BENCH_DIR=${BENCH_DISK:-/var/tmp} "$bin/bench_storage" $threads "$runs"
    done
    "$bin/bench_fetch" 2 "$runs"
    "$bin/phobosc" add.phb -o add --gpu=none
    scheduler_and_pods >cluster.sh
    echo './add job.json --threads=2 --progress=none' >local.sh
    "$bin/oracle_add" make job.json
    measure -- sh cluster.sh 2 job.json -- sh local.sh |
        row "add f32, 2^26, scheduler and two pods of one thread, from a shell" "one process, 2 threads, from a shell"
    "$bin/oracle_add" check job.json
    # Small tiles: what a unit costs beside its bytes.
    sed 's/"dims"/"cluster": { "BLOCK": 4096 }, "dims"/' job.json >small.json
    measure -- sh cluster.sh 2 small.json | row "the same in 16384 tiles of 16 KiB"
    sh cluster.sh 2 small.json --log=debug 2>&1 | sed -n 's/^the scheduler took/    &/p'
    measure -- sh cluster.sh 64 small.json | row "the same by 64 pods"
}

$table

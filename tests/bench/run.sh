#!/bin/sh
# Measures a release build against its peers: medians of alternating runs.
#
#   tests/bench/run.sh cpu [BUILD-FOLDER]        default build/release; needs 1.5 GiB in BENCH_DIR (default /dev/shm, a tmpfs)
#   tests/bench/run.sh cluster [BUILD-FOLDER]    storage is measured in BENCH_DISK (default /var/tmp), a file system on a disk
#   tests/bench/run.sh peers [BUILD-FOLDER]      a part of cluster: the same work by MPI and by Dask, where they are installed; BENCH_N=8192, 1 GiB
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
case ${1:-} in
cpu | cluster | peers) table=$1 ;;
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
    peers
}

# beside_peers WHAT LENGTH ARGUMENT...: ours, `two.sh`, and the peers that are there, with these arguments before the file C; results are compared.
beside_peers() {
    what=$1 length=$2
    shift 2
    mpi="mpirun --allow-run-as-root --oversubscribe -n 2 env OPENBLAS_NUM_THREADS=1 ./mpi $* C.mpi"
    dask="$python $here/peers/dask_peer.py $* C.dask"
    [ -x mpi ] || mpi=
    [ -n "$python" ] || dask=
    # shellcheck disable=SC2086 # commands
    measure -- sh two.sh ${mpi:+-- $mpi} ${dask:+-- $dask} >times
    row "$what, scheduler and two pods of one thread" ${mpi:+"MPI, two ranks"} ${dask:+"Dask, two processes of one thread"} <times
    [ ! -x mpi ] || ./mpi compare "$length" C.bin C.mpi
    [ ! -x mpi ] || [ -z "$python" ] || ./mpi compare "$length" C.bin C.dask
}

# The same work by ours and by others who spread it: BENCH_N is the extent of matrices, BENCH_LENGTH that of a sum, BENCH_PEER_RUNS how often all run.
peers() {
    n=${BENCH_N:-8192} length=${BENCH_LENGTH:-67108864} runs=${BENCH_PEER_RUNS:-3} python=
    mpicc -O3 -march=native "$here/peers/mpi.c" -o mpi -lopenblas -lm 2>mpi.log || echo "MPI: not measured, there is no mpicc with OpenBLAS (libopenmpi-dev, libopenblas-dev)"
    for candidate in python3 /usr/bin/python3; do
        [ -n "$python" ] || ! "$candidate" -c 'import dask.array, distributed' 2>/dev/null || python=$candidate
    done
    [ -n "$python" ] || echo "Dask: not measured, there is no Python with dask.array and distributed (python3-distributed)"
    rm -f add ./*.bin
    scheduler_and_pods >cluster.sh
    "$bin/phobosc" "$here/peers/kernels.phb" -o add --gpu=none
    matrix="\"dtype\": \"f32\", \"shape\": [$n, $n]"
    super=$((n / 4))
    cat >product.json <<JOB
{ "kernel": "product", "cluster": { "TM": $super, "TN": $super, "TK": 1024 },
  "tensors": { "A": { "uri": "A.bin", $matrix }, "B": { "uri": "B.bin", $matrix }, "C": { "uri": "C.bin", $matrix } } }
JOB
    perl -e 'srand(1); $b = pack("f<*", map { rand() - 0.5 } 1 .. 1 << 20); $s = pop; while ($s > 0) { print substr $b, 0, $s; $s -= length $b }' \
        $((n * n * 4)) >A.bin
    perl -e 'srand(2); $b = pack("f<*", map { rand() - 0.5 } 1 .. 1000003); $s = pop; while ($s > 0) { print substr $b, 0, $s; $s -= length $b }' \
        $((n * n * 4)) >B.bin

    # One pod of two threads, against the leaf by itself and what its bytes take; then two pods of one thread against one.
    threads() { sed "s/--threads=1/--threads=$1/" cluster.sh; }
    threads 2 >cluster2.sh
    echo "cat A.bin B.bin >/dev/null && dd if=/dev/zero of=floor bs=16M count=$((n * n * 4 >> 24)) conv=fdatasync 2>/dev/null" >floor.sh
    measure -- sh cluster2.sh 1 product.json -- sh cluster.sh 1 product.json -- sh cluster.sh 2 product.json -- sh floor.sh >times
    rate=
    [ ! -x "$bin/bench_gemm" ] || rate=$("$bin/bench_gemm" 2 "$runs" | sed -n 's/.*f32 2048.*ours \([0-9.]*\).*/\1/p')
    awk -v n="$n" -v rate="$rate" '{ t[NR] = $1 }
        END { printf "product f32 %d^3, 16 super-tiles: one pod of two threads %.2f s, of one thread %.2f s, two pods of one thread %.2f s: %.2f times as fast as one\n",
                  n, t[1], t[2], t[3], t[2] / t[3]
              if (rate > 0) { bare = 2 * n ^ 3 / (rate * 1e9)
                  printf "    the leaf alone %.2f s, the bytes %.2f s: one pod of two threads takes %.2f of both\n", bare, t[4], t[1] / (bare + t[4]) } }' times
    rm -f floor

    echo 'exec sh cluster.sh 2 product.json' >two.sh
    beside_peers "product f32 $n^3" $((n * n)) product "$n" A.bin B.bin

    vector="\"dtype\": \"f32\", \"shape\": [$length]"
    cat >sum.json <<JOB
{ "kernel": "add", "tensors": { "A": { "uri": "A.bin", $vector }, "B": { "uri": "B.bin", $vector }, "C": { "uri": "C.bin", $vector } } }
JOB
    rm C.*
    truncate -s $((length * 4)) A.bin B.bin
    echo 'exec sh cluster.sh 2 sum.json' >two.sh
    beside_peers "add f32 $length" "$length" add "$length" A.bin B.bin

    m=$((n / 2))
    matrix="\"dtype\": \"f32\", \"shape\": [$m, $m]"
    cat >steps.json <<JOB
{ "steps": [ { "kernel": "jacobi", "tensors": { "u": "first", "w": "u0" } }, { "kernel": "jacobi", "tensors": { "u": "u0", "w": "C" } },
             { "kernel": "jacobi", "tensors": { "u": "C", "w": "u0" } }, { "kernel": "jacobi", "tensors": { "u": "u0", "w": "C" } } ],
  "tensors": { "first": { "uri": "A.bin", $matrix }, "u0": {}, "C": { "uri": "C.bin", $matrix } } }
JOB
    rm C.*
    truncate -s $((m * m * 4)) A.bin
    echo 'exec sh cluster.sh 2 steps.json --placement=block' >two.sh
    beside_peers "Jacobi f32 $m^2, 4 times" $((m * m)) jacobi "$m" 4 A.bin
}

$table

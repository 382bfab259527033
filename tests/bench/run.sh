#!/bin/sh
# Measures a release build against its peers: medians of alternating runs.
#
#   tests/bench/run.sh cpu [BUILD-FOLDER]      default build/release; needs 1.5 GiB in BENCH_DIR (default /dev/shm, a tmpfs)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
[ "${1:-}" = cpu ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
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
measure -- "$bin/phobosc" add.phb -o add --gpu=none | row "phobosc add.phb -o add --gpu=none"
"$bin/oracle_add" make job.json
measure -- ./add job.json --threads=2 --progress=none -- "$bin/bench_add_peer" a.bin b.bin peer.bin 262144 -- "$bin/bench_add_peer" a.bin b.bin peer.bin |
    row "add f32, 2^26, 2 threads" "plain C, 1 MiB at a time" "plain C, all at once"
"$bin/oracle_add" check job.json

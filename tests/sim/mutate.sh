#!/bin/sh
# Plants each fault of mutations.txt in a copy of the cores, builds the simulator that drives them over it, and expects a violation.
#
#     mutate.sh SOURCE_DIR WORK_DIR CC [SEEDS]
set -eu
. "$(dirname "$0")/../tools/plant.sh"
source=$1 work=$2 cc=$3 seeds=${4:-20000}
flags="-std=c17 -D_GNU_SOURCE -O1"
control="runtime/sched/core.c runtime/sched/deal.c runtime/sched/join.c runtime/sched/peers.c runtime/sched/place.c runtime/pod/agent.c runtime/net/wire.c
    runtime/error.c"
tiles="runtime/pod/shelf.c runtime/pod/transfer.c runtime/sched/share.c runtime/sched/place.c runtime/sched/step.c runtime/error.c"
rm -rf "$work" && mkdir -p "$work"

plant() {
    mkdir -p "$work/$planted"
    files= sim=control cores=$control few=$seeds
    case $file in
    runtime/pod/shelf.c | runtime/pod/transfer.c | runtime/sched/share.c) sim=tile cores=$tiles few=$((seeds / 10)) ;;
    esac
    for core in $cores; do
        if [ "$core" = "$file" ]; then
            faulty "$source/$core" >"$work/$planted/mutant.c"
            files="$files $work/$planted/mutant.c"
        else
            files="$files $source/$core"
        fi
    done
    # shellcheck disable=SC2086
    $cc $flags -I"$source" "$source/tests/sim/${sim}_sim.c" $files -o "$work/$planted/sim"
    status=0
    timeout 120 "$work/$planted/sim" --seeds "$few" >"$work/$planted/log" 2>&1 || status=$?
    case $status in
    0 | 124) # nothing, or not in the time there is
        echo "MISSED: $name (status $status)"
        missed=$((missed + 1))
        ;;
    *) echo "found: $name ($(tail -n 1 "$work/$planted/log"))" ;;
    esac
}

plant_each "$source/tests/sim/mutations.txt" plant

#!/bin/sh
# Plants each fault of mutations.txt in a copy of the cores, builds the simulator that drives them over it, and expects a violation.
#
#     mutate.sh SOURCE_DIR WORK_DIR CC [SEEDS]
set -eu
. "$(dirname "$0")/../tools/plant.sh"
source=$1 work=$2 cc=$3 seeds=${4:-50000}
flags="-std=c17 -D_GNU_SOURCE -O1"

# What a simulator is linked of, as CMakeLists.txt has it.
linked() {
    sed -n "/^set($1\$/,/^)/s/.*{PROJECT_SOURCE_DIR}\///p" "$source/tests/sim/CMakeLists.txt"
}

control=$(linked cores)
tiles=$(linked tiles)
rm -rf "$work" && mkdir -p "$work"

# compile FILE OBJECT
compile() {
    # shellcheck disable=SC2086
    $cc $flags -I"$source" -c "$1" -o "$2"
}

object_of() {
    echo "$work/$(echo "$1" | tr / _).o"
}

for part in $(printf '%s\n' $control $tiles | sort -u) tests/sim/control_sim.c tests/sim/control_world.c tests/sim/control_rounds.c tests/sim/tile_sim.c; do
    compile "$source/$part" "$(object_of "$part")"
done

plant() {
    mkdir -p "$work/$planted"
    parts="tests/sim/control_sim.c tests/sim/control_world.c tests/sim/control_rounds.c $control" few=$seeds
    case $file in
    runtime/pod/shelf.c | runtime/pod/transfer.c | runtime/sched/relay.c | runtime/sched/share.c) parts="tests/sim/tile_sim.c $tiles" few=$((seeds / 10)) ;;
    esac
    faulty "$source/$file" >"$work/$planted/mutant.c"
    compile "$work/$planted/mutant.c" "$work/$planted/mutant.o"
    objects=$work/$planted/mutant.o
    for part in $parts; do
        [ "$part" = "$file" ] || objects="$objects $(object_of "$part")"
    done
    # shellcheck disable=SC2086
    $cc $objects -o "$work/$planted/sim"
    status=0
    timeout 120 "$work/$planted/sim" --seeds "$few" --until-violated >"$work/$planted/log" 2>&1 || status=$?
    case $status in
    0 | 124) # nothing, or not in the time there is
        echo "MISSED: $name (status $status)"
        missed=$((missed + 1))
        ;;
    *) echo "found: $name ($(tail -n 1 "$work/$planted/log"))" ;;
    esac
}

plant_each "$source/tests/sim/mutations.txt" plant

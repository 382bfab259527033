#!/bin/sh
# Plants each fault of faults.txt in a copy of the sources, builds the tests of the cluster reading, and expects that one of them fails. --check: only
# whether every fault can still be planted. The copy is built where presets build, so that a compiler cache knows most of it.
#
#     faults.sh --check SOURCE_DIR
#     faults.sh SOURCE_DIR WORK_DIR [FIRST [LAST]]
set -eu
. "$(dirname "$0")/../tools/plant.sh"
check=
[ "$1" != --check ] || { check=1 && shift; }
source=$1 work=${2:-} first=${3:-1} last=${4:-1000}
sound=

# Tests by the half that the fault is in.
tests_of() {
    case $1 in
    compiler/*) echo cluster_test cluster_stage_test cluster_meaning_test ;;
    *) echo stages_test plan_test cost_test engine_test ;;
    esac
}

if [ -z "$check" ]; then
    mkdir -p "$work"
    rm -rf "$work/source" && mkdir "$work/source"
    cp -R "$source/CMakeLists.txt" "$source/CMakePresets.json" "$source/cmake" "$source/compiler" "$source/runtime" "$source/samples" "$source/tests" "$work/source"
    cmake -S "$work/source" -B "$work/source/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$work/log"
fi

# The first test that fails, in $found.
run_tests() {
    found=
    for test in $(tests_of "$1"); do
        cmake --build "$work/source/build/release" --target "$test" >>"$work/log" 2>&1 || { echo "$name: does not build" && found= && return; }
        timeout 300 "$work/source/build/release/bin/$test" >"$work/found" 2>&1 || { found=$test && return; }
    done
}

# Before the first fault of a half: its tests find nothing.
hold_sound() {
    half=${file%%/*}/
    case $sound in *"$half"*) return ;; esac
    run_tests "$half"
    [ -z "$found" ] || { echo "no fault in $half: $found fails" && cat "$work/found" && exit 1; }
    sound="$sound $half"
}

hunt() {
    hold_sound
    faulty "$source/$file" >"$work/source/$file"
    run_tests "$file"
    echo "$name: ${found:-MISSED}"
    [ -n "$found" ] || missed=$((missed + 1))
    cp "$source/$file" "$work/source/$file"
}

plant() {
    if [ -n "$check" ]; then
        faulty "$source/$file" >/dev/null || missed=$((missed + 1))
    elif [ "$planted" -ge "$first" ] && [ "$planted" -le "$last" ]; then
        hunt
    fi
}

plant_each "$source/tests/cluster/faults.txt" plant

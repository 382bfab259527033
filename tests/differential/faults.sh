#!/bin/sh
# Plants each fault of faults.txt in a copy of the sources, builds phobosc, expects that random kernels find it, and that what found it shrinks to a few
# lines. Prints the table of docs/testing.md. --check: only whether every fault can still be planted.
#
#     faults.sh --check SOURCE_DIR
#     faults.sh SOURCE_DIR WORK_DIR DIFFERENTIAL [KERNELS [FIRST [LAST [SHRINKS]]]]
set -eu
. "$(dirname "$0")/../tools/plant.sh"
most_lines=15
check=
[ "$1" != --check ] || { check=1 && shift; }
source=$1 work=${2:-} differential=${3:-} kernels=${4:-500} first=${5:-1} last=${6:-1000} shrinks=${7:-1}

# The copy is built where the sources build their own release, so that a compiler cache knows its objects.
build=$work/source/build/release

if [ -z "$check" ]; then
    mkdir -p "$work/source"
    rm -rf "$work/source/cmake" "$work/source/compiler" "$work/source/runtime" "$work/source/tests"
    cp -Rp "$source/CMakeLists.txt" "$source/CMakePresets.json" "$source/cmake" "$source/compiler" "$source/runtime" "$source/tests" "$work/source"
    # A run that was stopped may have left a fault in an object.
    grep '^compiler/' "$source/tests/differential/faults.txt" | while read -r file; do touch "$work/source/$file"; done
    (cd "$work/source" && cmake --preset release) >"$work/log"
    cmake --build "$build" -j2 --target phobosc >>"$work/log"
    printf '| fault | seed | found | kernel | lines of the smallest |\n|---|---|---|---|---|\n'
fi

hunt() {
    cp "$work/source/$file" "$work/sound"
    faulty "$work/sound" >"$work/source/$file"
    cmake --build "$build" -j2 --target phobosc >>"$work/log" 2>&1
    if "$differential" "$build/bin/phobosc" "$work/run" --count="$kernels" --chunk=10 --seed="$planted" --shrinks="$shrinks" --stop --quick >"$work/found" 2>&1; then
        echo "| $name | $planted | MISSED | | |"
        missed=$((missed + 1))
    else
        lines=$(sed -n '/^smaller:/,/^stopped:/p' "$work/found" | sed -n '/^\/\/ differential/,$p' | grep -c '^[^/].*[^ ]' || true)
        lines=$((lines - 1)) # the one that says "stopped"
        [ "$shrinks" -gt 0 ] || lines=-
        echo "| $name | $planted | $(sed -n 's/^stopped: \(.*\), after kernel \(.*\)/\1 | \2/p' "$work/found") | $lines |"
        grep -q '^stopped: [wbrc]' "$work/found" || missed=$((missed + 1)) # not that the front end refused a text
        [ "$lines" = - ] || [ "$lines" -le $most_lines ] || { missed=$((missed + 1)) && cat "$work/found"; }
    fi
    cp "$work/sound" "$work/source/$file"
}

plant() {
    if [ -n "$check" ]; then
        faulty "$source/$file" >/dev/null || missed=$((missed + 1))
    elif [ "$planted" -ge "$first" ] && [ "$planted" -le "$last" ]; then
        hunt
    fi
}

plant_each "$source/tests/differential/faults.txt" plant

#!/bin/sh
# Plants each fault of faults.txt in a copy of the sources, builds the tests of the cluster reading, and expects that one of them fails. --check: only
# whether every fault can still be planted. The copy is built where presets build, so that a compiler cache knows most of it.
#
#     faults.sh --check SOURCE_DIR
#     faults.sh SOURCE_DIR WORK_DIR [FIRST [LAST]]
set -eu
check=
[ "$1" != --check ] || { check=1 && shift; }
source=$1 work=${2:-} first=${3:-1} last=${4:-1000}
missed=0 planted=0 sound=

# Tests by the half that the fault is in.
tests_of() {
    case $1 in
    compiler/*) echo cluster_test cluster_stage_test cluster_meaning_test ;;
    *) echo stages_test plan_test engine_test ;;
    esac
}

if [ -z "$check" ]; then
    mkdir -p "$work"
    rm -rf "$work/source" && mkdir "$work/source"
    cp -R "$source/CMakeLists.txt" "$source/CMakePresets.json" "$source/cmake" "$source/compiler" "$source/runtime" "$source/samples" "$source/tests" "$work/source"
    cmake -S "$work/source" -B "$work/source/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$work/log"
fi

# The file with the fault in it, on standard output.
faulty() {
    OLD=$old NEW=$new perl -0pe '
        my $count = s/\Q$ENV{OLD}\E/$ENV{NEW}/g;
        die "not there exactly once in $ARGV: $ENV{OLD}\n" unless $count == 1;' "$source/$file"
}

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
    faulty >"$work/source/$file"
    run_tests "$file"
    echo "$name: ${found:-MISSED}"
    [ -n "$found" ] || missed=$((missed + 1))
    cp "$source/$file" "$work/source/$file"
}

plant() {
    planted=$((planted + 1))
    if [ -n "$check" ]; then
        faulty >/dev/null || missed=$((missed + 1))
    elif [ "$planted" -ge "$first" ] && [ "$planted" -le "$last" ]; then
        hunt
    fi
}

state=name
while IFS= read -r line || [ -n "$line" ]; do
    case "$state:$line" in
    name:\#* | name:) continue ;;
    name:*) name=$line state=file ;;
    file:*) file=$line state=old ;;
    old:*) old=$line state=new ;;
    new:*) new=$line state=name && plant ;;
    esac
done <"$source/tests/cluster/faults.txt"
echo "$planted faults, $missed missed"
[ "$planted" -gt 0 ] && [ "$missed" -eq 0 ]

#!/bin/sh
# Plants each fault of faults.txt in a copy of the sources, builds phobosc, and expects that random kernels find it.
#
#     faults.sh SOURCE_DIR WORK_DIR DIFFERENTIAL [KERNELS]
set -eu
source=$1 work=$2 differential=$3 kernels=${4:-500}
rm -rf "$work" && mkdir -p "$work"
cp -R "$source/CMakeLists.txt" "$source/CMakePresets.json" "$source/cmake" "$source/compiler" "$source/runtime" "$source/tests" "$work"
cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$work/log"
cmake --build "$work/build" --target phobosc >>"$work/log"
missed=0 planted=0

plant() {
    planted=$((planted + 1))
    OLD=$old NEW=$new perl -0pe '
        my $count = s/\Q$ENV{OLD}\E/$ENV{NEW}/g;
        die "not there exactly once: $ENV{OLD}\n" unless $count == 1;' "$source/$file" >"$work/$file"
    cmake --build "$work/build" --target phobosc >>"$work/log"
    if "$differential" "$work/build/bin/phobosc" "$work/run" --count="$kernels" --seed="$planted" --stop >"$work/found" 2>&1; then
        echo "MISSED: $name"
        missed=$((missed + 1))
    else
        echo "found: $name ($(tail -n 1 "$work/found"))"
    fi
    cp "$source/$file" "$work/$file"
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
done <"$source/tests/differential/faults.txt"
echo "$planted planted, $missed missed"
[ "$planted" -gt 0 ] && [ "$missed" -eq 0 ]

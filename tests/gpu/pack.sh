#!/bin/sh
# pack.sh FOLDER: what tests/gpu/run.sh needs on a machine with a GPU and nothing of ours: FOLDER/pack.tar.xz and run.sh. Compiled by build/release, or
# $BUILD, or by $PHOBOSC, for the targets in $GPU (auto). $KERNELS random kernels (500) go into ten executables.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${BUILD:-$source/build/release}" && pwd)
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
phobosc=${PHOBOSC:-$build/bin/phobosc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pack=$work/pack
mkdir -p "$pack/lib" "$pack/ptx" "$pack/generated"

# ---- every test of a whole kernel: the kernel's executable, its oracle, its jobs ----
ctest --test-dir "$build" --show-only=json-v1 >"$work/tests.json"
python3 - "$work/tests.json" >"$work/list" <<'END'
import json, sys
for test in json.load(open(sys.argv[1]))["tests"]:
    command = test.get("command", [""])
    if command[0].endswith("run_kernel.sh"):
        print(test["name"].split("/")[1], command[2], command[3], *command[5:])
END
while read -r name oracle kernel jobs; do
    mkdir -p "$pack/samples/$name"
    cp "$oracle" "$pack/samples/$name/oracle"
    "$phobosc" -w --cpu=x86-64-v3 --gpu="${GPU:-auto}" "$kernel" -o "$pack/samples/$name/kernel"
    # shellcheck disable=SC2086 # jobs are words
    cp $jobs "$pack/samples/$name"
done <"$work/list"
for kernel in "$source"/samples/*/*.phb "$source"/tests/gpu/kernels/*.phb; do
    "$phobosc" -w --no-cluster --gpu=auto,sm_90a --emit=ptx "$kernel" -o "$pack/ptx/$(basename "$kernel" .phb).ptx"
done

# ---- random kernels: carried.sh stands for the compiler, here and there ----
kernels=$((${KERNELS:-500} / 10))
cp "$build/bin/differential" "$source/tests/gpu/carried.sh" "$pack/generated"
for seed in 1 2 3 4 5 6 7 8 9 10; do
    mkdir "$pack/generated/$seed"
    CARRIED=$pack/generated/$seed PHOBOSC=$phobosc "$build/bin/differential" "$pack/generated/carried.sh" "$work/differential" --seed=$seed --count=$kernels \
        --shrinks=0 >/dev/null || true # nothing can run here
    echo "$kernels" >"$pack/generated/$seed/count"
    rm -rf "$work/differential"
done

# ---- products and kinds of attention that no pass was written for ----
mkdir "$pack/foreign"
for kernel in "$source"/tests/foreign/*.phb; do
    "$phobosc" -w --cpu=x86-64-v3 --gpu=sm_80,sm_90a "$kernel" -o "$pack/foreign/$(basename "$kernel" .phb)"
done
cp "$source"/tests/foreign/*.py "$pack/foreign"

# ---- a driver whose launches fail: linked against a name that run.py gives to the real one ----
mkdir "$pack/faults"
cc -shared -o "$work/libcuda_real.so" -Wl,-soname,libcuda_real.so -x c /dev/null
cc -std=c17 -O1 -Wall -Wextra -shared -fPIC -o "$pack/faults/libcuda.so.1" "$source/tests/gpu/sticky.c" -Wl,--no-as-needed "$work/libcuda_real.so"

# ---- libraries that the oracles need ----
for program in "$pack"/samples/*/oracle "$pack/generated/differential"; do
    ldd "$program" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m)\.so/ { print $3 }'
done | sort -u | while read -r library; do
    cp -L "$library" "$pack/lib"
done
cp "$source"/tests/gpu/*.py "$pack"
strip "$pack"/samples/*/oracle "$pack/generated/differential"
XZ_OPT='-6 --lzma2=dict=64MiB' tar -C "$pack" -cJf "$folder/pack.tar.xz" .
cp "$source/tests/gpu/run.sh" "$folder"
echo "$(du -m "$folder/pack.tar.xz" | cut -f1) MiB: $(wc -l <"$work/list") samples, $((kernels * 10)) random kernels"

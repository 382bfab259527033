#!/bin/sh
# A million executions of each fuzzer, by libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer or by AFL++. They start from the saved corpora,
# those of the compiler from every kernel and IR text of the tests as well; what they find stays in WORK_DIR.
#
#     long.sh libfuzzer|afl SOURCE_DIR WORK_DIR [EXECUTIONS [SEED [TARGET..]]]
set -eu
engine=$1 source=$2 work=$3 executions=${4:-1000000} seed=${5:-1}
[ $# -ge 5 ] && shift 5 || shift $#
[ $# -gt 0 ] || set -- parse_fuzz sema_fuzz ir_fuzz wire_fuzz job_fuzz journal_fuzz npy_fuzz
case $engine in
libfuzzer) compiler=clang options=-DPHOBOS_SANITIZE=address,undefined ;;
afl) compiler=afl-clang-fast options= ;;
esac
command -v "$compiler" >/dev/null || { echo "no $compiler here"; exit 77; }
mkdir -p "$work"
CC=$compiler cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPHOBOS_FUZZ="$engine" $options >"$work/log"
for target; do
    cmake --build "$work/build" --target "${target}_$engine" >>"$work/log"
done

# Numbered copies, as names repeat in the folders.
gather() {
    mkdir -p "$2"
    count=0
    # fn_too_large is 262144 operations: a second each time that something is changed in it.
    find "$source/tests/golden" "$source/tests/diag" "$source/samples" -name "*.$1" ! -name fn_too_large.phb | LC_ALL=C sort | while read -r file; do
        count=$((count + 1))
        cp "$file" "$2/$count"
    done
    cp "$source/tests/fuzz/corpus/$3"/* "$2"
}

# A large quarantine, whose pages are always new ones, and entropic weights would take half of the time.
run_libfuzzer() {
    mkdir -p "$work/$1"
    ASAN_OPTIONS=quarantine_size_mb=1:thread_local_quarantine_size_kb=64:malloc_context_size=4 \
        "$work/build/bin/$1_libfuzzer" -seed="$seed" -runs="$executions" -entropic=0 -max_len=4096 -timeout=60 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$work/$1-" "$work/$1" "$work/$1.seeds" >"$work/$1.log" 2>&1 </dev/null || return 1
    sed -n 's/^stat::number_of_executed_units: /executions: /p' "$work/$1.log"
}

run_afl() {
    AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_UI=1 AFL_AUTORESUME=1 \
        afl-fuzz -m none -t 10000+ -i "$work/$1.seeds" -o "$work/$1" -E "$executions" -- "$work/build/bin/$1_afl" >"$work/$1.log" 2>&1 || return 1
    grep -E '^(execs_done|saved_crashes|saved_hangs)' "$work/$1/default/fuzzer_stats"
    grep -q '^saved_crashes *: 0$' "$work/$1/default/fuzzer_stats"
}

failed=0
for target; do
    rm -rf "$work/$target.seeds"
    case $target in
    ir_fuzz) gather ir "$work/$target.seeds" $target ;;
    parse_fuzz | sema_fuzz) gather phb "$work/$target.seeds" $target ;;
    *) cp -r "$source/tests/fuzz/corpus/$target" "$work/$target.seeds" ;;
    esac
    echo "$target, seed $seed"
    "run_$engine" $target || { failed=1 && tail -n 40 "$work/$target.log"; }
done
exit $failed

#!/bin/sh
# From a fresh Debian 12 to a finished job, or to green tests.
#
#   ./build.sh            builds phobosc into build/release/bin
#   ./build.sh demo       and compiles samples/add, runs its job and checks every bit
#   ./build.sh test       release, ASan + UBSan and TSan builds, each with its tests; --long for the full counts as well
set -eu
cd "$(dirname "$0")"

packages="cmake ninja-build gcc g++ binutils pkg-config libc6-dev
    llvm-19-dev llvm-19-tools libzmq3-dev libsodium-dev libjansson-dev libxxhash-dev libpng-dev check libsubunit-dev
    python3-numpy"
test_packages="gdb make meson dpkg-dev neovim strace zsh fish groff python3-mpmath python3-jsonschema systemd
    slurmctld slurmd slurm-client munge iproute2 nftables faketime procps"

# install_packages [PACKAGE...]: what building takes, and these.
install_packages() {
    command -v dpkg-query >/dev/null || return 0 # not Debian: CMake names what is absent
    missing=
    for package in $packages "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "installing$missing"
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -q
    # shellcheck disable=SC2086 # package names are words
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y --no-install-recommends $missing
}

# build PRESET [TARGET...]: quiet unless it fails.
build() {
    preset=$1
    shift
    log=$(mktemp)
    if ! { cmake --preset "$preset" && cmake --build --preset "$preset" ${1:+--target "$@"}; } >"$log" 2>&1; then
        cat "$log"
        rm -f "$log"
        echo "build of $preset failed" >&2
        return 1
    fi
    rm -f "$log"
}

demo() {
    build release phobosc oracle_add
    bin=$PWD/build/release/bin
    folder=$PWD/build/demo
    mkdir -p "$folder"
    cp samples/add/add.phb samples/add/job.json "$folder"
    cd "$folder"
    "$bin/oracle_add" make job.json

    cat add.phb
    echo '$ phobosc add.phb -o add'
    "$bin/phobosc" add.phb -o add
    echo '$ ./add job.json'
    ./add job.json
    "$bin/oracle_add" check job.json

    # The same by a scheduler and two pods, from nothing again.
    "$bin/oracle_add" make job.json
    echo '$ ./add --role=pod & ./add --role=pod & ./add --role=sched job.json --nodes=2'
    ./add --role=pod --node-name=first &
    ./add --role=pod --node-name=second &
    result=0
    ./add --role=sched job.json --nodes=2 || result=$?
    wait
    [ $result = 0 ] || return $result
    "$bin/oracle_add" check job.json
}

# run_tests PRESET CTEST-ARGUMENTS...: the last lines of ctest also go into the summary.
run_tests() {
    preset=$1
    shift
    result=0
    ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "$@" >"build/$preset/ctest.log" 2>&1 || result=1
    cat "build/$preset/ctest.log"
    summary="$summary
$preset:
$(grep 'tests passed' "build/$preset/ctest.log" || echo 'no test ran')"
    [ $result = 0 ] || failed=1
}

run_all_tests() {
    long="-LE long"
    [ "${1:-}" != --long ] || long=
    export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan.supp"
    failed=0
    summary=
    # shellcheck disable=SC2086 # ctest arguments are words
    if build release; then run_tests release $long; else failed=1; fi
    # What runs other processes for most of its time, or compiles many kernels, has been run by the release build.
    # shellcheck disable=SC2086
    if build asan; then run_tests asan -L '^(unit|golden|diag|run|fuzz)$' $long; else failed=1; fi
    # shellcheck disable=SC2086
    if build tsan thread_tests; then run_tests tsan -L threads $long; else failed=1; fi
    echo "$summary"
    return $failed
}

case "${1:-}" in
'')
    install_packages
    build release phobosc
    ;;
demo)
    install_packages
    demo
    ;;
test)
    # shellcheck disable=SC2086 # package names are words
    install_packages $test_packages
    run_all_tests "${2:-}"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

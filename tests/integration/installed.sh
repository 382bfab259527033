#!/bin/sh
# Phobos as it is installed: the tree that `cmake --install` lays out, moved elsewhere, whose pages link to nothing that is not there, and build systems that
# use it, each with a rebuild when the source changes and none when it does not; then the Debian package, installed into a root of its own, used, and removed without a trace.
#
#   installed.sh BUILD_FOLDER SAMPLES_FOLDER ORACLE_ADD
set -eu

build=$1
samples=$2
oracle=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "installed: $*" >&2
    exit 1
}

for tool in ninja make meson pkg-config; do
    command -v $tool >/dev/null || { echo "no $tool here"; exit 77; }
done

cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(cat "$work/install.log")"
mv "$work/first" "$work/moved"
prefix=$work/moved
pages=$(ls -d "$prefix"/share/doc/*)
[ -e "$pages/README.md" ] && [ -e "$pages/docs/operations.md" ] || fail "no pages: $(ls "$pages")"
for page in $(find "$pages" -name '*.md'); do
    for link in $(grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | grep -v '^[a-z]*:'); do
        [ -e "${page%/*}/$link" ] || fail "${page#"$pages/"} has a link to $link, which is not there"
    done
done
cp -r "$samples" "$work/samples"
examples=$work/samples/build_systems

# runs EXECUTABLE: a job of it, checked bit by bit.
runs() {
    mkdir -p "$work/job"
    cp "$work/samples/add/job.json" "$work/job"
    "$oracle" make "$work/job/job.json"
    "$1" "$work/job/job.json" || fail "$1 does not run"
    "$oracle" check "$work/job/job.json" || fail "$1: wrong"
}

# builds NAME EXECUTABLE COMMAND...: builds once; not again when nothing changed; again when the source did; and not, with a failure, when it is wrong.
builds() {
    name=$1
    executable=$2
    shift 2
    "$@" >"$work/log" 2>&1 || fail "$name: $(cat "$work/log")"
    runs "$executable"
    first=$(stat -c %y "$executable")
    "$@" >"$work/log" 2>&1 || fail "$name, again: $(cat "$work/log")"
    [ "$first" = "$(stat -c %y "$executable")" ] || fail "$name: built again though nothing changed"
    sleep 1
    echo '// changed' >>"$work/samples/add/add.phb"
    "$@" >"$work/log" 2>&1 || fail "$name, changed: $(cat "$work/log")"
    [ "$first" != "$(stat -c %y "$executable")" ] || fail "$name: not built again though the source changed"
    cp "$work/samples/add/add.phb" "$work/good.phb"
    sleep 1
    echo 'kernel' >>"$work/samples/add/add.phb"
    ! "$@" >"$work/log" 2>&1 || fail "$name: a wrong source was built"
    grep -q 'add.phb:[0-9]*:[0-9]*: error: ' "$work/log" || fail "$name: no message of phobosc: $(cat "$work/log")"
    cp "$work/good.phb" "$work/samples/add/add.phb"
}

builds cmake "$work/cmake/add" sh -c "cmake -S '$examples/cmake' -B '$work/cmake' -G Ninja -DCMAKE_PREFIX_PATH='$prefix' && cmake --build '$work/cmake'"
runs "$work/cmake/embedded"
builds "cmake with make" "$work/cmake_make/add" \
    sh -c "cmake -S '$examples/cmake' -B '$work/cmake_make' -G 'Unix Makefiles' -DCMAKE_PREFIX_PATH='$prefix' && cmake --build '$work/cmake_make'"
builds make "$examples/make/add" make -C "$examples/make" "PHOBOSC=$prefix/bin/phobosc"
builds ninja "$examples/ninja/add" env "PATH=$prefix/bin:$PATH" ninja -C "$examples/ninja"
builds meson "$work/meson/add" env "PKG_CONFIG_PATH=$prefix/share/pkgconfig" \
    sh -c "[ -d '$work/meson' ] || meson setup '$work/meson' '$examples/meson' && meson compile -C '$work/meson'"

# A package that is not whole says so.
mv "$prefix/lib/libphobosrt.a" "$work/runtime.a"
! cmake -S "$examples/cmake" -B "$work/broken" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || fail "a package without its runtime was found"
grep -q 'libphobosrt.a is not there' "$work/log" || fail "a package without its runtime: $(cat "$work/log")"
mv "$work/runtime.a" "$prefix/lib/libphobosrt.a"

# The Debian package. Its dependencies are the system's, which the root of the test does not hold.
if ! command -v dpkg-deb >/dev/null || ! command -v dpkg-shlibdeps >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "the Debian package was not tested: that takes dpkg-dev and root" >&2
    exit 77
fi
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/package" >"$work/log" 2>&1) || fail "cpack: $(cat "$work/log")"
package=$(ls "$work"/package/*.deb)
dpkg-deb -f "$package" Depends | grep -q libllvm19 || fail "the package does not depend on LLVM: $(dpkg-deb -f "$package" Depends)"
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
: >"$root/var/lib/dpkg/status"
: >"$root/var/lib/dpkg/available"
dpkg --root="$root" --force-depends --force-not-root --force-script-chrootless --log=/dev/null -i "$package" >"$work/log" 2>&1 || fail "dpkg -i: $(cat "$work/log")"
"$root/usr/bin/phobosc" --gpu=none "$work/samples/add/add.phb" -o "$work/from_package"
runs "$work/from_package"
dpkg --root="$root" --force-script-chrootless --log=/dev/null -P phobos >"$work/log" 2>&1 || fail "dpkg -P: $(cat "$work/log")"
left=$(find "$root" -path "$root/var/lib/dpkg" -prune -o ! -type d -print)
[ -z "$left" ] || fail "removing the package leaves $left"

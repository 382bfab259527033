#!/bin/sh
# libphobosrt.a defines phb_* alone, needs libc alone, and lives beside a libzmq and a C++ runtime that the program brings itself, linked either way.
#
#   runtime_archive.sh CC libphobosrt.a SOURCE-ROOT
set -eu

cc=$1
archive=$2
root=$3
here=$root/tests/integration
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

defined=$(cd "$work" && ar x "$archive" phobosrt.o && nm -g --defined-only phobosrt.o | awk '{ print $NF }')
if [ -z "$defined" ] || echo "$defined" | grep -v '^phb_'; then
    echo "phobosrt.o defines other names than phb_*" >&2
    exit 1
fi

"$cc" -I "$root" -c "$here/empty_program.c" -o "$work/empty_program.o"
"$cc" -nodefaultlibs "$work/empty_program.o" "$archive" -lc -o "$work/plain"
"$work/plain" --version >"$work/version"
grep 'libzmq [0-9]' "$work/version"

cxx=${CXX:-c++}
command -v "$cxx" >/dev/null || {
    echo "no C++ compiler"
    exit 77
}
"$cxx" -I "$root" -c "$here/own_zmq.cpp" -o "$work/own_zmq.o"
"$cxx" "$work/own_zmq.o" "$work/empty_program.o" "$archive" -lzmq -o "$work/shared"
"$work/shared" --version | grep 'own libzmq works'

# All of libstdc++ and libzmq twice in one executable. What Debian's libzmq.a refers to beyond libsodium is left undefined: the program never calls it.
"$cxx" "$work/own_zmq.o" "$work/empty_program.o" "$archive" -static-libstdc++ -static-libgcc \
    -Wl,-Bstatic -lzmq -lsodium -Wl,-Bdynamic -Wl,--unresolved-symbols=ignore-all -no-pie -o "$work/static" 2>"$work/link" || {
    cat "$work/link" >&2
    exit 1
}
if grep 'multiple definition' "$work/link"; then exit 1; fi

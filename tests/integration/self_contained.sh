#!/bin/sh
# An executable needs libc and its loader alone; where the test may chroot, it runs in a root that holds nothing else.
#
#   self_contained.sh PHOBOSC ORACLE_ADD samples/add
set -eu

phobosc=$1
oracle=$2
sample=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$phobosc" "$sample/add.phb" -o "$work/add"
cp "$sample/job.json" "$work"
if readelf -d "$work/add" | grep NEEDED | grep -v -e 'libc\.so\.6' -e 'ld-linux-x86-64\.so\.2'; then
    echo "needs more than libc" >&2
    exit 1
fi

root=$work/root
mkdir "$root"
ldd "$work/add" | awk '$2 == "=>" { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }' >"$work/libraries"
while read -r library; do
    mkdir -p "$root${library%/*}"
    cp -L "$library" "$root$library"
done <"$work/libraries"
cp "$work/add" "$sample/job.json" "$root"
"$oracle" make "$root/job.json"
if ! chroot "$root" /add --version >/dev/null 2>"$work/chroot"; then
    if grep -qi -e 'permitted' -e 'permission' "$work/chroot"; then
        echo "no right to chroot: only the list of libraries was checked"
        exit 0
    fi
    cat "$work/chroot" >&2
    exit 1
fi
chroot "$root" /add /job.json
"$oracle" check "$root/job.json"

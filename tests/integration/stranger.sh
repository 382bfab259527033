#!/bin/sh
# A stranger's path: install the Debian package on this system, write the kernel of the tutorial, build it by the CMakeLists.txt of the README, run it on two pods,
# check what comes out, remove the package. Each step is timed. The system is a copy of this one that vanishes with the test: an overlay, in which dpkg checks
# real dependencies and whose files tell what is left behind. 77 where that cannot be had.
#
#   stranger.sh BUILD_FOLDER SOURCE_FOLDER
set -eu

# What happens in the copy: `inside` is set, and the working folder has the package and what the pages say.
if [ "${inside:-}" ]; then
    as_stranger() {
        setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$PWD" "$@"
    }

    # step WHAT COMMAND...
    step() {
        what=$1
        shift
        begun=$(date +%s%N)
        "$@" >log 2>&1 || { echo "stranger: $what:" && cat log && exit 1; }
        rm log
        awk -v what="$what" -v ns=$(($(date +%s%N) - begun)) 'BEGIN { printf "%-40s %6.2f s\n", what, ns / 1e9 }'
    }

    run_pods() {
        ./build/add --role=pod --node-name=first & first=$!
        ./build/add --role=pod --node-name=second & second=$!
        ./build/add --role=sched job.json --nodes=2 && wait $first && wait $second
    }

    build() {
        cmake -S . -B build -G Ninja && cmake --build build
    }

    # Once more by the executable alone, into a file that is not there.
    run_alone() {
        rm c.npy
        ./build/add job.json && cmp a.npy c.npy
    }

    case $inside in
    all)
        ip link set lo up
        chown nobody .
        rm -f /var/lib/man-db/auto-update # else half a minute goes into an index of all man pages
        step "install the package" dpkg -i phobos.deb
        for what in build inputs pods check; do as_stranger inside=$what sh "$0"; done
        step "remove the package" dpkg -P phobos
        as_stranger inside=alone sh "$0"
        ;;
    build) step "build the kernel by CMake" build ;;
    inputs) step "make inputs" sh -c 'phobos-tensor create a.npy:f32[1000003] --fill=iota && phobos-tensor create b.npy:f32[1000003] --fill=zeros' ;;
    pods) step "run it on two pods" run_pods ;;
    check) step "compare the result" phobos-tensor compare a.npy c.npy ;;
    alone) step "run it without the package" run_alone ;;
    esac
    exit
fi

build=$1
source=$2
fail() {
    echo "stranger: $*" >&2
    exit 1
}

for tool in dpkg-deb dpkg-shlibdeps cmake ninja unshare setpriv ip; do
    command -v $tool >/dev/null || { echo "no $tool here"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "that takes root"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/overlay" "$work/home"
unshare -m sh -c "mount -t tmpfs tmpfs '$work/overlay' && cd '$work/overlay' && mkdir new work root && mount -t overlay overlay -o lowerdir=/,upperdir=new,workdir=work root" \
    2>/dev/null || { echo "no overlay of this system can be mounted"; exit 77; }

# block PAGE FENCE PATTERN: the last block of the page that begins so and has a line like that.
block() {
    awk -v fence="\`\`\`$2" -v pattern="$3" '
        open && /^```/ { open = 0; if (fits) last = text }
        open { text = text $0 "\n"; fits = fits || $0 ~ pattern }
        !open && $0 == fence { open = 1; text = ""; fits = 0 }
        END { printf "%s", last }' "$1" | grep . || fail "$1 has no such block: $2"
}
block "$source/docs/tutorial.md" "phb add.phb" "@cluster" >"$work/home/add.phb"
block "$source/docs/tutorial.md" "json job.json" "c.npy" >"$work/home/job.json"
block "$source/README.md" "cmake" "find_package" >"$work/home/CMakeLists.txt"
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/package" >cpack.log 2>&1) || fail "cpack: $(cat "$work/cpack.log")"
cp "$work"/package/*.deb "$work/home/phobos.deb"
cp "$0" "$work/home/stranger.sh"

# The tmpfs is this shell's as well, so that it can look at what is new in it when all is over.
unshare -mn sh -eu -c '
    mount -t tmpfs tmpfs "$1/overlay" && cd "$1/overlay" && mkdir new work root
    mount -t overlay overlay -o lowerdir=/,upperdir=new,workdir=work root
    mount --rbind /proc root/proc && mount --rbind /dev root/dev
    mkdir root/home/stranger && cp "$1"/home/* root/home/stranger
    chroot root sh -c "cd /home/stranger && inside=all exec sh ./stranger.sh"
    find new -mindepth 1 ! -type d ! -path "new/home/stranger/*" ! -path "new/var/lib/dpkg/*" ! -path "new/var/log/*" ! -path "new/var/cache/*" ! -path "new/var/lib/man-db/*" >"$1/left"
' sh "$work" || exit 1
[ ! -s "$work/left" ] || fail "removing the package leaves $(cat "$work/left")"

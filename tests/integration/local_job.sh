#!/bin/sh
# What an executable does with its command line, with jobs that cannot run, and with jobs that fail half-way: exit codes, and no file touched.
#
#   local_job.sh PHOBOSC ORACLE_ADD samples/add
set -u

phobosc=$1
oracle=$2
sample=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$phobosc" --gpu=none "$sample/add.phb" -o "$work/add" || exit 1
cd "$work" || exit 1
cp "$sample/job.json" .
"$oracle" make job.json || exit 1

list_files() {
    find . -mindepth 1 ! -name out ! -name err ! -name before ! -name after | LC_ALL=C sort
}

failed=0
# expect CODE PATTERN COMMAND...: the exit code, PATTERN in what it says, and the same files as before.
expect() {
    code=$1
    pattern=$2
    shift 2
    "$@" >out 2>err </dev/null
    found=$?
    if [ $found != "$code" ] || ! cat out err | grep -qe "$pattern"; then
        failed=$((failed + 1))
        echo "$*: exit code $found, expected $code and '$pattern'; it said:"
        cat out err
    fi
    list_files >after
    if ! diff before after; then
        failed=$((failed + 1))
        echo "$*: other files than before"
    fi
}

# job TEXT: writes bad.json
job() {
    printf '%s\n' "$1" >bad.json
}
job '{}'
list_files >before

expect 0 'add' ./add --help
expect 0 'libzmq' ./add --version
expect 0 'add' ./add --info
expect 0 '"add"' ./add --info=json
expect 0 '"tensors"' ./add --job-template
expect 0 '' ./add --check job.json
expect 0 '' ./add --plan job.json
expect 0 '' ./add --plan job.json --nodes=3 --format json
expect 2 '' ./add
expect 2 'progress' ./add job.json --progess=none
expect 2 'pods' ./add job.json --pods=0
expect 2 'pods' ./add job.json --pods=many
expect 2 'missing.json' ./add missing.json

expect 2 'bad.json' ./add bad.json
job '{ "dims": { "N": 3145733 } '
expect 2 'bad.json:' ./add bad.json
job '{ "dims": { "N": 3145732 }, "tensors": { "a": "a.npy", "b": "b.npy", "c": "c.npy" } }'
expect 2 '3145732' ./add bad.json
job '{ "dims": { "N": 3145733 }, "tensors": { "a": "a.npy", "b": "gone.npy", "c": "c.npy" } }'
expect 1 'gone.npy' ./add bad.json
job '{ "dims": { "N": 3145733 }, "tensors": { "a": "a.npy", "b": "b.npy", "c": "nowhere/c.npy" } }'
expect 1 'nowhere' ./add bad.json
job '{ "dims": { "N": 3145733 }, "tensors": { "a": "a.npy", "b": "b.npy", "c": "b.npy" } }'
expect 2 'b.npy' ./add bad.json
job '{ "dims": { "N": 3145733 }, "tensors": { "a": "a.npy", "b": "b.npy", "c": "c.npy" }, "clutser": { "BLOCK": 1048576 } }'
expect 2 'cluster' ./add bad.json
job '{ "dims": { "N": 3145733 }, "tensors": { "a": "a.npy", "b": "b.npy", "c": "c.npy" }, "cluster": { "BLOCK": 1048577 } }'
expect 2 '1048577' ./add bad.json

# A file system that takes no more: here, a limit on the size of files (blocks of 512 bytes).
printf 'old contents' >c.npy
list_files >before
expect 1 'c.npy' sh -c 'ulimit -f 64; exec ./add job.json'
[ "$(cat c.npy)" = 'old contents' ] || {
    failed=$((failed + 1))
    echo "a failed job touched the old output"
}

# With nothing to read from or to write to, what is said does not go into a file of the job's.
PHOBOS_CRASH_AT=compute:1:begin:stop ./add job.json --progress=none <&- >&- 2>&- &
pid=$!
for _ in $(seq 100); do
    grep -q '^State:.T' /proc/$pid/status && break
    sleep 0.05
done
[ "$(readlink /proc/$pid/fd/0 /proc/$pid/fd/1 /proc/$pid/fd/2 | sort -u)" = /dev/null ] || {
    failed=$((failed + 1))
    echo "files of the job stand for the standard input, output or messages:"
    ls -l /proc/$pid/fd
}
kill -9 $pid
wait $pid 2>/dev/null
rm -f .c.npy.* c.npy.phobos-lock

# Interrupted at any time: the old output or the whole new one.
./add job.json --progress=none >out 2>err &
pid=$!
kill -INT $pid
wait $pid
code=$?
case $code in
0) "$oracle" check job.json >/dev/null || failed=$((failed + 1)) ;;
1) [ "$(cat c.npy)" = 'old contents' ] || failed=$((failed + 1)) ;;
130) [ "$(cat c.npy)" = 'old contents' ] || failed=$((failed + 1)) ;; # before the handler stood
*)
    failed=$((failed + 1))
    echo "exit code $code after SIGINT"
    ;;
esac
if list_files | grep -e '\.part$' -e 'phobos-lock$'; then
    failed=$((failed + 1))
    echo "left behind after SIGINT"
fi

[ $failed = 0 ]

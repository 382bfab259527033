#!/bin/sh
# Faults of the machine while a job runs: exit code 1, one line that names the file, the old output untouched, nothing left behind. The job reads slowly
# (slow_io), so that a fault comes in its middle.
#
#   job_faults.sh PHOBOSC ORACLE_ADD samples/add SLOW_IO
set -u

phobosc=$1
oracle=$2
sample=$3
slow_io=$4
work=$(mktemp -d)
cleanup() {
    umount "$work/small" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

"$phobosc" --gpu=none "$sample/add.phb" -o "$work/add" || exit 1
cd "$work" || exit 1
chmod 755 .
cp "$sample/job.json" .
failed=0

complain() {
    failed=$((failed + 1))
    echo "$*; it said:"
    cat err
}

# Fresh inputs and an old output.
prepare() {
    "$oracle" make job.json || exit 1
    printf 'old contents' >c.npy
}

# The job in the background, up to where its staging file is there.
begin() {
    LD_PRELOAD=$slow_io SLOW_IO_MS=300 ./add job.json --progress=none --threads=1 "$@" >out 2>err </dev/null &
    pid=$!
    tries=0
    until ls .c.npy.*.part >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || break
        sleep 0.02
    done
}

# finished CODE EXPECTED-CODE PATTERN
finished() {
    [ "$1" = "$2" ] || complain "$case: exit code $1, expected $2"
    grep -q "$3" err || complain "$case: '$3' is not said"
    [ "$(cat c.npy)" = 'old contents' ] || complain "$case: the old output is touched"
    if find . -name '*.part' -o -name '*.phobos-lock' | grep .; then
        complain "$case: left behind"
    fi
}

for case in INT TERM; do
    prepare
    begin
    kill -$case $pid
    wait $pid
    finished $? 1 'interrupted'
done

for case in shortened removed replaced written; do
    prepare
    cp a.npy other.npy
    begin
    case $case in
    shortened) truncate -s 1000 a.npy ;;
    removed) rm a.npy ;;
    replaced) mv other.npy a.npy ;;
    written) printf 'x' | dd of=a.npy bs=1 seek=5000000 conv=notrunc 2>/dev/null ;;
    esac
    wait $pid
    finished $? 1 'a.npy": input changed'
done

case='second job'
prepare
begin
./add job.json --progress=none >out2 2>err2 </dev/null
{ [ $? = 1 ] && grep -q 'another job is writing' err2; } || complain "$case: not refused"
wait $pid || complain "$case: the first one failed"
"$oracle" check job.json >/dev/null || complain "$case: the first one's output is wrong"

case='staging kept'
prepare
begin --keep-staging
kill $pid
wait $pid
rm .c.npy.*.part || complain "$case: it is not there"
finished 1 1 'interrupted'

case='full disk'
prepare
mkdir small
if mount -t tmpfs -o size=1m none small 2>/dev/null; then
    sed 's/"c.npy"/"small\/c.npy"/' job.json >full.json
    printf 'old' >small/c.npy
    ./add full.json --progress=none >out 2>err </dev/null
    finished $? 1 'disk full: .* needs 12583060 bytes'
    { [ "$(ls -A small)" = 'c.npy' ] && [ "$(cat small/c.npy)" = 'old' ]; } || complain "$case: something in the folder changed"
    case='disk that fills up'
    if command -v strace >/dev/null && mount -o remount,size=64m small; then
        LD_PRELOAD=$slow_io SLOW_IO_MS=300 strace -f -qq -o trace -e trace=fallocate -e inject=fallocate:error=ENOSPC:when=2 \
            ./add full.json --progress=none >out 2>err </dev/null
        finished $? 1 'cannot reserve .*small/c.npy.*: No space left'
        [ "$(ls -A small)" = 'c.npy' ] || complain "$case: something in the folder changed"
    else
        echo "not run: $case (no strace)"
    fi
    umount small
else
    echo "not run: $case (no right to mount)"
fi

case='unwritable folder'
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 644 a.npy b.npy c.npy
    setpriv --reuid=65534 --regid=65534 --clear-groups ./add job.json --progress=none >out 2>err </dev/null
    finished $? 1 'cannot create files in'
    chmod 600 a.npy
    mkdir -m 777 open
    sed 's/"c.npy"/"open\/c.npy"/' job.json >open.json
    case='unreadable input'
    setpriv --reuid=65534 --regid=65534 --clear-groups ./add open.json --progress=none >out 2>err </dev/null
    finished $? 1 'a.npy": Permission denied'
else
    echo "not run: $case (needs root and setpriv)"
fi

case='broken disk'
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    for call in fdatasync rename pwritev fallocate fchmod; do
        case="$call fails"
        prepare
        strace -f -qq -o trace -e trace=$call -e inject=$call:error=EIO:when=1 ./add job.json --progress=none >out 2>err </dev/null
        code=$?
        grep -q INJECTED trace || {
            echo "not run: $case (not called)"
            continue
        }
        finished $code 1 'c.npy.*: Input/output error'
    done
else
    echo "not run: $case (no strace)"
fi

[ $failed = 0 ]

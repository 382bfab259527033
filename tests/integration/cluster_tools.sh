# To be sourced by scripts that run a scheduler and pods as processes, with $phobosc, $oracle and $samples set: a folder of its own, and the sample `add`.

. "$(dirname "$0")/../tools/processes.sh"

limit=60 # seconds that a process may take: less than ctest gives the test, so that what the test leaves is taken away

make_job() { # UNITS of 4096 elements, the last of them ragged
    cat >job.json <<JOB
{
  "kernel": "add",
  "dims": { "N": $(($1 * 4096 - 4091)) },
  "tensors": { "a": "a.npy", "b": "b.npy", "c": "c.npy" },
  "cluster": { "BLOCK": 4096 }
}
JOB
    "$oracle" make job.json
}

sched() {
    : >sched.log
    timeout $limit ./add --role=sched job.json --listen=$listen --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
}

pod() { # NAME ...
    name=$1
    shift
    : >"$name.log"
    timeout $limit ./add --role=pod --sched=$listen --node-name="$name" --threads=1 --log=info "$@" >"$name.log" 2>&1 &
    eval "$name=\$!"
}

# Reads slowly, so that the job goes on for a while.
slow_pod() { # MILLISECONDS NAME ...
    export LD_PRELOAD="$slow_io" SLOW_IO_MS="$1"
    shift
    pod "$@"
    unset LD_PRELOAD SLOW_IO_MS
}

tiles_of() {
    sed -n "s/.*pod $1 computed \([0-9]*\).*/\1/p" sched.log
}

finished() {
    ends 0 "$sched" scheduler
    "$oracle" check job.json || fail "wrong bytes"
    nothing_left
}

"$phobosc" --gpu=none "$samples/add/add.phb" -o add

# The job in place of `add`'s.
product_job() {
    make_product add
    oracle=same_product
}

same_product() {
    cmp C.bin expected.bin
}

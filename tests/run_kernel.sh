#!/bin/sh
# Compiles a kernel and runs each job once for each line of arguments. `ORACLE make JOB` writes the inputs, `ORACLE check JOB` compares the outputs.
#
#   tests/run_kernel.sh PHOBOSC ORACLE KERNEL.phb ARGUMENT-LINES JOB.json...
set -eu

phobosc=$1
oracle=$2
kernel=$3
lines=${4:-"--pods=1"}
shift 4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$phobosc" --gpu=none "$kernel" -o "$work/kernel"
for job in "$@"; do
    cp "$job" "$work/job.json"
    printf '%s\n' "$lines" | while read -r arguments; do
        "$oracle" make "$work/job.json"
        echo "$(basename "$job") $arguments"
        # shellcheck disable=SC2086 # arguments are words
        "$work/kernel" "$work/job.json" --progress=none $arguments </dev/null
        "$oracle" check "$work/job.json"
    done
    # Nothing but the kernel, the job and the tensors that it names stays behind.
    if find "$work" -name '*.part' -o -name '*.phobos-lock' | grep .; then
        echo "left behind by the job" >&2
        exit 1
    fi
done

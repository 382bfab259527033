#!/bin/sh
# run.sh FOLDER [samples] [foreign] [generated] [pods] [faults] [sanitizer] [contractions] [table]: on a machine with a GPU, everything that pack.sh put into
# FOLDER, or the named parts of it. Builds nothing. Ends with a table of what was run and how it went; exit code 1 where anything failed.
set -eu
[ $# -ge 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
pack=$(cd "$1" && pwd)/pack.tar.xz
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m tarfile -e "$pack" "$work"
export LD_LIBRARY_PATH="$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONUNBUFFERED=1
python3 "$work/run.py" "$work" "$@"

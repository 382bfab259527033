#!/bin/sh
# Every kernel that once failed.
#
#     seeds.sh DIFFERENTIAL PHOBOSC SEEDS_DIR WORK_DIR
set -eu
set -- "$1" "$2" "$4" "$3"/*.phb
[ -e "$4" ] || { echo "no saved kernel yet"; exit 77; }
differential=$1 phobosc=$2 work=$3
shift 3
exec "$differential" "$phobosc" "$work" --replay "$@"

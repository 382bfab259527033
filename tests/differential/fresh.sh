#!/bin/sh
# Kernels that no run before had: the seed is the commit's.
#
#     fresh.sh DIFFERENTIAL PHOBOSC SOURCE_DIR WORK_DIR [OPTION..]
set -eu
differential=$1 phobosc=$2 source=$3 work=$4
shift 4
commit=$(git -C "$source" rev-parse --short=8 HEAD 2>/dev/null || echo 1)
exec "$differential" "$phobosc" "$work" --seed="0x$commit" --least=20 "$@"

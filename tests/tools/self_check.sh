#!/bin/sh
# The oracle says no where it has to: a missing output, one bit, another header, a byte too many, a touched input.
#
#   self_check.sh ORACLE_SCALE2D
set -eu

oracle=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# s = 1, so that the output is the input.
echo '{ "dims": { "M": 3, "N": 5 }, "scalars": { "s": 1 }, "tensors": { "a": "a.npy", "b": "b.npy" } }' >job.json
refused() {
    if "$oracle" check job.json 2>message >&2; then
        echo "the oracle accepts $1" >&2
        exit 1
    fi
    grep -q "$2" message
}

"$oracle" make job.json
refused 'a missing output' missing
cp a.npy b.npy
"$oracle" check job.json
printf '\001' | dd of=b.npy bs=1 seek=180 conv=notrunc status=none
refused 'one changed byte' '1 of 15'
cp a.npy b.npy
printf 'x' >>b.npy
refused 'a byte too many' 'bytes of data'
cp a.npy b.npy
sed -i 's/(3, 5)/(5, 3)/' b.npy
refused 'another shape' header
cp a.npy b.npy
printf '\001' | dd of=a.npy bs=1 seek=180 conv=notrunc status=none
refused 'a changed input' 'a.npy'

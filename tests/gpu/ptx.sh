#!/bin/sh
# ptx.sh PHOBOSC SAMPLES KERNELS: every variant of every kernel becomes PTX that the assembler accepts without warnings, for the target that suits it,
# some for sm_90a as well, and that of thread-block clusters for sm_100, too, where the assembler knows it. Attention spills nothing, matrix products
# no more than they are known to. Exit code 77 where there is no ptxas: then only compilation is tested.
set -eu
phobosc=$1 samples=$2 kernels=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0 images=0
has_ptxas=$(command -v ptxas || true)
later=
if [ -n "$has_ptxas" ]; then
    printf '.version 8.0\n.target sm_90\n.address_size 64\n' >"$folder/empty"
    if ptxas -arch=sm_100 "$folder/empty" -o /dev/null 2>/dev/null; then later=sm_100; else echo "sm_100: not tried, ptxas does not know it"; fi
fi

# Bytes. Sums in 128 registers a thread leave the addresses of a loop's ends without some; sums that come back to be stored, in 64, those of rows.
known_spills() {
    case $1 in
    'matmul.ptx sm_80 "TILE_M": 128, "TILE_N": 128'*) echo 104 ;;
    matmul.ptx* | gemm.ptx*) echo 56 ;;
    *) echo 0 ;;
    esac
}

# assemble FILE: its images one by one, each for its own target.
assemble() {
    rm -f "$folder"/image-*
    csplit -s -z -f "$folder/image-" "$1" '/^\/\/ phobos /' '{*}'
    for image in "$folder"/image-*; do
        images=$((images + 1))
        target=$(sed -n '1s/.*"target": "\([^"]*\)".*/\1/p' "$image")
        what="$(basename "$1") $target $(sed -n '1s/.*"values": {\([^}]*\)}.*/\1/p' "$image")"
        if ! ptxas -arch="$target" -v "$image" -o /dev/null 2>"$folder/log"; then
            echo "$what: refused"
            cat "$folder/log"
            failed=1
        elif grep -q 'warning' "$folder/log" && grep 'warning' "$folder/log" | grep -qv C7519; then
            echo "$what: $(grep warning "$folder/log")"
            failed=1
        fi
        if [ "$target" = sm_90 ] && [ -n "$later" ] && ! ptxas -arch="$later" "$image" -o /dev/null 2>"$folder/later"; then
            echo "$what: refused for $later"
            cat "$folder/later"
            failed=1
        fi
        case $1 in
        */gemm.ptx | */batched_gemm.ptx | */matmul.ptx | */two_layers.ptx | *attention.ptx | */streamed.ptx)
            spilled=$(sed -n 's/.* \([0-9]*\) bytes spill stores.*/\1/p' "$folder/log" | sort -n | tail -1)
            if [ "${spilled:-0}" -gt "$(known_spills "$what")" ]; then
                echo "$what: spills $spilled bytes"
                failed=1
            fi
            ;;
        esac
    done
}

for source in "$samples"/*/*.phb "$kernels"/*.phb; do
    name=$(basename "$source" .phb)
    targets=auto
    case $name in gemm | attention | add) targets="auto sm_90a" ;; esac
    for wanted in $targets; do
        if ! "$phobosc" --gpu="$wanted" --emit=ptx "$source" -o "$folder/$name.ptx" -w; then
            echo "$name: does not compile for $wanted"
            failed=1
        elif [ -n "$has_ptxas" ]; then
            assemble "$folder/$name.ptx"
        fi
    done
done
[ $failed = 0 ] || exit 1
[ -n "$has_ptxas" ] || { echo "no ptxas: nothing was assembled"; exit 77; }
[ $images -gt 0 ] || { echo "no image"; exit 1; }
echo "$images images assembled"

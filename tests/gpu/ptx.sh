#!/bin/sh
# ptx.sh PHOBOSC SAMPLES KERNELS: every variant of every kernel becomes PTX that the assembler accepts without warnings, for each target; matrix products
# without spills. Exit code 77 where there is no ptxas: then only compilation is tested.
set -eu
phobosc=$1 samples=$2 kernels=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0 images=0
has_ptxas=$(command -v ptxas || true)

# assemble FILE TARGET: its images one by one.
assemble() {
    rm -f "$folder"/image-*
    csplit -s -z -f "$folder/image-" "$1" '/^\/\/ phobos /' '{*}'
    for image in "$folder"/image-*; do
        images=$((images + 1))
        what="$(basename "$1") $2 $(sed -n '1s/.*"values": {\([^}]*\)}.*/\1/p' "$image")"
        if ! ptxas -arch="$2" -v "$image" -o /dev/null 2>"$folder/log"; then
            echo "$what: refused"
            cat "$folder/log"
            failed=1
        elif grep -q 'warning' "$folder/log" && grep 'warning' "$folder/log" | grep -qv C7519; then
            echo "$what: $(grep warning "$folder/log")"
            failed=1
        fi
        case $1 in
        *gemm*)
            if grep -q '[1-9][0-9]* bytes spill' "$folder/log"; then
                echo "$what: spills"
                grep 'spill' "$folder/log"
                failed=1
            fi
            ;;
        esac
    done
}

for source in "$samples"/*/*.phb "$kernels"/*.phb; do
    name=$(basename "$source" .phb)
    targets=sm_80
    case $name in gemm | attention | add) targets="sm_80 sm_90a" ;; esac
    for target in $targets; do
        if ! "$phobosc" --gpu="$target" --emit=ptx "$source" -o "$folder/$name.ptx" -w; then
            echo "$name: does not compile for $target"
            failed=1
        elif [ -n "$has_ptxas" ]; then
            assemble "$folder/$name.ptx" "$target"
        fi
    done
done
[ $failed = 0 ] || exit 1
[ -n "$has_ptxas" ] || { echo "no ptxas: nothing was assembled"; exit 77; }
[ $images -gt 0 ] || { echo "no image"; exit 1; }
echo "$images images assembled"

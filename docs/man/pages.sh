#!/bin/sh
# The man pages: templates, in which a line @SECTION@ stands for what --help lists below "SECTION:", of phobosc in phobosc.1 and of an executable in phobos-job.5.
#
#   pages.sh PHOBOSC KERNEL VERSION FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
phobosc=$1 kernel=$2 version=$3 folder=$4

# Rows "  --name=VALUE   what it does" as tagged paragraphs.
section() {
    printf '%s\n' "$help" | sed -n "/^$1:\$/,/^\$/p" | sed -n 's/^  \(-*[^ ].*[^ ]\)   *\([^ ].*\)$/\1\t\2/p; s/^  \([^ ]*\) \([^ -].*\)$/\1\t\2/p' |
        sed 's/  *\t/\t/; s/\\/\\\\/g; s/-/\\-/g' | awk -F '\t' '{ printf ".TP\n.B %s\n%s\n", $1, $2 }' | sed "s/^'/\\\\'/"
}

fill() {
    while IFS= read -r line; do
        case $line in
        @*@) name=${line#@} && section "${name%@}" ;;
        *) printf '%s\n' "$line" | sed "s/@VERSION@/$version/" ;;
        esac
    done <"$here/$1.in" >"$folder/$1"
}

help=$("$phobosc" --help)
fill phobosc.1
"$phobosc" --gpu=none "$kernel" -o "$folder/job"
help=$("$folder/job" --help)
rm -f "$folder/job"
fill phobos-job.5

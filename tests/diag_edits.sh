#!/bin/sh
# The smallest edits that refusals of the cluster reading propose, made: NAME.edit is a sed script that makes all those of NAME.err in NAME.phb. The result
# compiles, edits take three lines at most on the average, and what one quotes, as far as the writer need not fill it in, is in the lines that changed. Every
# refusal has both positions, both readings and an edit.
#
#     diag_edits.sh PHOBOSC FOLDER
set -u
phobosc=$1
cd "$2" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0 failed=0
fail() {
    echo "$name: $*"
    failed=$((failed + 1))
}
for messages in *.err; do
    name=${messages%.err}
    grep -q ' error: ' "$messages" || continue
    count=$((count + 1))
    perl -ne '
        sub done { print "line $at lacks @lacks\n" if $at && (@lacks = grep { !$has{$_} } "a second position", "one node", "the cluster", "an edit") }
        if (/^\S+?:(\d+):\d+: (error|warning|remark)/) { done(); ($at, %has) = ($2 eq "error" ? $1 : 0) }
        $has{"a second position"} = 1 if /^\S+?:\d+:\d+: note: /;
        $has{"one node"} = 1 if /note: on one node, /;
        $has{"the cluster"} = 1 if /note: on the cluster, /;
        $has{"an edit"} = 1 if /note: smallest edit: /;
        END { done() }' "$messages" >"$work/lacking"
    [ -s "$work/lacking" ] && fail "$(cat "$work/lacking")"
    [ -e "$name.edit" ] || { fail "there is no $name.edit" && continue; }
    sed -f "$name.edit" "$name.phb" >"$work/edited.phb"
    "$phobosc" --emit=cluster -o "$work/out" "$work/edited.phb" 2>"$work/log" || { fail "does not compile when edited" && cat "$work/log"; }
    diff "$name.phb" "$work/edited.phb" | sed -n 's/^[<>] //p' >"$work/changed"
    errors=$(grep -c ' error: ' "$messages")
    [ "$(diff "$name.phb" "$work/edited.phb" | grep -c '^>')" -le $((3 * errors)) ] || fail "more than three lines an edit"
    # Of what is quoted up to the first thing that the writer fills in, without what an edit may need besides.
    sed -n "s/.*smallest edit: //p" "$messages" | sed "s/, with 'whole[^']*' where the edge is meant//; s/ or '[^']*', whichever is meant//" |
        grep -o "'[^']*'" | sed "s/^'//; s/'\$//; s/ \[\.\.\]*\$//; s/ = w)\$/ = /; s/ + e\$/ + /; s/^@halo(\(.*\))\$/\1/" | sort -u >"$work/quoted"
    while IFS= read -r words; do
        grep -qF -e "$words" "$work/changed" || fail "no changed line has \"$words\""
    done <"$work/quoted"
done
echo "$count files of refusals, $failed failed"
[ $count -gt 0 ] && [ $failed = 0 ]

#!/bin/sh
# Each rule of tests/diag/rules.txt has its golden, and that golden its message.
#
#     diag_rules.sh DIAG_DIR
set -u
cd "$1" || exit 1
count=0 failed=0
while IFS='|' read -r section rule golden words; do
    case $section in \#* | '') continue ;; esac
    count=$((count + 1))
    if [ ! -e "$golden.phb" ]; then
        why="there is no $golden.phb"
    elif [ "$words" = - ]; then
        why=$([ -e "$golden.err" ] && echo "$golden is not silent")
    else
        why=$(grep -qF -e "$words" "$golden.err" 2>/dev/null || echo "$golden.err does not say \"$words\"")
    fi
    [ -z "$why" ] && continue
    failed=$((failed + 1))
    echo "section $section, $rule: $why"
done <rules.txt
for section in 1 2 3 4 5 7 8 9; do
    grep -q "^$section|" rules.txt || { echo "no rule of section $section"; failed=$((failed + 1)); }
done
echo "$count rules, $failed failed"
[ $count -gt 0 ] && [ $failed = 0 ]

#!/bin/sh
# The examples of a page: fenced blocks, by what stands after the fence.
#   phb          compiles in silence
#   phb warning  compiles, and says each line of the `text` block after it
#   phb error    is refused with each line of the `text` block after it
#   phb syntax   is read, and no more
#   table        the phb block before it runs and gives what the table says (table.c)
# Other blocks are left alone.
#
#   tests/docs/run_docs.sh PHOBOSC TABLE PAGE.md
set -u

phobosc=$1
table=$2
page=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One file a block, 001.phb.error and the like, and the number of its first line in 001.line.
awk -v work="$work" '
    /^```/ && open { close(file); open = 0; next }
    /^```/ {
        kind = substr($0, 4)
        gsub(/ /, ".", kind)
        number = sprintf("%s/%03d", work, ++count)
        file = number "." (kind == "" ? "none" : kind)
        printf "" > file
        print NR + 1 > (number ".line")
        close(number ".line")
        open = 1
        next
    }
    open { print > file }
' "$page"

failed=0
count=0
fail() {
    failed=$((failed + 1))
    echo "$page:$line: $1"
    cat "$work/messages"
}

# said FILE: each of its lines is in the messages.
said() {
    [ -e "$1" ] || return 1
    while read -r text; do
        grep -qF -- "$text" "$work/messages" || return 1
    done <"$1"
}

compile() {
    # So that messages have one name for all of them.
    (cd "$work" && cp "$block" example.phb && "$phobosc" --gpu=none "$@" example.phb) >"$work/messages" 2>&1 </dev/null
}

for block in "$work"/[0-9][0-9][0-9].*; do
    case $block in
    *.line) continue ;;
    *.phb*) count=$((count + 1)) ;;
    esac
    number=$(basename "$block")
    number=${number%%.*}
    line=$(cat "$work/$number.line")
    next=$(printf '%s/%03d.text' "$work" $((1$number - 999)))
    case $block in
    *.phb)
        rm -f "$work/example"
        compile -o example || { fail 'does not compile'; continue; }
        [ ! -s "$work/messages" ] || fail 'compiles, but not in silence'
        ;;
    *.phb.warning)
        compile -o example || { fail 'does not compile'; continue; }
        said "$next" || fail 'other warnings than the page has'
        ;;
    *.phb.error)
        compile -o example && fail 'compiles'
        said "$next" || fail 'other messages than the page has'
        ;;
    *.phb.syntax)
        compile --emit=ast -o example.ast || fail 'is not read'
        ;;
    *.table)
        [ -x "$work/example" ] || continue
        rm -rf "$work/run"
        mkdir "$work/run"
        { "$table" make "$block" "$work/run" && "$work/example" "$work/run/job.json" --progress=none --pods=1 &&
            "$table" check "$block" "$work/run"; } >"$work/messages" 2>&1 </dev/null || fail 'does not give what the table says'
        ;;
    esac
done

echo "$count examples, $failed failures"
[ $count -gt 0 ] && [ $failed = 0 ]

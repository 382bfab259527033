# To be sourced by scripts that plant faults, one at a time. A list has for each fault what it is, the file, the part of a line as it is, and as it becomes, a
# line each; '#' begins a comment.

# faulty FILE: with the fault of $old and $new in it, on standard output.
faulty() {
    OLD=$old NEW=$new perl -0pe '
        my $count = s/\Q$ENV{OLD}\E/$ENV{NEW}/g;
        die "not there exactly once in $ARGV: $ENV{OLD}\n" unless $count == 1;' "$1"
}

# plant_each LIST COMMAND: the command, for each fault, finds it in $name, $file, $old, $new and its number in $planted. Counts in $missed are its own. Fails
# where any is missed, or the list is empty.
plant_each() {
    planted=0 missed=0 state=name
    while IFS= read -r line || [ -n "$line" ]; do
        case "$state:$line" in
        name:\#* | name:) continue ;;
        name:*) name=$line state=file ;;
        file:*) file=$line state=old ;;
        old:*) old=$line state=new ;;
        new:*) new=$line state=name planted=$((planted + 1)) && "$2" ;;
        esac
    done <"$1"
    echo "$planted faults, $missed missed"
    [ "$planted" -gt 0 ] && [ "$missed" -eq 0 ]
}

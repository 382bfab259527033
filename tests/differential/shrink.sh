#!/bin/sh
# A compiler that reads another text than it is given: random kernels find it, and what found it shrinks to a few lines that still hold the cause.
#
#     shrink.sh DIFFERENTIAL PHOBOSC WORK_DIR
set -u
differential=$1 phobosc=$2 work=$3
mkdir -p "$work"
failed=0

# faulty NAME SED-SCRIPT PATTERN: the pattern is the cause.
faulty() {
    cat >"$work/$1" <<EOF
#!/bin/sh
count=\$#
while [ \$count -gt 0 ]; do
    argument=\$1 count=\$((count - 1))
    shift
    case \$argument in
    *.phb) sed '$2' "\$argument" >"\${argument%.phb}_$1_\$\$.phb" && argument=\${argument%.phb}_$1_\$\$.phb ;;
    esac
    set -- "\$@" "\$argument"
done
exec "$phobosc" "\$@"
EOF
    chmod +x "$work/$1"
    "$differential" "$work/$1" "$work/run_$1" --count=100 --chunk=10 --seed=3 --stop --quick >"$work/$1.log" 2>&1
    sed -n '/^smaller:/,/^stopped:/p' "$work/$1.log" | sed -n '/^\/\/ differential/,$p' | grep -v '^$\|^//\|^stopped:' >"$work/$1.small"
    lines=$(wc -l <"$work/$1.small")
    echo "$1: $(sed -n 's/^stopped: //p' "$work/$1.log"), $lines lines"
    if [ "$lines" -lt 3 ] || [ "$lines" -gt 15 ] || ! grep -q -e "$3" "$work/$1.small"; then
        cat "$work/$1.log"
        failed=1
    fi
    rm -rf "$work/run_$1"
}

faulty shift 's/ >> / << /g' ' >>'
exit $failed

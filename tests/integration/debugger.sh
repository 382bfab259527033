#!/bin/sh
# -g: gdb stops at lines of the source on the CPU device, steps from one to the next and names the kernel; the code is that without -g; line tables
# name the source wherever it is compiled.
#
#   debugger.sh PHOBOSC KERNELS.phb PHOBOS-TENSOR          77 where gdb can run nothing
set -eu

phobosc=$1
tensor=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gdb -nx -batch -ex run true 2>/dev/null | grep -q "exited normally" || { echo "gdb can run nothing here"; exit 77; }
cp "$2" "$work/kernels.phb"
cd "$work"
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

line() {
    grep -n -- "// $1\$" kernels.phb | cut -d : -f 1
}

"$tensor" create 'a.npy:f32[64,128]' --fill=iota
"$tensor" create 'x.npy:f32[64]' --fill=iota
echo '{"kernel": "sums", "tensors": {"a": "a.npy", "c": "c.npy"}}' >sums.json
for kernel in lanes peers; do
    echo "{\"kernel\": \"$kernel\", \"tensors\": {\"x\": \"x.npy\", \"y\": \"y.npy\"}}" >$kernel.json
done

# stops EXECUTABLE KERNEL COMMAND...: what gdb says after these commands and the job's start.
stops() {
    executable=$1
    kernel=$2
    shift 2
    for command; do
        printf '%s\n' "$command"
    done >script
    timeout 60 gdb -nx -batch -iex 'set auto-load safe-path /' -ex 'set pagination off' -x script \
        --args "./$executable" "$kernel.json" --threads=1 --progress=none >said 2>&1 </dev/null || true
}

# at KERNEL NAME: gdb was in the kernel, at the line of that name.
at() {
    grep -q "$1 () at kernels.phb:$(line "$2")\$" said || fail "gdb does not stop in '$1' at '$2' of -O$level: $(cat said)"
}

for level in 0 2; do
    "$phobosc" -g -w -O$level --gpu=none kernels.phb -o kernels$level
    stops kernels$level sums "break kernels.phb:$(line product)" run bt delete "break kernels.phb:$(line epilogue)" continue bt delete continue
    at sums product
    at sums epilogue
    grep -q '^#0 .*sums () at kernels.phb:' said || fail "no backtrace of -O$level: $(cat said)"
    grep -q 'exited normally' said || fail "the job does not end under gdb: $(cat said)"
done
stops kernels2 lanes "break kernels.phb:$(line turn)" run bt delete "break kernels.phb:$(line store)" continue bt
at lanes turn
at lanes store
stops kernels2 peers "break kernels.phb:$(line peer)" run bt
at peers peer

# A breakpoint by the kernel's name, then from line to line.
level=2
stops kernels2 sums 'break sums' run delete "tbreak kernels.phb:$(line product)" continue next next next
grep -q 'Breakpoint 1.* sums () at kernels.phb:' said || fail "no breakpoint by name: $(cat said)"
steps=$(sed -n 's/^\([0-9]*\)\t.*/\1/p' said | tail -4 | tr '\n' ' ')
[ "$steps" = "$(line product) $(line sum) $(line chunk) $(line product) " ] || fail "next goes by lines $steps: $(cat said)"

# Code is the same with line tables and without.
for level in 0 2; do
    "$phobosc" -w -O$level --gpu=none -c kernels.phb -o plain.o
    "$phobosc" -g -w -O$level --gpu=none -c kernels.phb -o lines.o
    objdump -d --no-show-raw-insn plain.o | sed 1,3d >plain
    objdump -d --no-show-raw-insn lines.o | sed 1,3d >lines
    cmp plain lines || fail "-g changes the code of -O$level"
    ! cmp -s plain.o lines.o || fail "-g says nothing"
    ! readelf -SW plain.o | grep -q debug || fail "lines without -g"
done
# instructions PTX: all but lines.
instructions() {
    grep -v '^[[:space:]]*\.\(loc\|file\|section\)[[:space:]]\|^\$L__\(func_begin\|func_end\|tmp\)[0-9]*:\|^[[:space:]]*$' "$1"
}
"$phobosc" -w --gpu=sm_90a --variants=1 --emit=ptx kernels.phb >plain.ptx
"$phobosc" -g -w --gpu=sm_90a --variants=1 --emit=ptx kernels.phb >lines.ptx
grep -q "\.loc.* $(line product) " lines.ptx || fail "no lines in PTX"
instructions plain.ptx >plain
instructions lines.ptx >lines
cmp plain lines || fail "-g changes PTX"

# Where line tables look for the source, as cc has it: its folder is in the output, unless it is mapped.
mkdir -p here there
for folder in here there; do
    cp kernels.phb $folder
    (cd $folder && "$phobosc" -g -w --gpu=none kernels.phb -o kernels &&
        "$phobosc" -g -w --gpu=auto -ffile-prefix-map="$work/$folder"=/src kernels.phb -o mapped &&
        "$phobosc" -g -w --gpu=none -ffile-prefix-map "$work/$folder"=/src -c "$work/$folder/kernels.phb" -o absolute.o &&
        "$phobosc" -w --gpu=none kernels.phb -o plain)
done
! cmp -s here/kernels there/kernels || fail "folders are not in line tables"
cmp here/mapped there/mapped || fail "-ffile-prefix-map does not make outputs the same"
cmp here/absolute.o there/absolute.o || fail "-ffile-prefix-map does not map the source's own name"
cmp here/plain there/plain || fail "folders are in outputs without -g"
readelf --debug-dump=info here/absolute.o | grep -q 'DW_AT_name.*: /src/kernels.phb' || fail "no mapped name"
readelf --debug-dump=info here/mapped | grep -q "DW_AT_comp_dir.*: /src\$" || fail "no mapped folder"

[ $failures = 0 ]

#!/bin/sh
# --emit=lib: archives and headers, used by C, C++ and Python, several in one program.
#
#   library.sh PHOBOSC SAMPLES ORACLE_ADD SOURCE_ROOT
set -eu

phobosc=$1
samples=$2
oracle=$3
root=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "library: $*" >&2
    exit 1
}

"$phobosc" --gpu=none --emit=lib "$samples/add/add.phb" -o libadd.a
"$phobosc" --gpu=none --emit=lib "$samples/saxpy/saxpy.phb" -o libsaxpy.a
"$phobosc" --gpu=none --emit=lib "$samples/add/add.phb" -o again.a
[ "$(nm -s libadd.a | grep -c ' in kernels.o')" = 1 ] || fail "more than the program table is visible of the kernels"
if ar t libadd.a | grep main; then fail "the archive has a main()"; fi
[ -f again.h ] || fail "no header for again.a"
cp libadd.a first.a
"$phobosc" --gpu=none --emit=lib "$samples/add/add.phb" # libadd.a by default
cmp libadd.a first.a || fail "two archives of one source differ"
rm -f again.* first.a

# What the program is given: a job, and folders for threads of its own.
for folder in . one two three; do
    mkdir -p "$folder"
    cp "$samples/add/job.json" "$folder"
    "$oracle" make "$folder/job.json"
done
"${CC:-cc}" -Wall -Wextra -Werror -I. "$root/tests/integration/library_user.c" libadd.a libsaxpy.a -o user
./user "$work/job.json" "$work/one" "$work/two" "$work/three" >said 2>&1 || fail "$(cat said)"
[ -s said ] && fail "the library printed: $(cat said)"
for folder in . one two three; do
    "$oracle" check "$folder/job.json" >checked || fail "$(cat checked)"
done

printf '#include "saxpy.h"\n#include "add.h"\nint main() { return phb_info(&add_program) == nullptr; }\n' >user.cpp
"${CXX:-c++}" -Wall -Wextra -Werror -I. user.cpp libadd.a libsaxpy.a -o user_cpp
./user_cpp

# Failure leaves nothing behind.
mkdir closed
if "$phobosc" --gpu=none --emit=lib "$samples/add/add.phb" -o absent/libadd.a 2>said; then fail "an absent folder was written to"; fi
grep -q "cannot write 'absent/" said || fail "$(cat said)"
mkdir closed/add.h
if "$phobosc" --gpu=none --emit=lib "$samples/add/add.phb" -o closed/libadd.a 2>said; then fail "a folder was replaced by a header"; fi
[ "$(ls -A closed)" = add.h ] || fail "left behind: $(ls -A closed)"
printf 'kernel' >wrong.phb
if "$phobosc" --emit=lib wrong.phb -o libwrong.a 2>said; then fail "a wrong source made a library"; fi
[ ! -e libwrong.a ] && [ ! -e wrong.h ] || fail "a wrong source left files behind"

"$root/tests/tools/python_with.sh" numpy "$root/tests/integration/library_user.py" "$root/runtime/python" "$phobosc" "$samples"

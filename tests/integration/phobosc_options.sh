#!/bin/sh
# The command line of phobosc: exit statuses, messages, depfiles, and that a failure leaves nothing behind.
#
#   phobosc_options.sh PHOBOSC FOLDER   (FOLDER has add.phb)
set -u

phobosc=$1
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
cp "$2/add.phb" "$work/add.phb"
cd "$work" || exit 1
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# expect STATUS TEXT ARGUMENT...: the exit status, and a part of what is said.
expect() {
    status=$1
    text=$2
    shift 2
    "$phobosc" "$@" >stdout 2>stderr </dev/null
    found=$?
    [ "$found" = "$status" ] || fail "phobosc $*: status $found, expected $status: $(head -3 stderr)"
    cat stdout stderr >said
    [ -z "$text" ] || grep -qF -- "$text" said || fail "phobosc $*: said '$(head -3 said)', expected '$text'"
    rm -f stdout stderr said
}

# only FILE...: nothing else is in the folder; then they are removed, add.phb excepted.
only() {
    found=$(ls -A | sort | tr '\n' ' ')
    wanted=$(printf '%s\n' add.phb "$@" | sort | tr '\n' ' ')
    [ "$found" = "$wanted" ] || fail "left behind: $found, expected: $wanted"
    for file in "$@"; do
        rm -rf "./$file"
    done
}

# ---- usage ----
expect 2 "no source"
expect 2 "unknown option '--emti=ir'; did you mean '--emit'?" --emti=ir add.phb
expect 2 "unknown value 'asmm' for '--emit'; did you mean 'asm'?" --emit=asmm add.phb
expect 2 "'--emit' needs a value: KIND" add.phb --emit
expect 2 "'--emit' needs a value: KIND" add.phb --emit=
expect 2 "'-o -' is for text, '--emit=lib' is none" --emit=lib add.phb -o -
expect 2 "'--emit=ptx' needs a GPU target" --gpu=none --emit ptx add.phb
expect 2 "did you mean 'fold'?" --emit=ir-after=fodl add.phb
expect 2 "needs a pass" --emit=ir-after add.phb
expect 2 "did you mean 'sm_90a'?" --gpu=sm_90aa add.phb
expect 2 "did you mean 'sm_80'?" --gpu=sm_80,sm_81 add.phb
expect 2 "separated by commas" --gpu=, add.phb
expect 2 "expected one of auto, none, sm_80, sm_86, sm_89, sm_90, sm_90a" --gpu=ampere add.phb
expect 2 "'--gpu' takes none alone" --gpu=none,sm_80 add.phb
expect 2 "'--cubin' needs a GPU target" --gpu=none --cubin add.phb
expect 2 "did you mean 'x86-64-v3'?" --cpu=x86-64-v33 add.phb
expect 2 "'-D' takes NAME=INT" -D BLOCK add.phb
expect 2 "'-D' takes NAME=INT" -DBLOCK=12x add.phb
expect 2 "'-D' takes NAME=INT" -D =1 add.phb
expect 2 "a search dim is positive" -D BLOCK=0 add.phb
expect 2 "positive number" -j0 add.phb
expect 2 "a number from 1 to 65536, or 'all'" --variants=few add.phb
expect 2 "unknown option '-O4'" -O4 add.phb
expect 2 "did you mean '-Wshadow'?" -Wshadwo add.phb
expect 2 "'-MF', '-MT', '-MQ' and '-MP' need '-MD'" -MF add.d add.phb
expect 2 "standard output is named for the output and for the depfile" --emit=ir -MD -MF - add.phb
expect 2 "named for the output and for the depfile" -MD -MF x -o x add.phb
expect 2 "named for the output and for the depfile" -MD -MF ./x -o x add.phb
expect 2 "named for the output and for the depfile" -c -MD -o x.d add.phb
expect 2 "named for the output and for the header" --emit=lib -o x.h add.phb
expect 2 "named for the header and for the depfile" --emit=lib -o libx.a -MD -MF x.h add.phb
expect 2 "one source at a time" add.phb other.phb
expect 2 "'-o -' is for text" -o - add.phb
expect 2 "the output is the source" -c add.phb -o add.phb
expect 2 "the depfile is the source" -c add.phb -MD -MF add.phb
expect 2 "'--no-cluster' takes no value" --no-cluster=1 add.phb
only

# ---- response files ----
printf -- '-O1 "--gpu=none"\n -o\t"a file"  add\\.phb' >inner
printf '@inner -w' >outer
expect 0 "" @outer
[ -x "a file" ] || fail "response files: no output"
rm -f "a file"
expect 2 "cannot read response file 'absent': No such file" @absent
expect 2 "unknown option '-O4'" @inner -O4
printf '@loop' >loop
expect 2 "named by response files 10 deep" @loop
expect 1 "cannot open '@inner2'" -- @inner2
rm -f inner outer loop
only

# ---- the source ----
expect 1 "missing.phb" missing.phb
expect 1 "not a regular file" /
printf 'kernel add(a: tensor<f32>[N] {\n' >broken.phb
expect 1 "broken.phb:1:" broken.phb -o broken
expect 1 "broken.phb:1:" broken.phb -c -MD
expect 1 '"' --diagnostics=json broken.phb
only broken.phb
expect 1 "" -D BLOK=64 -c add.phb
only

# ---- facts ----
expect 0 "phobosc " --version
expect 0 "--print-search-dirs" --help
expect 0 "libphobosrt.a" --print-search-dirs
only

# ---- outputs ----
expect 0 "" -c add.phb
only add.o
expect 2 "unknown option '-cMD'" -cMD add.phb
expect 0 "phobos-ir" --emit=ir add.phb
expect 0 "phobos-ir" --emit ir-after=lower add.phb
expect 0 "kernel add" --emit=ast add.phb
expect 0 "cluster program" --emit=cluster add.phb -o -
expect 0 "@phb_program" --emit=llvm add.phb
expect 0 "phb_program:" --emit=asm add.phb --cpu=native -O1
expect 0 "x86-64-v2" --emit=llvm --cpu x86-64-v3,x86-64-v2,x86-64-v3 add.phb
expect 0 "" --emit=ir -D leaf.BLOCK=64 -D cluster.BLOCK=1048576 -j 2 --variants=all -w -Wall -Wno-edge -Werror --color=never add.phb
expect 0 "phobos-ir" --emit=ir --no-cluster -- add.phb
only
"$phobosc" --emit=ir - <add.phb | grep -q phobos-ir || fail "no IR from standard input"
"$phobosc" --emit=ir add.phb -o add.ir || fail "--emit=ir -o"
expect 2 "need source" -D BLOCK=64 -c add.ir
expect 2 "needs source" --emit=ast add.ir
printf 'phobos-ir 1\nfile "x.phb"\nkernel\n' >bad.ir
expect 1 "bad.ir:3:" bad.ir
only add.ir bad.ir
: >old
chmod 600 old
expect 0 "" -c add.phb -o old
[ -s old ] || fail "an old output was not replaced"
only old

# ---- depfiles ----
expect 0 "" -c -MD add.phb
[ "$(cat add.d)" = "add.o: add.phb" ] || fail "add.d: $(cat add.d)"
only add.o add.d
mkdir out
expect 0 "" -c -MD -MP -MF "out/my deps" -MT one -MT two add.phb -o out/add.o
[ "$(cat "out/my deps")" = "one two: add.phb" ] || fail "depfile: $(cat "out/my deps")"
cp add.phb 'a $x #.phb'
expect 0 "" -c -MD 'a $x #.phb' -o 'b c.o'
[ "$(cat 'b c.d')" = 'b\ c.o: a\ $$x\ \#.phb' ] || fail "depfile: $(cat 'b c.d')"
expect 0 'a$(b) c$$d\ e: add.phb' -c -MMD -MF - -MT 'a$(b)' -MQ 'c$d e' add.phb
only out 'a $x #.phb' 'b c.o' 'b c.d' add.o
expect 0 "ir.d: add.phb" --emit=ir -o ir -MD -MF /dev/stdout -MT ir.d add.phb
"$phobosc" -c -MD -MF - add.phb >/dev/full 2>stderr
[ $? = 1 ] && grep -q "cannot write standard output: No space left" stderr || fail "a depfile on a full device: $(cat stderr)"
only ir stderr

# ---- outputs that are links, and the shell's own files ----
mkdir out
ln -s out/real.o link.o
ln -s ../add.o out/up.o
expect 0 "" -c add.phb -o link.o
[ -L link.o ] && [ -f out/real.o ] || fail "a link to a file that was not there is no link any more"
expect 0 "" -c add.phb -o out/up.o
[ -L out/up.o ] && cmp add.o out/real.o || fail "a link up"
expect 2 "named for the output and for the depfile" -c add.phb -o link.o -MD -MF out/real.o
{ echo before; "$phobosc" --emit=ast add.phb -o /dev/stdout; echo after; } >said 2>stderr
[ "$(sed -n '1p;$p' said)" = "before
after" ] && grep -q "kernel add" said && [ -L /dev/stdout ] || fail "/dev/stdout: $(cat said stderr)"
ln -s loop loop
expect 1 "Too many levels of symbolic links" -c add.phb -o loop
only out link.o add.o loop

# ---- what cannot be written ----
expect 1 "No space left on device" --emit=ir add.phb -o /dev/full
expect 1 "No space left on device" -c add.phb -o /dev/full
"$phobosc" --emit=ir add.phb >/dev/full 2>stderr
[ $? = 1 ] && grep -q "No space left" stderr || fail "standard output on a full device: $(cat stderr)"
rm stderr
expect 0 "" -c add.phb -o /dev/null -MD -MF /dev/null
[ -c /dev/null ] || fail "/dev/null was replaced"
mkdir folder
expect 1 "Is a directory" -c add.phb -o folder
expect 1 "No such file or directory" -c add.phb -o absent/add.o
expect 1 "No such file or directory" -c add.phb -MD -MF absent/add.d
if [ "$(id -u)" != 0 ]; then
    chmod 555 folder
    expect 1 "Permission denied" -c add.phb -o folder/add.o
    chmod 755 folder
fi
only folder

# ---- a disk that fills up while the linker writes ----
if mkdir tiny && mount -t tmpfs -o size=1m tmpfs tiny 2>/dev/null; then
    expect 1 "cannot link 'tiny/add'" --gpu=none add.phb -o tiny/add
    TMPDIR=$work/tiny expect 1 "cannot link" --gpu=none add.phb -o tiny/add -MD -MF add.d
    expect 1 "cannot write 'tiny/libadd.a': No space left on device" --gpu=none --emit=lib add.phb -o tiny/libadd.a
    [ -z "$(ls -A tiny)" ] || fail "left behind on a full disk: $(ls -A tiny)"
    umount tiny
else
    echo "full disks were not tried: no tmpfs can be mounted here"
fi
rmdir tiny
only

# ---- linking ----
expect 0 "" add.phb
[ -x a.out ] || fail "a.out does not run"
only a.out
expect 0 "" add.phb -o -add
only -add
CC=no-such-compiler expect 1 "'no-such-compiler' is not on the PATH" add.phb -o add
PATH='' "$phobosc" add.phb -o add 2>stderr
[ $? = 1 ] && grep -qF "'cc' is not on the PATH" stderr || fail "without cc: $(cat stderr)"
rm stderr
PATH='' "$phobosc" --cubin -c add.phb -o add.o 2>stderr
[ $? = 1 ] && grep -qF "add.phb:4:8: error: cannot assemble 'add_v0' for sm_80: 'ptxas' is not on the PATH; install the CUDA toolkit" stderr ||
    fail "without ptxas: $(cat stderr)"
rm stderr
# An assembler of ours, which waits for another one to begin: two at once where -j says so, never without.
mkdir bin
cat >bin/ptxas <<'PTXAS'
#!/bin/sh
: >"$FOLDER/$$"
for try in $(seq 100); do
    [ "$(ls "$FOLDER" | wc -l)" -lt 2 ] || break
    [ "$JOBS" = 1 ] && break
    sleep 0.05
done
ls "$FOLDER" | wc -l >>"$FOLDER.most"
sleep 0.05
rm "$FOLDER/$$"
case $1 in -arch=$REFUSED) exit 3 ;; esac
cp "$4" "$3"
PTXAS
chmod +x bin/ptxas
mkdir running
for jobs in 1 2; do
    rm -f running.most
    PATH=$work/bin:$PATH FOLDER=$work/running REFUSED=none JOBS=$jobs TMPDIR=$work/out \
        expect 1 "cannot write '$work/out/phobosc-image'" --cubin --gpu=sm_80,sm_90 -j $jobs -c add.phb -o add$jobs.o
    PATH=$work/bin:$PATH FOLDER=$work/running REFUSED=none JOBS=$jobs expect 0 "" --cubin --gpu=sm_80,sm_90 -j $jobs -c add.phb -o add$jobs.o
    [ "$(sort -n running.most | tail -1)" = $jobs ] || fail "-j $jobs: $(cat running.most) at once"
    PATH=$work/bin:$PATH FOLDER=$work/running REFUSED=sm_80 JOBS=$jobs TMPDIR=$work/running/.. \
        expect 1 "cannot assemble 'add_v0' for sm_80: 'ptxas' failed with status 3" --cubin --gpu=sm_80,sm_90 -j $jobs -c add.phb -o refused.o
done
cmp add1.o add2.o || fail "-j changes machine code"
only bin running running.most add1.o add2.o
CC=false expect 1 "'false' failed with status 1" add.phb -o add
CC='cc -Wl,--no-such-option' expect 1 "cannot link 'add'" add.phb -o add
expect 1 "No such file or directory" add.phb -o absent/add
expect 1 "" add.phb -MD -MF absent/add.d -o add
cp "$phobosc" moved
"$work/moved" add.phb -o add 2>stderr
[ $? = 1 ] && grep -q "libphobosrt.a" stderr || fail "without its runtime: $(cat stderr)"
only moved stderr

# ---- signals (a shell's background jobs ignore SIGINT) ----
for signal in TERM HUP; do
    printf '#!/bin/sh\ntouch linking\nexec sleep 30\n' >slow-cc
    chmod +x slow-cc
    CC=$work/slow-cc "$phobosc" add.phb -o add &
    pid=$!
    tries=0
    while [ ! -e linking ] && [ $tries -lt 400 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -s "$signal" $pid
    wait $pid 2>/dev/null
    found=$?
    [ $found -gt 128 ] || fail "SIG$signal: status $found"
    only linking slow-cc
done

[ $failures = 0 ]

#!/bin/sh
# Jobs on GPUs that are not there or cannot run them, by a driver of ours: what is said, exit codes, and that old outputs stay. Leaves do nothing there.
#
#   tests/integration/gpu.sh PHOBOSC ORACLE_ADD SAMPLES FAKE_CUDA
set -u
phobosc=$1 oracle=$2 samples=$3 fake=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export FAKE_CUDA_IDLE=1
ulimit -c 0
failed=0

fail() {
    failed=$((failed + 1))
    echo "$1" >&2
}

"$phobosc" --gpu=sm_80 "$samples/add/add.phb" -o add && "$phobosc" --gpu=none "$samples/add/add.phb" -o plain || exit 1
cp "$samples/add/job.json" .
"$oracle" make job.json
./plain job.json --progress=none >/dev/null && "$oracle" check job.json || exit 1
cp c.npy before.npy

# says STATUS TEXT DRIVER PROGRAM ARGUMENTS...: with a fake driver, or none; a failure leaves the outputs alone and nothing beside them.
says() {
    status=$1 text=$2 driver=$3
    shift 3
    LD_LIBRARY_PATH=$fake/$driver timeout 60 "$@" --progress=none >out 2>&1
    found=$?
    [ $found = "$status" ] || fail "$* with the driver '$driver': status $found, expected $status: $(cat out)"
    grep -qF -- "$text" out || fail "$* with the driver '$driver': said '$(cat out)', expected '$text'"
    [ "$status" = 0 ] || cmp -s c.npy before.npy || fail "$*: a failed job changed the output"
    [ -z "$(ls | grep -E 'part|lock')" ] || fail "$*: left behind: $(ls)"
    cp before.npy c.npy
}

# ---- which device, and why not a GPU ----
says 1 "there is no CUDA driver: libcuda.so.1" none ./add job.json --device=cuda:0
says 0 "leaves run on the CPU: there is no CUDA driver" none ./add job.json
says 0 "3.000 s on cpu" none sh -c './add "$@" 2>&1 | sed "s/in [0-9.]* s/in 3.000 s/"' sh job.json --device=cpu
says 1 "the driver is too old, 450 (CUDA 11.0) or newer is needed" old ./add job.json --device=cuda:0
says 0 "leaves run on the CPU: libcuda.so.1 has no cuStreamCreate" old ./add job.json
# A driver that lacks one function: its name is changed in the library's text.
for symbol in $(sed -n 's/^SYMBOL(.*, \(cu[A-Za-z_0-9]*\), NEEDED.*/\1/p' "$samples/../runtime/device/cuda_driver.def"); do
    mkdir -p "lacking/$symbol"
    LC_ALL=C sed "s/\x00$symbol\x00/\x00x${symbol#c}\x00/g" "$fake/whole/libcuda.so.1" >"lacking/$symbol/libcuda.so.1"
    found=$(LD_LIBRARY_PATH=lacking/$symbol ./add job.json --device=cuda:0 --progress=none 2>&1) && fail "no $symbol: it runs"
    case $found in *"libcuda.so.1 has no $symbol: the driver is too old"*) ;; *) fail "no $symbol: said '$found'" ;; esac
    symbols=$((${symbols:-0} + 1))
done
[ "${symbols:-0}" -gt 25 ] || fail "only ${symbols:-0} functions of the driver were left out"
rm -rf lacking
FAKE_CUDA_CARDS=0 says 1 "--device=cuda:0: there are 0 cards here" whole ./add job.json --device=cuda:0
FAKE_CUDA_CARDS=0 says 0 "leaves run on the CPU: no card is visible" whole ./add job.json
FAKE_CUDA_FAIL=cuInit=999 says 1 "the CUDA driver does not start" whole ./add job.json --device=cuda:0
says 1 "--device=cuda:3: there is 1 card here" whole ./add job.json --device=cuda:3
says 1 "no code for GPUs is embedded; compile with --gpu=sm_90, or run with --device=cpu" whole ./plain job.json --device=cuda:0
FAKE_CUDA_CAPABILITY=75 says 1 "has compute capability 7.5, which runs none of the embedded images (sm_80); compile with --gpu=sm_75" whole ./add job.json --device=cuda:0
says 0 " s on gpu sm_90;" whole ./add job.json
FAKE_CUDA_CARDS=2 says 0 "pod 1: cuda:1 Fake Card" whole ./add job.json --log=info

# ---- a card that is too small for the job, and too small for the kernel ----
FAKE_CUDA_MEMORY=100000 says 1 "memory" whole ./add job.json --device=cuda:0
"$phobosc" --gpu=sm_80 "$samples/transpose/transpose.phb" -o transpose || exit 1
head -c 24000 /dev/zero >A.bin
echo '{ "dims": { "M": 100, "N": 60 }, "tensors": { "A": "A.bin", "B": "B.bin" } }' >transpose.json
FAKE_CUDA_SHARED=1024 says 1 "bytes of shared memory a CTA, and cuda:0 Fake Card has 1024: compile with a smaller leaf tile" whole \
    ./transpose --device=cuda:0 transpose.json

# ---- faults of the card: kernel, driver and the way out are named ----
FAKE_CUDA_LAUNCH_RESULT=700 says 1 " add: CUDA_FAKE_700 (planted), driver CUDA 12.4: a kernel left its memory" whole ./add job.json --device=cuda:0
FAKE_CUDA_FAIL=cuMemAlloc_v2=2 says 1 "driver CUDA 12.4" whole ./add job.json --device=cuda:0
FAKE_CUDA_FAIL=cuMemcpyHtoDAsync_v2=719@3 says 1 "cannot copy a tile to the card beside kernel add: CUDA_FAKE_719 (planted), driver CUDA 12.4" whole ./add job.json --device=cuda:0
FAKE_CUDA_FAIL=cuModuleLoadDataEx=218 says 1 "ptxas: planted" whole ./add job.json --device=cuda:0

# ---- a scheduler and pods: one class computes a job ----
port=$((10000 + $$ % 11000 * 2)) # below those that the system gives out
# pod NAME DRIVER ARGUMENTS...
pod() {
    name=$1
    : >"$name.log"
    LD_LIBRARY_PATH=$fake/$2 timeout 30 ./add --role=pod --sched=tcp://127.0.0.1:$port --node-name="$name" --log=info "$3" >"$name.log" 2>&1 &
    eval "pid_$name=$!"
}
# wait_for FILE TEXT
wait_for() {
    tries=0
    until grep -qsF -- "$2" "$1"; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { fail "$1 never said '$2': $(cat "$1")"; return; }
        sleep 0.05
    done
}
# sched STATUS ARGUMENTS...
sched() {
    : >sched.log
    timeout 30 ./add --role=sched job.json --listen=tcp://127.0.0.1:$port --progress=none --log=info "$@" >sched.log 2>&1 &
    pid_sched=$!
}
# ends NAME STATUS
ends() {
    eval "wait \$pid_$1"
    found=$?
    [ $found = "$2" ] || fail "$1 ended with $found, expected $2: $(cat "$1.log")"
}

sched --nodes=2
pod one whole --device=cuda:0
wait_for sched.log "pod one joined (cuda:0 Fake Card)"
pod two none --device=cpu
wait_for two.log "this job runs on gpu sm_90, and this pod on cpu: other devices give other bits; start the pod with --device=cuda:K, or the scheduler with --mixed"
ends two 78
pod three whole --device=auto
ends sched 0
ends one 0
ends three 0
grep -qF " s on gpu sm_90; pod one computed" sched.log || fail "the summary does not name the class: $(cat sched.log)"
cp before.npy c.npy

sched --nodes=2 --mixed
pod one whole --device=cuda:0
wait_for sched.log "pod one joined"
pod two none --device=auto
ends sched 0
ends one 0
ends two 0
grep -qF "mixed: pod two computes on cpu, pod one on gpu sm_90; what they compute may differ in its last bits" sched.log || fail "--mixed says nothing: $(cat sched.log)"
grep -qF " s on mixed devices;" sched.log || fail "the summary does not say mixed: $(cat sched.log)"
grep -qF "leaves run on the CPU: there is no CUDA driver" two.log || fail "a pod fell back in silence: $(cat two.log)"
cp before.npy c.npy

sched --nodes=1
export FAKE_CUDA_LAUNCH_RESULT=700
pod one whole --device=cuda:0
unset FAKE_CUDA_LAUNCH_RESULT
ends sched 1
ends one 1
# The launch says it, or a copy beside it that meets the same fault first.
grep -qF "CUDA_FAKE_700 (planted), driver CUDA 12.4: a kernel left its memory" sched.log || fail "a lost card: $(cat sched.log)"
cmp -s c.npy before.npy || fail "a lost card changed the output"

sched --nodes=1 --join-timeout=3
pod one whole --device=cuda:9
ends one 1
grep -qF "there is 1 card here" one.log || fail "a pod on no card: $(cat one.log)"
ends sched 1

[ $failed = 0 ]

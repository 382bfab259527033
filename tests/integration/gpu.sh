#!/bin/sh
# Jobs on GPUs that are not there or cannot run them, by a driver of ours: what is said, exit codes, and that old outputs stay. Leaves do nothing there.
#
#   tests/integration/gpu.sh PHOBOSC ORACLE_ADD SAMPLES FAKE_CUDA
set -eu
phobosc=$1 oracle=$2 samples=$3 fake=$4
. "$(dirname "$0")/../tools/processes.sh"
export FAKE_CUDA_IDLE=1
ulimit -c 0

"$phobosc" --gpu=sm_80 "$samples/add/add.phb" -o add
"$phobosc" --gpu=none "$samples/add/add.phb" -o plain
cp "$samples/add/job.json" .
"$oracle" make job.json
./plain job.json --progress=none >plain.log 2>&1 && "$oracle" check job.json || fail "a job on the CPU"
cp c.npy before.npy

# runs STATUS TEXT DRIVER PROGRAM ARGUMENTS...: with a fake driver, or none; a failure leaves the outputs alone and nothing beside them.
runs() {
    status=$1 text=$2 driver=$3 code=0
    shift 3
    LD_LIBRARY_PATH=$fake/$driver timeout 60 "$@" --progress=none >run.log 2>&1 || code=$?
    [ $code = "$status" ] || fail "$* with the driver '$driver' ended with $code, expected $status"
    grep -qF -- "$text" run.log || fail "$* with the driver '$driver' does not say '$text'"
    old_output
}

# Nothing is left of a job; where it failed the output is as it was. For the next one it is made so.
old_output() {
    [ "$code" = 0 ] || cmp -s c.npy before.npy || fail "a failed job changed the output"
    nothing_left
    cp before.npy c.npy
}

# ---- which device, and why not a GPU ----
runs 1 "there is no CUDA driver: libcuda.so.1" none ./add job.json --device=cuda:0
runs 0 "leaves run on the CPU: there is no CUDA driver" none ./add job.json
runs 0 "3.000 s on cpu" none sh -c './add "$@" 2>&1 | sed "s/in [0-9.]* s/in 3.000 s/"' sh job.json --device=cpu
runs 1 "the driver is too old, 450 (CUDA 11.0) or newer is needed" old ./add job.json --device=cuda:0
runs 0 "leaves run on the CPU: libcuda.so.1 has no cuStreamCreate" old ./add job.json
# A driver that lacks one function: its name is changed in the library's text.
for symbol in $(sed -n 's/^SYMBOL(.*, \(cu[A-Za-z_0-9]*\), NEEDED.*/\1/p' "$samples/../runtime/device/cuda_driver.def"); do
    mkdir -p "lacking/$symbol"
    LC_ALL=C sed "s/\x00$symbol\x00/\x00x${symbol#c}\x00/g" "$fake/whole/libcuda.so.1" >"lacking/$symbol/libcuda.so.1"
    ! LD_LIBRARY_PATH=lacking/$symbol ./add job.json --device=cuda:0 --progress=none >run.log 2>&1 || fail "no $symbol: it runs"
    says run.log "libcuda.so.1 has no $symbol: the driver is too old"
    symbols=$((${symbols:-0} + 1))
done
[ "${symbols:-0}" -gt 25 ] || fail "only ${symbols:-0} functions of the driver were left out"
rm -rf lacking
FAKE_CUDA_CARDS=0 runs 1 "--device=cuda:0: there are 0 cards here" whole ./add job.json --device=cuda:0
FAKE_CUDA_CARDS=0 runs 0 "leaves run on the CPU: no card is visible" whole ./add job.json
FAKE_CUDA_FAIL=cuInit=999 runs 1 "the CUDA driver does not start" whole ./add job.json --device=cuda:0
runs 1 "--device=cuda:3: there is 1 card here" whole ./add job.json --device=cuda:3
runs 1 "no code for GPUs is embedded; compile with --gpu=sm_90, or run with --device=cpu" whole ./plain job.json --device=cuda:0
FAKE_CUDA_CAPABILITY=75 runs 1 "has compute capability 7.5, which runs none of the embedded images (sm_80); compile with --gpu=sm_75" whole ./add job.json --device=cuda:0
runs 0 " s on gpu sm_90;" whole ./add job.json
FAKE_CUDA_CARDS=2 runs 0 "pod 1: cuda:1 Fake Card" whole ./add job.json --log=info

# ---- a card that is too small for the job, and too small for the kernel ----
FAKE_CUDA_MEMORY=100000 runs 1 "memory" whole ./add job.json --device=cuda:0
"$phobosc" --gpu=sm_80 "$samples/transpose/transpose.phb" -o transpose
head -c 24000 /dev/zero >A.bin
echo '{ "dims": { "M": 100, "N": 60 }, "tensors": { "A": "A.bin", "B": "B.bin" } }' >transpose.json
FAKE_CUDA_SHARED=1024 runs 1 "bytes of shared memory a CTA, and cuda:0 Fake Card has 1024: compile with a smaller leaf tile" whole \
    ./transpose --device=cuda:0 transpose.json

# ---- faults of the card: kernel, driver and the way out are named ----
FAKE_CUDA_LAUNCH_RESULT=700 runs 1 " add: CUDA_FAKE_700 (planted), driver CUDA 12.4: a kernel left its memory" whole ./add job.json --device=cuda:0
FAKE_CUDA_FAIL=cuMemAlloc_v2=2 runs 1 "driver CUDA 12.4" whole ./add job.json --device=cuda:0
FAKE_CUDA_FAIL=cuMemcpyHtoDAsync_v2=719@3 runs 1 "cannot copy a tile to the card beside kernel add: CUDA_FAKE_719 (planted), driver CUDA 12.4" whole ./add job.json --device=cuda:0
FAKE_CUDA_FAIL=cuModuleLoadDataEx=218 runs 1 "ptxas: planted" whole ./add job.json --device=cuda:0

# ---- a scheduler and pods: one class computes a job ----
# pod NAME DRIVER OPTION
pod() {
    name=$1
    : >"$name.log"
    LD_LIBRARY_PATH=$fake/$2 timeout 60 ./add --role=pod --sched=$listen --node-name="$name" --log=info "$3" >"$name.log" 2>&1 &
    eval "$name=$!"
}

sched() {
    : >sched.log
    timeout 60 ./add --role=sched job.json --listen=$listen --progress=none --log=info "$@" >sched.log 2>&1 &
    sched=$!
}

sched --nodes=2
pod one whole --device=cuda:0
wait_for sched.log "pod one joined (cuda:0 Fake Card)"
pod two none --device=cpu
wait_for two.log "this job runs on gpu sm_90, and this pod on cpu: other devices give other bits; start the pod with --device=cuda:K, or the scheduler with --mixed"
ends 78 "$two" two
pod three whole --device=auto
ends 0 "$sched" sched
ends 0 "$one" one
ends 0 "$three" three
says sched.log " s on gpu sm_90; pod one computed"
old_output

sched --nodes=2 --mixed
pod one whole --device=cuda:0
wait_for sched.log "pod one joined"
pod two none --device=auto
ends 0 "$sched" sched
ends 0 "$one" one
ends 0 "$two" two
says sched.log "mixed: pod two computes on cpu, pod one on gpu sm_90; what they compute may differ in its last bits"
says sched.log " s on mixed devices;"
says two.log "leaves run on the CPU: there is no CUDA driver"
old_output

sched --nodes=1
export FAKE_CUDA_LAUNCH_RESULT=700
pod one whole --device=cuda:0
unset FAKE_CUDA_LAUNCH_RESULT
ends 1 "$sched" sched
ends 1 "$one" one
# The launch says it, or a copy beside it that meets the same fault first.
says sched.log "CUDA_FAKE_700 (planted), driver CUDA 12.4: a kernel left its memory"
old_output

sched --nodes=1 --join-timeout=3
pod one whole --device=cuda:9
ends 1 "$one" one
says one.log "there is 1 card here"
ends 1 "$sched" sched
old_output

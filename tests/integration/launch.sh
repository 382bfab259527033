#!/bin/sh
# Launchers: what the roles read of Slurm's environment, the batch script with an srun of ours in the place of Slurm's, systemd's units.
#
#   launch.sh PHOBOSC ORACLE SOURCE_ROOT
set -eu

phobosc=$1 oracle=$2 root=$3
. "$(dirname "$0")/../tools/processes.sh"

"$phobosc" --gpu=none "$root/samples/add/add.phb" -o add
cp "$root/samples/add/job.json" .
"$oracle" make job.json

# ---- the batch script: two tasks, on nodes whose names are addresses of this machine ----
mkdir keys bin
./add --role=keygen --key=keys/sched.key --node-name=sched >/dev/null || fail "keygen"
for node in 127.0.0.2 127.0.0.3; do
    ./add --role=keygen --key=keys/$node.key --node-name=$node >/dev/null || fail "keygen"
done
cat keys/*.pub >keys/peers
cat >bin/srun <<'SRUN'
#!/bin/sh
for node in 127.0.0.2 127.0.0.3; do
    SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURMD_NODENAME=$node "$@" 2>pod-$node.log &
done
wait
SRUN
chmod +x bin/srun
sed "s/0.0.0.0:5870/127.0.0.1:$port/; s/0.0.0.0:5871/\$SLURMD_NODENAME:*/; s/ --advertise=[^ ]*//" "$root/samples/launch/add.sbatch" >batch
PATH=$work/bin:$PATH PHOBOS_SCHED=$listen SLURM_NTASKS=2 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='127.0.0.[2-3]' \
    timeout 60 sh ./batch >summary.log 2>batch.log || fail "the batch script ended with $?"
says batch.log 'slurm: the job begins with 2 pods (SLURM_NTASKS)'
says summary.log '127\.0\.0\.2'
"$oracle" check job.json || fail "the job's result"

# ---- what a pod reads ----
reads() { # EXPECTED VARIABLE=VALUE...: a pod that finds no scheduler
    expected=$1
    shift
    env SLURM_STEP_ID=0 "$@" timeout 1 ./add --role=pod 2>said.log || true
    grep -qF "$expected" said.log || fail "$*: expected '$expected'"
}
reads 'slurm: this pod is n7 (SLURMD_NODENAME)' SLURMD_NODENAME=n7 SLURM_LOCALID=0
reads 'slurm: this pod is n7.2 (SLURMD_NODENAME, SLURM_LOCALID)' SLURMD_NODENAME=n7 SLURM_LOCALID=2
reads 'slurm: the scheduler is at tcp://127.0.0.9:5870, the first of SLURM_JOB_NODELIST' SLURM_JOB_NODELIST='127.0.0.[9-12,20],other'
reads 'slurm: the scheduler is at tcp://r0n07-ib:5870,' SLURM_JOB_NODELIST='r[0-1]n[07-12]-ib,other'
reads 'slurm: the scheduler is at tcp://127.0.0.1:5870,' SLURM_JOB_NODELIST='127.0.0.1,127.0.0.2'
env SLURM_JOB_NODELIST=127.0.0.1 SLURMD_NODENAME=n7 timeout 1 ./add --role=pod 2>said.log || true
! grep -q slurm: said.log || fail "outside of a step it reads Slurm's variables"

# ---- systemd ----
if command -v systemd-analyze >/dev/null; then
    mkdir units
    sed "s,/opt/phobos/add,$work/add," "$root/samples/launch/phobos-pod.service" >units/phobos-pod.service
    sed "s,/opt/phobos/add,$work/add," "$root/samples/launch/phobos-job@.service" >units/phobos-job@.service
    cp units/phobos-job@.service units/phobos-job@one.service
    for unit in phobos-pod.service phobos-job@one.service; do
        systemd-analyze verify "$work/units/$unit" 2>said.log || true
        ! grep -q "$unit" said.log || fail "systemd does not take $unit"
    done
fi

#!/bin/sh
# Launchers: what the roles read of Slurm's environment, the batch script with an srun of ours in the place of Slurm's, systemd's units.
#
#   launch.sh PHOBOSC ORACLE SOURCE_ROOT
set -u

phobosc=$1
oracle=$2
root=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

"$phobosc" --gpu=none "$root/samples/add/add.phb" -o add || exit 1
cp "$root/samples/add/job.json" .
"$oracle" make job.json || exit 1

# ---- the batch script: two tasks, on nodes whose names are addresses of this machine ----
port=$((10000 + $$ % 11000 * 2)) # below those that the system gives out
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
PATH=$work/bin:$PATH PHOBOS_SCHED=tcp://127.0.0.1:$port SLURM_NTASKS=2 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='127.0.0.[2-3]' \
    timeout 60 sh ./batch >summary 2>log || fail "the batch script: status $?: $(cat log pod-*.log)"
grep -q 'slurm: the job begins with 2 pods (SLURM_NTASKS)' log || fail "the scheduler does not say what it read: $(cat log)"
grep -q '127.0.0.2' summary || fail "no pod of the first node: $(cat summary)"
"$oracle" check job.json || fail "the job's result"

# ---- what a pod reads ----
reads() { # EXPECTED VARIABLE=VALUE...: a pod that finds no scheduler
    expected=$1
    shift
    env SLURM_STEP_ID=0 "$@" timeout 1 ./add --role=pod 2>said
    grep -qF "$expected" said || fail "$*: expected '$expected', said: $(cat said)"
}
reads 'slurm: this pod is n7 (SLURMD_NODENAME)' SLURMD_NODENAME=n7 SLURM_LOCALID=0
reads 'slurm: this pod is n7.2 (SLURMD_NODENAME, SLURM_LOCALID)' SLURMD_NODENAME=n7 SLURM_LOCALID=2
reads 'slurm: the scheduler is at tcp://127.0.0.9:5870, the first of SLURM_JOB_NODELIST' SLURM_JOB_NODELIST='127.0.0.[9-12,20],other'
reads 'slurm: the scheduler is at tcp://r0n07-ib:5870,' SLURM_JOB_NODELIST='r[0-1]n[07-12]-ib,other'
reads 'slurm: the scheduler is at tcp://127.0.0.1:5870,' SLURM_JOB_NODELIST='127.0.0.1,127.0.0.2'
env SLURM_JOB_NODELIST=127.0.0.1 SLURMD_NODENAME=n7 timeout 1 ./add --role=pod 2>said
! grep -q slurm: said || fail "outside of a step: $(cat said)"

# ---- systemd ----
if command -v systemd-analyze >/dev/null; then
    mkdir units
    sed "s,/opt/phobos/add,$work/add," "$root/samples/launch/phobos-pod.service" >units/phobos-pod.service
    sed "s,/opt/phobos/add,$work/add," "$root/samples/launch/phobos-job@.service" >units/phobos-job@.service
    cp units/phobos-job@.service units/phobos-job@one.service
    for unit in phobos-pod.service phobos-job@one.service; do
        systemd-analyze verify "$work/units/$unit" 2>said || true
        ! grep -q "$unit" said || fail "$unit: $(cat said)"
    done
fi

[ $failures = 0 ]

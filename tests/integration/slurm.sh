#!/bin/sh
# The batch script of samples/launch by Slurm itself: a controller and the daemons of two nodes on this machine, which are called as the addresses that they
# have.
#
#   slurm.sh PHOBOSC ORACLE SOURCE_ROOT
set -u

phobosc=$1
oracle=$2
root=$3
for program in munged mungekey slurmctld slurmd sbatch; do
    command -v $program >/dev/null || {
        echo "skipped: no $program"
        exit 77
    }
done
[ "$(id -u)" = 0 ] || {
    echo "skipped: Slurm's daemons want to be root"
    exit 77
}
work=$(mktemp -d)
chmod 755 "$work" # munge looks at who could get at its socket
cd "$work" || exit 1
daemons=

# What a failed test leaves running is Slurm's to end, while its daemons are there.
end() {
    scancel --quiet --user=root 2>/dev/null
    for try in $(seq 100); do
        [ -n "$(squeue --noheader 2>/dev/null)" ] || break
        sleep 0.1
    done
    # shellcheck disable=SC2086 # process numbers are words
    kill $daemons 2>/dev/null
    wait
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 ./*.log >&2
    exit 1
}

# daemon PROGRAM ARGUMENTS...: in the foreground of a process that is ours to end.
daemon() {
    "$@" &
    daemons="$daemons $!"
}

net=127.$(($$ / 250 % 250 + 1)).$(($$ % 250 + 1)) # nobody else's
first=$net.2
ports=$((10000 + $$ % 3600 * 6)) # below those that the system gives out
mkdir state spool-$first spool-$net.3 job
cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$(hostname)($net.1)
SlurmctldPort=$ports
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
NodeName=$first NodeHostname=$(hostname) NodeAddr=$first Port=$((ports + 1))
NodeName=$net.3 NodeHostname=$(hostname) NodeAddr=$net.3 Port=$((ports + 2))
PartitionName=all Nodes=$first,$net.3 Default=YES State=UP
CONF
export SLURM_CONF=$work/slurm.conf
mungekey --create --keyfile="$work/munge.key" || fail "no key"
daemon munged --foreground --force --socket="$work/munge.socket" --key-file="$work/munge.key" --pid-file="$work/munged.pid" --seed-file="$work/munged.seed" \
    --log-file="$work/munged.log" >munged.said.log 2>&1
for try in $(seq 100); do
    munge --socket="$work/munge.socket" --no-input >/dev/null 2>&1 && break
    sleep 0.1
done
daemon slurmctld -D -i >slurmctld.said.log 2>&1
for node in $first $net.3; do
    daemon slurmd -D -N $node >slurmd-$node.said.log 2>&1
done
for try in $(seq 200); do
    [ "$(sinfo --noheader --format=%D --states=idle 2>/dev/null)" = 2 ] && break
    sleep 0.1
done
[ "$try" -lt 200 ] || fail "the nodes are not idle: $(sinfo 2>&1)"

# ---- a job of two pods, which find the scheduler by what Slurm says alone ----
cd job || exit 1
"$phobosc" --gpu=none "$root/samples/add/add.phb" -o add || exit 1
cp "$root/samples/add/job.json" .
mkdir keys
for name in sched $first $net.3; do
    ./add --role=keygen --key=keys/$name.key --node-name=$name >keygen.log || fail "keygen"
done
cat keys/*.pub >keys/peers
# Both nodes are one machine: each listens at its own address.
sed "s/0.0.0.0:5870/$first:5870/; s/0.0.0.0:5871/\$SLURMD_NODENAME:5871/" "$root/samples/launch/add.sbatch" >add.sbatch
submit() {
    timeout 60 sbatch --quiet --wait --nodes=2 --output="$1.log" add.sbatch
}
"$oracle" make job.json
submit good || fail "sbatch: status $?"
grep -q 'slurm: the job begins with 2 pods (SLURM_NTASKS)' good.log || fail "the scheduler does not say what it read"
for node in $first $net.3; do
    grep -q "pod $node computed [1-9]" good.log || fail "$node computed nothing"
done
[ "$(grep -c "slurm: the scheduler is at tcp://$first:5870" good.log)" = 2 ] || fail "a pod does not say where it looks"
"$oracle" check job.json || fail "the job's result"

# ---- a job that is wrong: the batch job ends as its scheduler does ----
sed 's/"dims"/"dim"/' job.json >wrong && mv wrong job.json
submit bad
status=$?
[ $status = 2 ] || fail "a wrong job: status $status instead of 2"

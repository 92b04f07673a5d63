#!/bin/sh
# The script of plan --emit sbatch on a real Slurm of two nodes, network namespaces made here for the test: the job runs on both,
# is preempted by one of higher priority, saves, is requeued, goes on, and ends with the bits of an undisturbed run.
# LOCKSTEP_LONG=1, as root, with slurm-wlm and munge.
set -eu
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/spaces.sh"
[ -n "${LOCKSTEP_LONG:-}" ] || skip "LOCKSTEP_LONG=1 starts a Slurm"
for tool in slurmctld slurmd sbatch munged; do
  command -v $tool >/dev/null || skip "$tool is missing: apt-get install slurm-wlm munge"
done
open_spaces
mkdir -p "$work/munge" "$work/state" "$work/spool/host1" "$work/spool/host2"
chown munge "$work/munge"
dd if=/dev/urandom of="$work/munge/key" bs=1k count=1 2>/dev/null
chown munge "$work/munge/key"
chmod 400 "$work/munge/key"
node=$(hostname -s)
cat >"$work/slurm.conf" <<S
ClusterName=test
SlurmctldHost=$node(10.99.0.254)
AuthInfo=socket=$work/munge/socket
SlurmUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=1,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
ReturnToService=2
NodeName=host1 NodeAddr=10.99.0.1 CPUs=1 State=UNKNOWN
NodeName=host2 NodeAddr=10.99.0.2 CPUs=1 State=UNKNOWN
PartitionName=low Nodes=host[1-2] Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=host[1-2] PriorityTier=9 PreemptMode=OFF
S
export SLURM_CONF="$work/slurm.conf" LOCKSTEP_PROFILE="$work/profile.json" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
runuser -u munge -- munged --foreground --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
  --log-file="$work/munge/log" --seed-file="$work/munge/seed" &
daemons=$!
ip netns exec "$space-0" slurmctld -D >"$work/ctld.out" 2>&1 &
daemons="$daemons $!"
for i in 1 2; do host $i "exec slurmd -D"; done
trap 'kill $daemons 2>/dev/null; wait $daemons || true; close_spaces' EXIT
until_true() { # SECONDS WHAT COMMAND..
  left=$(($1 * 5)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || {
      tail -n 15 "$work"/slurm*.log "$work"/*.out "$work"/[12].log
      fail "$what"
    }
    sleep 0.2
  done
}
for tool in sinfo squeue sbatch scontrol; do eval "$tool() { ip netns exec $space-0 $(command -v $tool) \"\$@\"; }"; done
idle() { [ "$(sinfo -h -p low -t idle -o %D)" = 2 ]; }
says() { squeue -h -j "$1" -o %T | grep -qx "$2"; }
gone() { ! squeue -h -j "$1" -o %T 2>/dev/null | grep -q .; }
until_true 60 "no Slurm" idle

cat >"$work/c.yaml" <<Y
model: {input: [20], loss: mse, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 4000}
train: {batch: 40, steps: 30000, checkpoint: {dir: run, every_steps: 3000}}
parallel: {backend: cpu, threads: 1, reproducible: true}
Y
cd "$work"
"$program" plan c.yaml --emit sbatch --set 'parallel.hosts=[{name: a}, {name: b}]' >job.sh || fail "plan --emit sbatch"
job=$(sbatch --parsable --output="$work/job.out" job.sh)
until_true 60 "the job saves nothing" test -e run/step-000000003000
cat >other.sh <<'S'
#!/bin/sh
until [ -e release ]; do sleep 0.2; done
S
other=$(sbatch --parsable --partition=high --output=/dev/null other.sh)
until_true 60 "the job is not preempted" says "$other" RUNNING
saved=$(find run -maxdepth 1 -name 'step-*' | sort | tail -1)
until_true 60 "the preempted job does not wait: $(squeue)" says "$job" PENDING
: >release
scontrol update job="$job" StartTime=now # Slurm lets a requeued job wait for two minutes
until_true 300 "the job does not end: $(squeue)" gone "$job"
scontrol show job "$job" | grep -q 'JobState=COMPLETED' || fail "the job failed: $(scontrol show job "$job"; cat job.out)"
[ "$(scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')" -ge 1 ] || fail "the job was not requeued"
grep -q '"host": *"host1"' run/monitor/events.jsonl && grep -q '"host": *"host2"' run/monitor/events-1.jsonl || fail "not one rank on each node"
"$program" train c.yaml --set train.checkpoint.dir=alone --quiet >/dev/null || fail "the undisturbed run"
last=$(find alone -maxdepth 1 -name 'step-*' | sort | tail -1)
for file in "$last"/*.safetensors; do
  cmp "$file" "run/${last#alone/}/${file##*/}" || fail "the requeued job has other bits"
done
echo "slurm: preempted after $saved, requeued, the same bits"

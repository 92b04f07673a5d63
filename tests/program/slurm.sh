#!/bin/sh
# The script of plan --emit sbatch on a real Slurm of one node, made here for the test: the job is preempted by one of
# higher priority, saves, is requeued, goes on, and ends with the bits of an undisturbed run. LOCKSTEP_LONG=1, as root, with
# slurm-wlm and munge.
set -eu
. "$(dirname "$0")/lib.sh"
skip() { echo "skipped: $*" && exit 77; }
[ -n "${LOCKSTEP_LONG:-}" ] || skip "LOCKSTEP_LONG=1 starts a Slurm"
for tool in slurmctld slurmd sbatch munged; do
  command -v $tool >/dev/null || skip "$tool is missing: apt-get install slurm-wlm munge"
done
[ "$(id -u)" = 0 ] || skip "root starts a Slurm"
mkdir "$work/munge" "$work/state" "$work/spool"
chmod 755 "$work"
chown munge "$work/munge"
dd if=/dev/urandom of="$work/munge/key" bs=1k count=1 2>/dev/null
chown munge "$work/munge/key"
chmod 400 "$work/munge/key"
node=$(hostname -s) port=$((20000 + $$ % 20000))
cat >"$work/slurm.conf" <<S
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthInfo=socket=$work/munge/socket
SlurmUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
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
NodeName=$node NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=low Nodes=$node Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=$node PriorityTier=9 PreemptMode=OFF
S
export SLURM_CONF="$work/slurm.conf" LOCKSTEP_PROFILE="$work/profile.json" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
runuser -u munge -- munged --foreground --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
  --log-file="$work/munge/log" --seed-file="$work/munge/seed" &
daemons=$!
slurmctld -D >"$work/ctld.out" 2>&1 &
daemons="$daemons $!"
slurmd -D >"$work/slurmd.out" 2>&1 &
daemons="$daemons $!"
trap 'kill $daemons 2>/dev/null; wait; clean_up' EXIT
until_true() { # SECONDS WHAT COMMAND..
  left=$(($1 * 5)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || {
      tail -n 15 "$work"/slurm*.log "$work"/*.out
      fail "$what"
    }
    sleep 0.2
  done
}
idle() { sinfo -h -p low -o %T | grep -qx idle; }
says() { squeue -h -j "$1" -o %T | grep -qx "$2"; }
gone() { ! squeue -h -j "$1" -o %T 2>/dev/null | grep -q .; }
until_true 60 "no Slurm" idle

cat >"$work/c.yaml" <<Y
model: {input: [20], loss: mse, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: 3}}]}
data: {kind: synthetic, samples: 4000}
train: {batch: 40, steps: 200000, checkpoint: {dir: run, every_steps: 20000}}
parallel: {backend: cpu, threads: 1}
Y
cd "$work"
"$program" plan c.yaml --emit sbatch --devices 1 >job.sh || fail "plan --emit sbatch"
job=$(sbatch --parsable --output="$work/job.out" job.sh)
until_true 60 "the job saves nothing" test -e run/step-000000020000
cat >other.sh <<'S'
#!/bin/sh
until [ -e release ]; do sleep 0.2; done
S
other=$(sbatch --parsable --partition=high --output=/dev/null other.sh)
until_true 60 "the job is not preempted" says "$other" RUNNING
saved=$(find run -maxdepth 1 -name 'step-*' | sort | tail -1)
says "$job" PENDING || fail "the preempted job does not wait: $(squeue)"
: >release
scontrol update job="$job" StartTime=now # Slurm lets a requeued job wait for two minutes
until_true 300 "the job does not end: $(squeue)" gone "$job"
scontrol show job "$job" | grep -q 'JobState=COMPLETED' || fail "the job failed: $(scontrol show job "$job"; cat job.out)"
[ "$(scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')" -ge 1 ] || fail "the job was not requeued"
"$program" train c.yaml --set train.checkpoint.dir=alone --quiet >/dev/null || fail "the undisturbed run"
last=$(find alone -maxdepth 1 -name 'step-*' | sort | tail -1)
for file in "$last"/*.safetensors; do
  cmp "$file" "run/${last#alone/}/${file##*/}" || fail "the requeued job has other bits"
done
echo "slurm: preempted after $saved, requeued, the same bits"

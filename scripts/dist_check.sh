#!/usr/bin/env bash
# scripts/dist_check.sh [BVTRAIN]: trains ten steps on the digits under every launcher on this
# machine, and compares the loss with that of one process. The launchers are bvtrain's own, torchrun
# ($TORCHRUN or in the PATH), mpirun, and a loop like one with ssh. As root it also creates two hosts
# as network namespaces, and tests --nnodes, torchrun and slurm on them. Prints one line for each: ok,
# FAILED, or skipped with the reason. Run it manually, not in CI, because namespaces and slurm's
# daemons need root. All files are in a temporary folder; everything is removed at the end.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
bvtrain=${1:-$root/build/release/bvtrain}
[[ -x $bvtrain ]] || { echo "no $bvtrain: build it with scripts/dev.sh build, or give its path" >&2; exit 2; }
torchrun=${TORCHRUN:-$(command -v torchrun)}
dir=$(mktemp -d /tmp/bvtrain-dist-XXXXXX)
run=("$bvtrain" --config "$root/configs/digits_cnn.yaml" --set total_epochs=null --set total_steps=10
  --set precision=float32 --set evals=null --set log_training_steps=1)
export OMP_NUM_THREADS=1
failures=0 daemons=() bridge=
hosts=(n0 n1) net=10.213.77

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
loss() { tail -n 1 "$1/metrics.jsonl" 2>/dev/null | grep -o '"training_loss": [^,}]*' | cut -d' ' -f2; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-10 * a * a) }'; }

# check NAME RANKS FOUND_BY COMMAND...: runs the command, which trains into $workdir. Checks that
# bvtrain ran with that number of ranks and found that launcher, and the loss.
check() {
  local name=$1 ranks=$2 found=$3 log=$dir/$1.log
  workdir=$dir/$name
  if ! "${@:4}" >"$log" 2>&1; then
    echo "$name: FAILED: $(grep -v '^[IW][0-9]' "$log" | tail -n 1)"
  elif ! grep -qE "rank 0 of $ranks, .*found by $found" "$log"; then
    echo "$name: FAILED: not $ranks ranks found by $found: $(grep 'found by' "$log")"
  elif ! near "$expected" "$(loss "$workdir")"; then
    echo "$name: FAILED: loss $(loss "$workdir"), one process has $expected"
  else
    echo "$name: ok, $ranks ranks, loss $(loss "$workdir"), with one process $expected"
    return
  fi
  failures=$((failures + 1)) keep=yes
}
skip() { echo "$1: skipped: $2"; }
missing() { ! command -v "$1" >/dev/null; }

# Waits for all of the given background jobs. Fails if one of them failed.
wait_all() {
  local status=0 job
  for job in "$@"; do wait "$job" || status=1; done
  return $status
}

self() { "${run[@]}" --workdir "$workdir" --devices cpu:4; }
with_torchrun() {
  "$torchrun" --nnodes 1 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint "localhost:$(free_port)" \
    --no-python "${run[@]}" --workdir "$workdir"
}
with_mpirun() {
  mpirun --allow-run-as-root --oversubscribe -np 4 "${run[@]}" --workdir "$workdir"
}
# The loop of docs/distributed.md. The caller defines ssh.
loop() {
  local address=$1 jobs=() r
  for r in 1 0; do
    ssh "${hosts[r]}" "${run[@]}" --workdir "$workdir" --devices cpu:2 --nnodes 2 --node-rank "$r" --rendezvous "$address" &
    jobs+=($!)
  done
  wait_all "${jobs[@]}"
}
loop_here() {
  ssh() { "${@:2}"; }
  loop "127.0.0.1:$(free_port)"
}
loop_in_namespaces() {
  ssh() { on "$@"; }
  loop n0:29400
}
torchrun_in_namespaces() {
  local jobs=() r
  for r in 1 0; do
    on "${hosts[r]}" "$torchrun" --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint n0:29410 \
      --rdzv-id check --no-python "${run[@]}" --workdir "$workdir" &
    jobs+=($!)
  done
  wait_all "${jobs[@]}"
}
with_srun() { srun --nodes "$1" --ntasks-per-node 2 --time 2 "${run[@]}" --workdir "$workdir"; }

# Makes two hosts, n0 and n1, on one bridge, each with its own name and address.
make_namespaces() {
  local name=bvtrain-br
  printf '127.0.0.1 localhost\n%s.1 n0\n%s.2 n1\n%s.254 %s\n' "$net" "$net" "$net" "$(hostname -s)" >"$dir/hosts"
  ip link add "$name" type bridge || return 1  # it exists if another call of this script is running
  bridge=$name
  ip addr add "$net.254/24" dev "$bridge" && ip link set "$bridge" up || return 1
  local i space
  for i in 0 1; do
    space=bvtrain-n$i
    ip netns add "$space" && ip link add "bvtrain-v$i" type veth peer name eth0 netns "$space" &&
      ip link set "bvtrain-v$i" master "$bridge" up && ip -n "$space" addr add "$net.$((i + 1))/24" dev eth0 &&
      ip -n "$space" link set eth0 up && ip -n "$space" link set lo up || return 1
  done
}
# on HOST COMMAND... &: replaces the shell of the background job, so that a signal reaches COMMAND.
on() {
  exec nsenter --net="/run/netns/bvtrain-$1" unshare --mount --uts \
    bash -c 'mount --bind "$0" /etc/hosts && hostname "$1" && exec "${@:2}"' "$dir/hosts" "$@"
}

# Starts slurmctld here, a slurmd in each namespace under its host name, and a munged for them.
start_slurm() {
  local s=$dir/slurm
  mkdir -p "$s/state" && chmod 755 "$dir" "$s" || return 1
  (umask 077 && head -c 1024 /dev/urandom >"$s/key")
  munged --force --foreground --key-file="$s/key" --socket="$s/munge" --pid-file="$s/munge.pid" \
    --log-file="$s/munge.log" --seed-file="$s/seed" >"$s/munge.out" 2>&1 &
  daemons+=($!)
  cat >"$s/slurm.conf" <<CONF
ClusterName=check
SlurmctldHost=$(hostname -s)($net.254)
SlurmUser=root
StateSaveLocation=$s/state
SlurmdSpoolDir=$s/spool-%n
AuthType=auth/munge
AuthInfo=socket=$s/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SlurmctldPort=26817
SlurmdPort=26818
SlurmctldLogFile=$s/ctld.log
SlurmdLogFile=$s/slurmd-%n.log
SlurmctldPidFile=$s/ctld.pid
SlurmdPidFile=$s/slurmd-%n.pid
NodeName=n0 NodeAddr=$net.1 CPUs=4 State=UNKNOWN
NodeName=n1 NodeAddr=$net.2 CPUs=4 State=UNKNOWN
PartitionName=p Nodes=n0,n1 Default=YES State=UP
CONF
  export SLURM_CONF=$s/slurm.conf
  slurmctld -D >"$s/ctld.out" 2>&1 &
  daemons+=($!)
  local i
  for i in 0 1; do
    mkdir -p "$s/spool-n$i"
    on "n$i" slurmd -D >"$s/slurmd-n$i.out" 2>&1 &
    daemons+=($!)
  done
  for i in {1..60}; do
    [[ $(sinfo -h -t idle -o %D 2>/dev/null) == 2 ]] && return 0
    sleep 0.5
  done
  return 1
}

clean_up() {
  local i
  [[ ${#daemons[@]} -gt 0 ]] && kill "${daemons[@]}" 2>/dev/null && wait "${daemons[@]}" 2>/dev/null
  if [[ -n $bridge ]]; then
    for i in 0 1; do
      ip link del "bvtrain-v$i"
      ip netns del "bvtrain-n$i"
    done 2>/dev/null
    ip link del "$bridge" 2>/dev/null
  fi
  if [[ -n ${keep:-} ]]; then echo "logs are in $dir" >&2; else rm -rf "$dir"; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

"${run[@]}" --workdir "$dir/one" >"$dir/one.log" 2>&1 || { cat "$dir/one.log" >&2; exit 1; }
expected=$(loss "$dir/one")

check self 4 --devices self
if [[ -n $torchrun ]]; then check torchrun 2 torchrun with_torchrun; else skip torchrun "not installed; set TORCHRUN"; fi
if missing mpirun; then skip mpirun "not installed (openmpi-bin)"; else check mpirun 4 mpirun with_mpirun; fi
check ssh-loop 4 --nnodes loop_here

if [[ $EUID != 0 ]] || missing ip || ! make_namespaces >"$dir/net.log" 2>&1; then
  for name in namespaces torchrun-2-hosts slurm-1-host slurm-2-hosts; do
    skip "$name" "needs root and iproute2's network namespaces$(head -n 1 "$dir/net.log" 2>/dev/null | sed 's/^/: /')"
  done
  exit $((failures > 0))
fi
check namespaces 4 --nnodes loop_in_namespaces
if [[ -n $torchrun ]]; then
  check torchrun-2-hosts 4 torchrun torchrun_in_namespaces
else
  skip torchrun-2-hosts "not installed; set TORCHRUN"
fi
if missing slurmctld || missing slurmd || missing munged; then
  for name in slurm-1-host slurm-2-hosts; do skip "$name" "slurm is not installed (slurmctld slurmd munge)"; done
elif ! start_slurm; then
  for name in slurm-1-host slurm-2-hosts; do skip "$name" "slurm did not start: $(tail -qn 1 "$dir"/slurm/*.log | tail -n 1)"; done
  keep=yes
else
  check slurm-1-host 2 slurm with_srun 1
  check slurm-2-hosts 4 slurm with_srun 2
fi
exit $((failures > 0))

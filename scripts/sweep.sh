#!/usr/bin/env bash
# scripts/sweep.sh --help describes this script. grid.sh has the grid code, shared with slurm.sbatch.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/grid.sh" || exit 2

usage() {
  cat <<'USAGE'
scripts/sweep.sh --config F --out DIR --grid KEY V1 V2 ... [--grid KEY ...] [--jobs N] [ARGS...]

Trains one run for each combination of the values, N at a time (default 1), each in its own workdir
in DIR. ARGS are passed on to bvtrain. Example:

  scripts/sweep.sh --config configs/digits_cnn.yaml --out out/sweep --jobs 2 \
    --grid lr 0.001 0.003 0.01 --grid seed 0 1 2 --set total_epochs=30

Run the same command again at any time: finished runs are skipped, stopped or killed runs continue,
and failed runs are tried again. Diverged runs are tried again only if you remove their file FAILED.
Ctrl-C and SIGTERM stop the sweep after each run has saved a checkpoint. The cores (and GPUs) of the
machine are split among the N runs. The log of a run is sweep.log in its workdir. At the end
`bvtrain compare` prints a table. If the config changes while the sweep works, no more runs start.

  --out DIR       the folder of the workdirs
  --grid KEY V..  the values of a config key, up to the next argument that begins with "--"; an
                  empty value removes the key
  --jobs N        the number of concurrent runs
  --dry-run       prints the commands and does nothing
  --count         prints the number of points
  --print N       prints the arguments of the N-th point, counted from 1
  --help          prints this

Exit codes: 0 all runs finished; 4 some diverged, and all others finished; 75 some were stopped,
and the same command continues them; 2 bad arguments or a changed config; otherwise the code of the
first run that failed, 137 if it was killed. If this script is stopped: 130 by SIGINT, 143 by
SIGTERM, 129 by SIGHUP, 75 by SIGUSR1. $BVTRAIN_BINARY is the path of another bvtrain.
USAGE
}

# ---- Arguments

jobs=1 mode=run number=0 arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --jobs) jobs=${2:-} && shift $(($# > 1 ? 2 : 1)) ;;
    --jobs=*) jobs=${1#--jobs=} && shift ;;
    --dry-run) mode=dry && shift ;;
    --count) mode=count && shift ;;
    --print) mode=print number=${2:-} && shift $(($# > 1 ? 2 : 1)) ;;
    *) arguments+=("$1") && shift ;;
  esac
done
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || grid_fail "--jobs needs a number of runs, not '$jobs'"
grid_parse "${arguments[@]}"
bvtrain=${BVTRAIN_BINARY:-$root/build/release/bvtrain}

# ---- Shares of the machine

# Sets `cores` to the cores that this script may use.
find_cores() {
  local ranges range
  cores=()
  IFS=, read -ra ranges <<<"$(taskset -cp $$ 2>/dev/null | sed 's/.*: //')"
  for range in "${ranges[@]}"; do
    for ((core = ${range%-*}; core <= ${range#*-}; ++core)); do cores+=("$core"); done
  done
}

# Sets `gpus` to the GPUs that this script may use, unless the arguments choose the devices.
find_gpus() {
  gpus=()
  [[ " ${grid_rest[*]} " != *" --devices"* && -z ${BVTRAIN_DEVICES:-} ]] || return 0
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
    IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
  elif command -v nvidia-smi >/dev/null; then
    # nvidia-smi prints its errors to standard output, too.
    mapfile -t gpus < <(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | grep -xE '[0-9]+')
  fi
}

# share SLOT ITEMS...: prints the part of the items that the run in SLOT gets, joined by ",". If
# there are fewer items than runs, several runs share one.
share() {
  local slot=$1 items=("${@:2}") IFS=,
  if [[ ${#items[@]} -lt $jobs ]]; then
    echo "${items[slot % ${#items[@]}]}"
  else
    local from=$((slot * ${#items[@]} / jobs)) to=$(((slot + 1) * ${#items[@]} / jobs))
    echo "${items[*]:from:to-from}"
  fi
}

# point_command SLOT: sets `command` for the current point. bvtrain uses as many threads as it has
# cores.
point_command() {
  command=("$bvtrain" "${grid_rest[@]}" "${point_sets[@]}" --workdir "$point_workdir")
  [[ $jobs -gt 1 ]] || return 0
  if [[ ${#cores[@]} -gt 0 ]]; then
    command=(taskset -c "$(share "$1" "${cores[@]}")" "${command[@]}")
  else # without taskset the runs are not pinned to cores, but each starts only its share of threads
    local all
    all=$(nproc)
    command=(env OMP_NUM_THREADS=$((all > jobs ? all / jobs : 1)) "${command[@]}")
  fi
  if [[ ${#gpus[@]} -gt 0 ]]; then
    command=(env CUDA_VISIBLE_DEVICES="$(share "$1" "${gpus[@]}")" "${command[@]}")
  fi
}

case $mode in
  count) echo "$grid_count" && exit 0 ;;
  print)
    [[ $number =~ ^[1-9][0-9]{0,8}$ && $number -le $grid_count ]] ||
      grid_fail "--print needs a number from 1 to $grid_count, not '$number'"
    grid_point "$number"
    grid_quote "${grid_rest[@]}" "${point_sets[@]}" --workdir "$point_workdir"
    exit 0 ;;
esac
find_cores
find_gpus
if [[ $mode == dry ]]; then
  for ((i = 1; i <= grid_count; ++i)); do
    grid_point "$i"
    point_command $(((i - 1) % jobs))
    grid_quote "${command[@]}"
  done
  exit 0
fi

# ---- The runs

((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || grid_fail "needs bash 5.1 for wait -p"
grid_check_config # before anything is built or written
# bvtrain.sh builds if necessary. It does not start the points: if the sources changed during the sweep,
# it would build again, and the points would differ.
"${BVTRAIN_BINARY:-$root/scripts/bvtrain.sh}" --version >/dev/null || exit
mkdir -p "$grid_out" || exit 5
# The runs inherit the lock, so that it also covers runs that a killed sweep has left behind.
exec 9>"$grid_out/.sweep.lock" || exit 5
flock -n 9
case $? in
  0) ;;
  1) grid_fail "another sweep, or a run that it left behind, still works in $grid_out" ;;
  *) exit 5 ;; # flock has printed why it cannot lock
esac
grid_check_arguments

declare -A pid_point=() pid_slot=() pid_start=()
free_slots=() diverged=() stopping='' next=1 first_failure=0 stopped=0
for ((i = jobs - 1; i >= 0; --i)); do free_slots+=("$i"); done

# shellcheck disable=SC2317 # called by the traps
on_signal() {
  stopping=$1
  local pid
  for pid in "${!pid_point[@]}"; do kill -s "$1" "$pid" 2>/dev/null; done
  echo "SIG$1: stopping ${#pid_point[@]} runs; each saves a checkpoint first" >&2
}
trap 'on_signal INT' INT
trap 'on_signal TERM' TERM
trap 'on_signal HUP' HUP
trap 'on_signal USR1' USR1
# Ctrl-C also ends the reader of `sweep.sh | tee`. SIGPIPE would then end this script before its runs.
trap '' PIPE

say() { echo "[$1/$grid_count] $point_name: $2" 2>/dev/null; }

start_point() { # NUMBER
  grid_point "$1"
  if grid_has_diverged "$point_workdir"; then
    say "$1" "diverged before; not tried again"
    diverged+=("$point_workdir")
    return
  fi
  if ! (grid_check_arguments); then # the config has changed since the sweep began
    say "$1" "not started, nor those after it"
    [[ $first_failure != 0 ]] || first_failure=2
    next=$grid_count
    return
  fi
  if ! mkdir -p "$point_workdir"; then
    say "$1" "not started: its workdir cannot be made"
    [[ $first_failure != 0 ]] || first_failure=5
    return
  fi
  local slot=${free_slots[-1]} pid
  unset 'free_slots[-1]'
  point_command "$slot"
  rm -f "$point_workdir/FAILED"
  say "$1" "starts"
  echo "$ $(grid_quote "${command[@]}")" >>"$point_workdir/sweep.log"
  # In a separate session, the run does not get the terminal's Ctrl-C in addition to the forwarded
  # signal: a second one would end it before it has saved.
  setsid "${command[@]}" </dev/null >>"$point_workdir/sweep.log" 2>&1 &
  pid=$!
  pid_point[$pid]=$1 pid_slot[$pid]=$slot pid_start[$pid]=$SECONDS
  # A signal that arrived before the line above has not reached this run.
  [[ -z $stopping ]] || kill -s "$stopping" "$pid" 2>/dev/null
}

end_point() { # PID CODE
  local point=${pid_point[$1]} code=$2 seconds=$((SECONDS - pid_start[$1]))
  free_slots+=("${pid_slot[$1]}")
  unset "pid_point[$1]" "pid_slot[$1]" "pid_start[$1]"
  grid_point "$point"
  grid_note_end "$point_workdir" "$code"
  case $code in
    0) say "$point" "finished ($seconds s)" ;;
    75 | 129 | 130 | 143)
      stopped=1
      say "$point" "stopped; the same command continues it" ;;
    137)
      # Not counted as stopped: a run that takes too much memory would be killed again each time.
      [[ $first_failure != 0 ]] || first_failure=$code
      say "$point" "killed; the same command continues it from its last checkpoint" ;;
    4)
      diverged+=("$point_workdir")
      say "$point" "diverged: $(tail -n 1 "$point_workdir/sweep.log")" ;;
    *)
      [[ $first_failure != 0 ]] || first_failure=$code
      say "$point" "failed with code $code: $(tail -n 1 "$point_workdir/sweep.log")" ;;
  esac
}

while true; do
  while [[ -z $stopping && $next -le $grid_count && ${#free_slots[@]} -gt 0 ]]; do
    start_point "$next"
    next=$((next + 1))
  done
  [[ ${#pid_point[@]} -gt 0 ]] || break
  ended=
  wait -n -p ended "${!pid_point[@]}" 2>/dev/null # bash would print its own messages about killed runs
  code=$?
  if [[ -n ${ended:-} ]]; then
    end_point "$ended" "$code"
    continue
  fi
  # A signal has arrived, or a run ended before the call, which bash 5.2's wait -n does not detect.
  for pid in "${!pid_point[@]}"; do
    kill -0 "$pid" 2>/dev/null && continue
    wait "$pid" 2>/dev/null
    end_point "$pid" "$?"
  done
done

# ---- The summary

workdirs=()
for ((i = 1; i <= grid_count; ++i)); do
  grid_point "$i"
  [[ ! -e $point_workdir/config.yaml ]] || workdirs+=("$point_workdir")
done
if [[ ${#workdirs[@]} -gt 0 ]]; then
  echo
  "$bvtrain" compare "${workdirs[@]}"
fi
if [[ ${#diverged[@]} -gt 0 ]]; then
  echo
  echo "Diverged; remove the file FAILED in a workdir to try it again:"
  printf '  %s\n' "${diverged[@]}"
fi

case $stopping in
  INT) exit 130 ;;
  TERM) exit 143 ;;
  HUP) exit 129 ;;
  USR1) exit 75 ;;
esac
[[ $first_failure == 0 ]] || exit "$first_failure"
[[ $stopped == 0 ]] || exit 75
[[ ${#diverged[@]} == 0 ]] || exit 4
exit 0

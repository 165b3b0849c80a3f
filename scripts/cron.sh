#!/usr/bin/env bash
# scripts/cron.sh --config F --workdir D [ARGS...]: for a crontab. Continues an unfinished run. Does
# nothing if the run is still going or has finished. Prints something, so that cron sends mail, only
# if the user must act. In the crontab:
#   */10 * * * * /path/to/bvtrain/scripts/cron.sh --config /path/F --workdir /path/D
#   @reboot      /path/to/bvtrain/scripts/cron.sh --config /path/F --workdir /path/D
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

workdir=${BVTRAIN_WORKDIR:-}
for ((i = 1; i <= $#; ++i)); do
  case ${!i} in
    --workdir) next=$((i + 1)) && workdir=${!next:-} ;;
    --workdir=*) workdir=${!i#--workdir=} ;;
    --cleanup) echo "scripts/cron.sh: error: --cleanup would remove the finished run, and the next call would train again" >&2 && exit 2 ;;
  esac
done
[[ -n $workdir ]] || { echo "usage: scripts/cron.sh --config F --workdir D [ARGS...]" >&2; exit 2; }
mkdir -p "$workdir" || exit 2
[[ -e $workdir/FAILED ]] && exit 0  # already reported; remove the file to try again

# Only one at a time. The kernel releases the lock when the last process that holds it ends, for
# whatever reason. bvtrain inherits it, so it remains locked if only this script is killed.
exec 9>"$workdir/.cron.lock"
flock -n 9 || exit 0
# A manually started run holds bvtrain's own lock.
if [[ -e $workdir/.lock ]]; then
  flock -n "$workdir/.lock" true || exit 0
fi

log=$workdir/cron.log
printf '%s start\n' "$(date -u +%FT%TZ)" >>"$log"
"${BVTRAIN_BINARY:-$root/scripts/bvtrain.sh}" "$@" >>"$log" 2>&1
code=$?
printf '%s end, code %d\n' "$(date -u +%FT%TZ)" "$code" >>"$log"

# 7: another process of the run failed. The next call continues, but not forever.
lost=$workdir/.cron.lost
if [[ $code == 7 ]]; then
  echo "$code" >>"$lost"
  [[ $(wc -l <"$lost") -ge 5 ]] || exit 0
fi
rm -f "$lost"

case $code in
  0 | 75 | 130 | 143) exit 0 ;;  # finished, or stopped with a checkpoint: the next call continues
  *)
    echo "$code" >"$workdir/FAILED"
    echo "bvtrain ended with code $code and will not be started again until $workdir/FAILED is removed:"
    tail -n 5 "$log"
    exit "$code" ;;
esac

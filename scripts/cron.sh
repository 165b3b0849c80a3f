#!/usr/bin/env bash
# scripts/cron.sh --config F --workdir D [ARGS...]: for a crontab. Continues an unfinished run. Does
# nothing if the run is still going or has finished. Prints something, so that cron sends mail, only
# if somebody must act. In the crontab:
#   */10 * * * * /path/to/bvtrain/scripts/cron.sh --config /path/F --workdir /path/D
#   @reboot      /path/to/bvtrain/scripts/cron.sh --config /path/F --workdir /path/D
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

workdir=
for ((i = 1; i <= $#; ++i)); do
  case ${!i} in
    --workdir) next=$((i + 1)) && workdir=${!next:-} ;;
    --workdir=*) workdir=${!i#--workdir=} ;;
  esac
done
[[ -n $workdir ]] || { echo "usage: scripts/cron.sh --config F --workdir D [ARGS...]" >&2; exit 2; }
mkdir -p "$workdir" || exit 2
[[ -e $workdir/FAILED ]] && exit 0  # already reported; remove the file to try again

# Only one at a time. The kernel releases the lock when this process ends, however it ends.
exec 9>"$workdir/.cron.lock"
flock -n 9 || exit 0

log=$workdir/cron.log
printf '%s start\n' "$(date -u +%FT%TZ)" >>"$log"
"${BVTRAIN_BINARY:-$root/scripts/bvtrain.sh}" "$@" >>"$log" 2>&1 9>&-
code=$?
printf '%s end, code %d\n' "$(date -u +%FT%TZ)" "$code" >>"$log"

case $code in
  0 | 75 | 130 | 143) exit 0 ;;  # finished, or stopped with a checkpoint: the next call continues
  7) exit 0 ;;                   # another process failed: the next call continues, too
  *)
    echo "$code" >"$workdir/FAILED"
    echo "bvtrain ended with code $code and will not be started again until $workdir/FAILED is removed:"
    tail -n 5 "$log"
    exit "$code" ;;
esac

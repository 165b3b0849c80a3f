#!/usr/bin/env bash
# scripts/cron.sh --config F --workdir D [ARGS...]: for a crontab. Starts a run in the folder D, which
# must exist, and continues it. Does nothing while the run goes on, nor after it has finished, unless
# its arguments or its config have changed since. Prints something, so that cron sends mail, only if the
# user must act. In the crontab:
#   */10 * * * * /path/to/bvtrain/scripts/cron.sh --config /path/F --workdir /path/D
#   @reboot      /path/to/bvtrain/scripts/cron.sh --config /path/F --workdir /path/D
# Runs $BVTRAIN_BINARY or build/release/bvtrain and does not build it, because cron lacks the environment
# of the shell in which you do.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$root/scripts/grid.sh" || exit 2

workdir=$(grid_option workdir "${BVTRAIN_WORKDIR:-}" "$@")
[[ -n $workdir ]] || { echo "usage: scripts/cron.sh --config F --workdir D [ARGS...]" >&2; exit 2; }
[[ " $* " != *" --cleanup"[=\ ]* ]] ||
  grid_fail "--cleanup would remove the finished run, and the next call would train again"
grid_cleans_up &&
  grid_fail "\$BVTRAIN_CLEANUP would remove the finished run, and the next call would train again"
# Not created here: after a reboot its disk may not be mounted yet, and a second run would start there.
[[ -d $workdir ]] || grid_fail "no folder $workdir: make it once, or mount its disk"
[[ -e $workdir/FAILED ]] && exit 0  # already reported; remove the file to try again
bvtrain=${BVTRAIN_BINARY:-$root/build/release/bvtrain}
[[ -x $bvtrain ]] || grid_fail "no $bvtrain: build it with scripts/bvtrain.sh --version, or set BVTRAIN_BINARY"

# A finished run would only open its data and say that it has finished.
finished=$workdir/.cron.finished state=$(grid_state "$@")
[[ -e $workdir/DONE && $(cat "$finished" 2>/dev/null) == "$state" ]] && exit 0

# Only one at a time. The kernel releases the lock when the last process that holds it ends, for
# whatever reason. bvtrain inherits it, so it remains locked if only this script is killed.
exec 9>"$workdir/.cron.lock" || exit 5
flock -n 9 || exit $(($? == 1 ? 0 : 5))  # 1: another process has the lock
# A manually started run holds bvtrain's own lock.
in_use() {
  [[ -f $workdir/.lock ]] || return 1
  flock -n "$workdir/.lock" true 2>/dev/null
  [[ $? == 1 ]]
}
in_use && exit 0

log=$workdir/cron.log last=$workdir/ckpt/LAST
exec 8>>"$log" || exit 5
saved=$(cat "$last" 2>/dev/null)
printf '%s start\n' "$(date -u +%FT%TZ)" >&8
"$bvtrain" "$@" >&8 2>&1 8>&-
code=$?
printf '%s end, code %d\n' "$(date -u +%FT%TZ)" "$code" >&8
# A process that the kernel cannot end keeps the lock, and with it all later calls from starting.
exec 9>&-
flock -n "$workdir/.cron.lock" true
[[ $? != 1 ]] ||
  echo "a process of the run did not end. Nothing is started until it is gone; perhaps the machine must be restarted"
# bvtrain takes its lock after it has opened the data. A manual start may have been faster.
[[ $code == 2 ]] && in_use && exit 0

# The next call may succeed, so it continues, but not forever: it counts the failures since the last
# checkpoint. 7: another process of the run failed. 137: the run was killed, perhaps because memory was
# short. 75 without a new checkpoint: its time was too short to save one. 2: after a reboot the disk of
# the data may not be mounted yet; in a new run, code 2 more likely means a wrong config.
failures=$workdir/.cron.failures stuck=
[[ $(cat "$last" 2>/dev/null) == "$saved" ]] || rm -f "$failures"
if [[ $code == 7 || $code == 137 || ($code == 2 && -e $workdir/run.json) ||
  ($code == 75 && $(cat "$last" 2>/dev/null) == "$saved") ]]; then
  echo "$code" >>"$failures"
  [[ $(wc -l <"$failures") -ge 5 ]] || exit 0
  stuck=1
fi
rm -f "$failures"

case $code$stuck in
  0) echo "$state" >"$finished" ;;
  75 | 130 | 143) ;;  # stopped: the next call continues
  *)
    echo "$code" >"$workdir/FAILED"
    echo "bvtrain ended with code $code and will not be started again until $workdir/FAILED is removed:"
    tail -n 5 "$log"
    exit "$code" ;;
esac
exit 0

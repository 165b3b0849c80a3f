#!/usr/bin/env bash
# scripts/bench/shared_cores.sh [ROUNDS] [OTHER]: how a run shares the cores of a machine. In each
# round one run trains alone, then two at once, then one next to a busy loop; OTHER is another bvtrain
# binary that runs alone in each round. Prints wall times as ratios to the run alone: median (min ..
# max). Each trains $EPOCHS epochs of digits_cnn (default 60).
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
rounds=${1:-5} other=${2:-} epochs=${EPOCHS:-60}
bvtrain=$root/build/release/bvtrain
work=$(mktemp -d) && trap 'pkill -P $$ || true; wait; rm -rf "$work"' EXIT

train() {  # BINARY NAME
  "$1" --config "$root/configs/digits_cnn.yaml" --set total_epochs="$epochs" --workdir "$work/$2" >"$work/$2.log" 2>&1 ||
    { cat "$work/$2.log" >&2; exit 1; }
  rm -rf "${work:?}/$2"
}
timed() {  # FILE COMMAND...
  local begin
  begin=$(date +%s.%N)
  "${@:2}"
  awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { print b - a }' >>"$work/$1"
}
pair() {
  train "$bvtrain" a & local first=$!
  train "$bvtrain" b
  wait "$first"
}
beside_busy() {
  bash -c 'while :; do :; done' & local busy=$!
  train "$bvtrain" a
  kill "$busy" && wait "$busy" 2>/dev/null || true
}

for ((i = 0; i < rounds; ++i)); do
  timed alone train "$bvtrain" a
  [[ -z $other ]] || timed other train "$other" a
  timed pair pair
  timed busy beside_busy
done
python3 - "$work" <<'REPORT'
import os, statistics, sys
def read(name): return [float(x) for x in open(f"{sys.argv[1]}/{name}")]
alone = read("alone")
print(f"alone: {statistics.median(alone):.2f} s ({min(alone):.2f} .. {max(alone):.2f})")
for name, title in (("other", "the other binary, alone"), ("pair", "two runs at once"),
                    ("busy", "beside a busy loop")):
    if os.path.exists(f"{sys.argv[1]}/{name}"):
        ratios = [x / y for x, y in zip(read(name), alone)]
        print(f"{title} / alone: {statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})")
REPORT

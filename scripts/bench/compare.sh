#!/usr/bin/env bash
# scripts/bench/compare.sh [ROUNDS]: compares bvtrain with eager PyTorch on this machine. Alternately
# measures the images per second of the notebook's CNN (28x28, batch 128) and the time to the end of
# the first step, and prints the ratios. $PYTHON (default python3) must have torch: pip install
# torch==2.11.0.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
rounds=${1:-5} python=${PYTHON:-python3} seconds=${SECONDS_EACH:-5}
bvtrain=$root/build/release/bvtrain
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# Runs bvtrain. If it fails, prints its messages and ends the script.
ours() { "$bvtrain" "$@" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }; }

# 8,192 random images, as many as notebook_cnn.py has.
"$python" - "$work" <<'DATA'
import os, struct, sys
n = 8192
for split in ("train", "t10k"):
    with open(f"{sys.argv[1]}/{split}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">4I", 2051, n, 28, 28) + os.urandom(n * 784))
    with open(f"{sys.argv[1]}/{split}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">2I", 2049, n) + bytes(b % 10 for b in os.urandom(n)))
DATA

for ((i = 0; i < rounds; ++i)); do
  FASHION_MNIST_DIR=$work ours bench --config "$root/configs/fashion_mnist_cnn.yaml" \
    --seconds "$(awk -v s="$seconds" 'BEGIN { print s / 3 }')" --set input.batch_size=128 --set evals=null --set wd=1e-4 |
    awk '$1 == "training" { print $2 }' >>"$work/ours"
  "$python" "$root/scripts/bench/notebook_cnn.py" --mode default --seconds "$seconds" >>"$work/default"
  "$python" "$root/scripts/bench/notebook_cnn.py" --mode tuned --seconds "$seconds" >>"$work/tuned"
  for side in ours torch; do
    begin=$(date +%s.%N)
    if [[ $side == ours ]]; then
      ours --config "$root/configs/digits_cnn.yaml" --set evals=null --set total_steps=1 >/dev/null
    else
      "$python" "$root/scripts/bench/first_step.py" >/dev/null
    fi
    awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { print b - a }' >>"$work/start_$side"
  done
done
"$python" - "$work" <<'REPORT'
import statistics, sys
def read(name): return [float(x) for x in open(f"{sys.argv[1]}/{name}")]
def line(title, a, b):
    ratios = [x / y for x, y in zip(a, b)]
    print(f"{title}: {statistics.median(a):.4g} against {statistics.median(b):.4g}, "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})")
line("img/s, bvtrain with loader / PyTorch default", read("ours"), read("default"))
line("img/s, bvtrain with loader / PyTorch tuned  ", read("ours"), read("tuned"))
line("s to the end of the first step, PyTorch / bvtrain (whole process)", read("start_torch"), read("start_ours"))
REPORT

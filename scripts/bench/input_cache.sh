#!/usr/bin/env bash
# scripts/bench/input_cache.sh TAR [IMAGES] [SECONDS] [CACHE]: how much faster the loader is with
# input.cache. TAR contains JPEG files, such as 80 of ImageNet. They are repeated to IMAGES different
# files (default 4000), each with its own comment, because the cache treats equal files as one image.
# For each pp, prints the loader's images per second without a cache, in the first pass with one and
# in the next, the median (min .. max) of three rounds of SECONDS (default 1), and the ratios.
# IMAGES must be enough for a first pass of 4 * SECONDS.
# The cache is in a new folder in CACHE (default: /dev/shm). Needs IMAGES * 0.8 MB there.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
tar=${1:?usage: input_cache.sh TAR [IMAGES] [SECONDS] [CACHE]}
images=${2:-4000} seconds=${3:-1}
bvtrain=$root/build/release/bvtrain
work=$(mktemp -d)
trap 'rm -rf "$work" "${cache:-}"' EXIT
mkdir -p "${4:-/dev/shm}"
cache=$(mktemp -d "${4:-/dev/shm}/input-cache-XXXXXX")
export XDG_CACHE_HOME=$work/xdg

mkdir "$work/files"
tar -xf "$tar" -C "$work/files"
python3 - "$work" "$images" <<'REPEAT'
import os, pathlib, struct, sys
work, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
files = [f.read_bytes() for f in sorted((work / "files").rglob("*"))
         if f.is_file() and f.read_bytes()[:2] == b"\xff\xd8"]
if not files: sys.exit("the archive has no JPEG files")
for label in "ab": os.makedirs(work / "data" / "train" / label)
for i in range(count):
    comment = str(i).encode()
    file = files[i % len(files)]
    marker = b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment
    (work / "data" / "train" / "ab"[i % 2] / f"{i}.jpg").write_bytes(file[:2] + marker + file[2:])
REPEAT

config() {  # OPS [CACHE]
  cat <<YAML
num_classes: 2
total_epochs: 1
log_training_epochs: 1
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: sgd
lr: 0.001
input:
  data: {name: image_folder, data_dir: $work/data, split: train}
  batch_size: 50
  pp: $1|onehot(2, key="label", key_result="labels")|keep("image", "labels")
YAML
  [[ -z ${2:-} ]] || echo "  cache: {in: $2, gib: $(python3 -c "print($images * 8e5 / 2**30)")}"
}
loader_rate() {  # NAME: measures config NAME.yaml
  "$bvtrain" bench --config "$work/$1.yaml" --seconds "$seconds" --json >"$work/$1.json" 2>"$work/log" ||
    { cat "$work/log" >&2; exit 1; }
}

for ops in 'decode_jpeg_and_inception_crop(224)|flip_lr|value_range(-1, 1)' \
  'decode|resize(224)|value_range(-1, 1)'; do
  rm -f "$cache"/bvtrain-images-*
  config "$ops" >"$work/without.yaml"
  config "$ops" "$cache" >"$work/first.yaml"
  cp "$work/first.yaml" "$work/next.yaml"
  loader_rate without
  loader_rate first
  "$bvtrain" --config "$work/next.yaml" --workdir "$work/run" >/dev/null 2>"$work/log" ||
    { cat "$work/log" >&2; exit 1; }
  grep -o 'cache: .* of .*' "$work/log" | tail -1
  rm -rf "$work/run"
  loader_rate next
  python3 - "$work" "$ops" "$images" "$seconds" <<'REPORT'
import json, sys
work, ops, images, seconds = sys.argv[1:]
def read(name): return json.load(open(f"{work}/{name}.json"))["images_per_second"]["loader"]
rates = {name: read(name) for name in ("without", "first", "next")}
if 4 * float(seconds) * rates["first"]["max"] > int(images):
    sys.exit("the first pass was too short for three rounds: give more IMAGES or fewer SECONDS")
print(ops)
for name, title in (("without", "without a cache"), ("first", "first pass"), ("next", "next pass")):
    r = rates[name]
    print(f"  {title:16} {r['median']:7.0f} images/s ({r['min']:.0f} .. {r['max']:.0f})")
for name in ("without", "first"):
    a, b = rates["next"], rates[name]
    print(f"  next pass / {name}: {a['median'] / b['median']:.2f} "
          f"({a['min'] / b['max']:.2f} .. {a['max'] / b['min']:.2f})")
REPORT
done

#!/usr/bin/env bash
# scripts/bench/data_formats.sh TAR [IMAGES] [ROUNDS]: how fast the loader reads the same JPEG files
# from a folder, a CSV file, tars and TFRecords. TAR contains JPEG files, such as 80 of ImageNet; they
# are repeated to IMAGES (default 800). The formats alternate, ROUNDS times (default 5). Prints each
# format's images per second, the median (min .. max), and its ratio to the folder in the same round.
# With BVTRAIN_OLD=<binary>, another build also reads the folder, to compare the two.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
tar=${1:?usage: data_formats.sh TAR [IMAGES] [ROUNDS]}
images=${2:-800} rounds=${3:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/xdg

mkdir "$work/files"
tar -xf "$tar" -C "$work/files"
python3 - "$work" "$images" <<'WRITE'
import io, pathlib, struct, sys, tarfile
work, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
files = [f.read_bytes() for f in sorted((work / "files").rglob("*")) if f.is_file()]
files = [f for f in files if f[:2] == b"\xff\xd8"]
table = []
for i in range(256):
    for _ in range(8): i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    table.append(i)
def masked(data):
    crc = 0xFFFFFFFF
    for byte in data: crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
def field(number, data):
    size, head = len(data), b""
    while size > 127: head, size = head + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + head + bytes([size]) + data
def record(image, label):
    entries = field(1, field(1, b"image") + field(2, field(1, field(1, image)))) + \
        field(1, field(1, b"label") + field(2, field(3, field(1, bytes([label])))))
    data = field(1, entries)
    size = struct.pack("<Q", len(data))
    return size + masked(size) + data + masked(data)
records = [[record(file, label) for label in (0, 1)] for file in files]
for label in "ab": (work / "folder" / label).mkdir(parents=True)
tars = [tarfile.open(work / f"train-{s}.tar", "w") for s in range(4)]
shards = [open(work / f"train.tfrecord-{s}", "wb") for s in range(4)]
with open(work / "train.csv", "w") as rows:
    rows.write("image,label\n")
    for i in range(count):
        label, image = i % 2, files[i % len(files)]
        name = f"folder/{'ab'[label]}/{i:06}.jpg"
        (work / name).write_bytes(image)
        rows.write(f"{name},{label}\n")
        for suffix, data in (("jpg", image), ("cls", b"%d" % label)):
            info = tarfile.TarInfo(f"{i:06}.{suffix}")
            info.size = len(data)
            tars[i % 4].addfile(info, io.BytesIO(data))
        shards[i % 4].write(records[i % len(files)][label])
for each in tars + shards: each.close()
WRITE

config() {  # NAME DATA
  cat >"$work/$1.yaml" <<YAML
num_classes: 2
total_epochs: 1
log_training_epochs: 1
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: sgd
lr: 0.001
input:
  data: $2
  batch_size: 50
  pp: decode_jpeg_and_inception_crop(224)|flip_lr|value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")
YAML
}
config folder "{name: image_folder, data_dir: $work/folder}"
config csv "{name: csv, fname: $work/train.csv}"
config tar "{name: webdataset, urls: '$work/train-{0..3}.tar'}"
config tfrecord "{name: tfrecord, files: '$work/train.tfrecord-{0..3}'}"
formats=(folder csv tar tfrecord)
[[ -z ${BVTRAIN_OLD:-} ]] || { cp "$work/folder.yaml" "$work/old.yaml"; formats+=(old); }
for ((round = 0; round < rounds; ++round)); do
  for name in "${formats[@]}"; do
    bvtrain=$root/build/release/bvtrain
    [[ $name != old ]] || bvtrain=$BVTRAIN_OLD
    "$bvtrain" bench --config "$work/$name.yaml" --seconds 1 --json >"$work/$name-$round.json" 2>"$work/log" ||
      { cat "$work/log" >&2; exit 1; }
  done
done
python3 - "$work" "$rounds" "${formats[@]}" <<'REPORT'
import json, statistics, sys
work, rounds, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
def rate(name, i): return json.load(open(f"{work}/{name}-{i}.json"))["images_per_second"]["loader"]["median"]
def spread(values, form): return f"{statistics.median(values):{form}} ({min(values):{form}} .. {max(values):{form}})"
for name in names:
    rates = [rate(name, i) for i in range(rounds)]
    ratios = [rates[i] / rate("folder", i) for i in range(rounds)]
    print(f"{name:9} {spread(rates, '.0f')} images/s   of the folder: {spread(ratios, '.3f')}")
REPORT

#!/usr/bin/env python3
"""index.py [--binary F] [--examples N] [--folder D]: how long a large data set takes to open.

Makes data sets of N examples (default: 1,281,024), one after the other: 1,024 TFRecord files, 1,024 tar files
of WebDataset, one CSV file, one JSON Lines file, an image folder of 1,024 classes, and a TFDS folder of
1,024 ArrayRecord files, which needs PyPI's array_record. They need up to 2.6 GB in D (default: a temporary
folder). Opens each once without an index, which makes one, and three times with it. Prints the first time
and the least of the three, less the time that the program needs for a data set of one example. The files
are in memory.
"""

import argparse
import importlib.util
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = 1024
# A minimal JPEG file with an image: 1x1 grey.
JPEG = bytes.fromhex(
    "ffd8ffdb004300" + "01" * 64 + "ffc0000b080001000101011100ffc4001400010000000000000000000000000000"
    "0000ffc40014100100000000000000000000000000000000ffda0008010100003f0037ffd9")
PP = 'pp: decode|resize(8)|value_range(-1, 1)|keep("image", "label")'


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def field(number, content):
    assert len(content) < 1 << 14
    size = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 127 | 128, len(content) >> 7])
    return bytes([number << 3 | 2]) + size + content


def example(label):
    """A tf.train.Example with an image and a label."""
    image = field(1, field(1, JPEG))
    number = field(3, field(1, bytes([label])))
    features = field(1, field(1, b"image") + field(2, image)) + field(1, field(1, b"label") + field(2, number))
    return field(1, features)


def write_shards(folder, name, content):
    os.makedirs(folder)
    for i in range(FILES):
        with open(os.path.join(folder, name.format(i)), "wb") as file:
            file.write(content)


def make_tfrecord(folder, each):
    shard = io.BytesIO()
    for i in range(each):
        record = example(i % 10)
        size = struct.pack("<Q", len(record))
        shard.write(size + struct.pack("<I", masked_crc(size)) + record + struct.pack("<I", masked_crc(record)))
    write_shards(folder, "{:05d}.tfrecord", shard.getvalue())
    return (f"{{name: tfrecord, files: '{folder}/{{00000..{FILES - 1:05d}}}.tfrecord', "
            "features: {image: image, label: label}}")


def make_webdataset(folder, each):
    shard = io.BytesIO()
    with tarfile.open(fileobj=shard, mode="w") as tar:
        for i in range(each):
            for suffix, content in (("jpg", JPEG), ("cls", str(i % 10).encode())):
                member = tarfile.TarInfo(f"{i:06d}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    write_shards(folder, "{:04d}.tar", shard.getvalue())
    return f"{{name: webdataset, urls: '{folder}/{{0000..{FILES - 1:04d}}}.tar'}}"


def write_image(folder):
    os.makedirs(folder)
    with open(os.path.join(folder, "1.jpg"), "wb") as file:
        file.write(JPEG)


def make_csv(folder, each):
    write_image(folder)
    with open(os.path.join(folder, "data.csv"), "w") as file:
        file.write("image,label\n")
        for i in range(FILES * each):
            file.write(f"1.jpg,{i % 10}\n")
    return f"{{name: csv, fname: {folder}/data.csv, split: train}}"


def make_jsonl(folder, each):
    write_image(folder)
    with open(os.path.join(folder, "data.jsonl"), "w") as file:
        for i in range(FILES * each):
            file.write(f'{{"image": "1.jpg", "label": {i % 10}}}\n')
    return f"{{name: jsonl, fname: {folder}/data.jsonl, split: train}}"


def make_image_folder(folder, each):
    """FILES class folders. The images of a class are links to one file."""
    for i in range(FILES):
        path = os.path.join(folder, f"{i:04d}")
        write_image(path)
        for image in range(2, each + 1):
            os.link(os.path.join(path, "1.jpg"), os.path.join(path, f"{image}.jpg"))
    return f"{{name: image_folder, data_dir: {folder}}}"


def make_array_record(folder, each):
    """A TFDS folder with FILES ArrayRecord files."""
    from array_record.python import array_record_module

    os.makedirs(folder)
    template = os.path.join(folder, f"made-train.array_record-{{:05d}}-of-{FILES:05d}")
    writer = array_record_module.ArrayRecordWriter(template.format(0), "group_size:1")
    for i in range(each):
        writer.write(example(i % 10))
    writer.close()
    for i in range(1, FILES):
        shutil.copyfile(template.format(0), template.format(i))
    split = {"name": "train", "shardLengths": [str(each)] * FILES,
             "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"}
    info = {"name": "made", "version": "1.0.0", "fileFormat": "array_record", "splits": [split]}
    of = "tensorflow_datasets.core.features."
    image = {"pythonClassName": of + "image_feature.Image",
             "image": {"shape": {"dimensions": ["-1", "-1", "1"]}, "dtype": "uint8", "encodingFormat": "jpeg"}}
    label = {"pythonClassName": of + "class_label_feature.ClassLabel", "classLabel": {"numClasses": "10"}}
    features = {"pythonClassName": of + "features_dict.FeaturesDict",
                "featuresDict": {"features": {"image": image, "label": label}}}
    for name, content in (("dataset_info", info), ("features", features)):
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump(content, file)
    return f"{{name: tfds, data_dir: {folder}}}"


def seconds(binary, cache, config):
    begin = time.monotonic()
    subprocess.run([binary, "data", "index", "--config", config], check=True, capture_output=True,
                   env=dict(os.environ, XDG_CACHE_HOME=cache))
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/bvtrain"))
    parser.add_argument("--examples", type=int, default=FILES * 1251)
    parser.add_argument("--folder")
    given = parser.parse_args()
    each = given.examples // FILES
    with tempfile.TemporaryDirectory(prefix="bvtrain-index-", dir=given.folder) as folder:
        cache, config = os.path.join(folder, "cache"), os.path.join(folder, "c.yaml")

        def write_config(data):
            with open(config, "w") as file:
                file.write(f"num_classes: 1024\ninput:\n  data: {data}\n  batch_size: 8\n  {PP}\n")

        write_config("{name: synthetic, size: 1}")
        base = min(seconds(given.binary, cache, config) for _ in range(5))
        all_of = (make_tfrecord, make_webdataset, make_csv, make_jsonl, make_image_folder, make_array_record)
        for make in all_of:
            name = make.__name__[len("make_"):]
            if make is make_array_record and not importlib.util.find_spec("array_record"):
                print("array_record: not measured: needs PyPI's array_record")
                continue
            data = os.path.join(folder, name)
            write_config(make(data, each))
            time.sleep(3)  # an index of files that have just changed is not stored
            first = seconds(given.binary, cache, config) - base
            later = min(seconds(given.binary, cache, config) for _ in range(3)) - base
            print(f"{name}: {FILES * each:,} examples: {first:.2f} s without an index, {later:.2f} s with it",
                  flush=True)
            shutil.rmtree(data)


if __name__ == "__main__":
    main()

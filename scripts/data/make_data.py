#!/usr/bin/env python3
"""Writes the same images as a TFDS folder (two record formats), as WebDataset tars, as TFRecord
files and as an npz file, each with the program that defines its format.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu tensorflow-datasets array_record webdataset
    venv/bin/python scripts/data/make_data.py OUT [--digits DIR] [--images FOLDER] [--each N] [--limit N]
        [--shards N] [--name NAME]

--digits takes the folder of the IDX files of the project's own digits, --images a folder of JPEG
files <split>/<class>/<file> such as CIFAR-10. OUT/NAME then holds tfds/, tfds_array_record/, wds/,
tfrecord/ and <split>.npz with the same examples in the same order, and order.json with the
order. test/e2e/data_formats_test.cc compares what the program reads from each of them.
"""
import argparse, gzip, io, json, os, struct, sys, tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
from etils import epath
import tensorflow as tf
import tensorflow_datasets as tfds
import webdataset as wds


def read_idx(path):
    """Returns the array of an IDX file, gzipped or not."""
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        data = file.read()
    dims = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(dims)


def digits(folder):
    """Yields (split, key, encoded PNG, label) and the names of the classes."""
    examples = []
    for split in ("train", "test"):
        images = read_idx(f"{folder}/{split}-images-idx3-ubyte")
        labels = read_idx(f"{folder}/{split}-labels-idx1-ubyte")
        for i, (image, label) in enumerate(zip(images, labels)):
            png = tf.io.encode_png(image[..., None]).numpy()
            examples.append((split, f"{i:05d}", png, int(label)))
    return examples, [str(i) for i in range(10)], "png"


def folder_of_images(folder, each):
    examples = []
    splits = sorted(os.listdir(folder))
    names = sorted(os.listdir(f"{folder}/{splits[0]}"))
    for split in splits:
        for label, name in enumerate(names):
            for file in sorted(os.listdir(f"{folder}/{split}/{name}"))[:each]:
                with open(f"{folder}/{split}/{name}/{file}", "rb") as image:
                    examples.append((split, f"{name}-{file[:-4]}", image.read(), label))
    return examples, names, "jpeg"


NO_METADATA = tempfile.TemporaryDirectory()  # removed at the end


def write_tfds(out, dataset_name, examples, classes, encoding, shards, file_format):
    shape = tf.io.decode_image(examples[0][2]).shape

    with tfds.core.registered.skip_registration():

        class Builder(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self):
                return self.dataset_info_from_configs(
                    features=tfds.features.FeaturesDict({
                        "image": tfds.features.Image(shape=shape, encoding_format=encoding),
                        "label": tfds.features.ClassLabel(names=classes),
                        "id": tfds.features.Text(),
                        "mean": np.float32,
                        "size": tfds.features.Tensor(shape=(2,), dtype=np.int32),
                        "objects": tfds.features.Sequence({
                            "bbox": tfds.features.BBoxFeature(),
                            "kind": tfds.features.ClassLabel(names=["a", "b"]),
                        }),
                    }))

            def _split_generators(self, manager):
                splits = sorted({split for split, *_ in examples}, reverse=True)
                return {split: self._generate_examples(split) for split in splits}

            def _generate_examples(self, split):
                for of, key, data, label in examples:
                    if of != split:
                        continue
                    image = tf.io.decode_image(data).numpy()
                    yield key, {
                        "image": io.BytesIO(data), "label": label, "id": key,
                        "mean": np.float32(image.mean()), "size": image.shape[:2],
                        "objects": [{"bbox": tfds.features.BBox(0.0, 0.0, 0.5, 1.0), "kind": label % 2}] * 2,
                    }

            name = dataset_name
            pkg_dir_path = epath.Path(NO_METADATA.name)  # for its metadata, which does not exist

    builder = Builder(data_dir=out, file_format=file_format)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(num_shards=shards), file_format=file_format)
    return builder


def order_of(builder, split):
    """Returns the keys of the examples in the order of the files."""
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    return [e["id"].decode() for e in tfds.as_numpy(builder.as_dataset(
        split=split, shuffle_files=False, read_config=config, decoders={"image": tfds.decode.SkipDecoding()}))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--digits")
    parser.add_argument("--images")
    parser.add_argument("--name", default="", help="default: digits_png or images")
    parser.add_argument("--each", type=int, default=1000000, help="images of each class and split")
    parser.add_argument("--limit", type=int, default=1000000, help="images of each split")
    parser.add_argument("--shards", type=int, default=4)
    args = parser.parse_args()
    if args.digits:
        name, (examples, classes, encoding) = args.name or "digits_png", digits(args.digits)
    else:
        name, (examples, classes, encoding) = args.name or "images", folder_of_images(args.images, args.each)
    of_split = {}
    for example in examples:
        of_split.setdefault(example[0], []).append(example)
    examples = [example for each in of_split.values() for example in each[: args.limit]]
    out = f"{args.out}/{name}"
    os.makedirs(out, exist_ok=True)
    builder = write_tfds(f"{out}/tfds", name, examples, classes, encoding, args.shards, "tfrecord")
    other = write_tfds(f"{out}/tfds_array_record", name, examples, classes, encoding, args.shards, "array_record")
    order = {}
    for split in builder.info.splits:
        by_key = {key: (data, label) for of, key, data, label in examples if of == split}
        keys = order_of(builder, split)
        assert len(keys) == len(by_key)
        order[split] = keys
        chosen = [by_key[key] for key in keys]
        np.savez(f"{out}/{split}.npz", image=np.stack([tf.io.decode_image(d).numpy() for d, _ in chosen]),
                 label=np.array([label for _, label in chosen], np.int64))
        os.makedirs(f"{out}/wds", exist_ok=True)
        per = -(-len(keys) // args.shards)
        with wds.ShardWriter(f"{out}/wds/{split}-%03d.tar", maxcount=per, verbose=0) as sink:
            for key, (data, label) in zip(keys, chosen):
                sink.write({"__key__": key, "png" if encoding == "png" else "jpg": data, "cls": label})
        os.makedirs(f"{out}/tfrecord", exist_ok=True)
        for shard in range(args.shards):
            with tf.io.TFRecordWriter(f"{out}/tfrecord/{split}-{shard:05d}-of-{args.shards:05d}") as sink:
                for data, label in chosen[shard * per : (shard + 1) * per]:
                    feature = {
                        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
                        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))}
                    sink.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    with open(f"{out}/order.json", "w") as file:
        json.dump(order, file)


if __name__ == "__main__":
    sys.exit(main())

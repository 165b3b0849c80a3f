#!/usr/bin/env python3
"""Writes corpus/<target>/ for the fuzz targets: small good inputs, from which fuzzing starts.

    test/fuzz/make_corpus.py

Needs nothing but Python. The images and record files come from test/data/digits_40.tar.gz. Equal
inputs give equal bytes, so that a second run changes nothing.
"""
import base64
import io
import json
import pathlib
import struct
import tarfile
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent
LINE = b"\n=====\n"  # between the parts of an input; see fuzz.h

# A grey JPEG file of 8 x 8 pixels and a WebP file, which Python cannot encode.
JPEG = base64.b64decode("""
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU
FRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU
FBQUFBQUFBT/wAARCAAIAAgDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUF
BAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVW
V1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi
4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAEC
AxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVm
Z2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq
8vP09fb3+Pn6/9oADAMBAAIRAxEAPwD4vooooA//2Q==
""")
WEBP = base64.b64decode("""
UklGRh4AAABXRUJQVlA4TBEAAAAvB8ABAAdQy1rWsv+BiOh/AAA=
""")


def png(width=4, height=4, colour=2, depth=8, interlaced=0):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = b"\0" + bytes(range((width * channels * depth + 7) // 8))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    palette = chunk(b"PLTE", bytes(range(48))) if colour == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette
            + chunk(b"IDAT", zlib.compress(row * height, 9)) + chunk(b"IEND", b""))


def npy(descr, shape, data, major=1):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    length = struct.pack("<H" if major == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([major, 0]) + length + text + data


def npz(arrays, method):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in arrays.items():
            info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            archive.writestr(info, content)
    return out.getvalue()


def tar(members, form):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()[:-8192]  # most of the zeros at the end


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def tf_example(features):
    return field(1, b"".join(field(1, field(1, name) + field(2, value))
                             for name, value in features.items()))


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def records(*contents):
    sizes = b"".join(varint(len(content)) for content in contents)
    return b"\0" + varint(len(sizes)) + sizes + b"".join(contents)


def texts():
    yield "config", b"seed: 1\nmodel:\n  width: 768 # x\nlr_mults: [[head, 2], ['.*', 1e-3]]\n" \
                    b"evals:\n  val: &v {type: c, log_steps: 5}\n  mini: {<<: *v, n: ~}\n" \
                    b"pp: >\n  decode|\n  resize(224)\n"
    yield "config", b"---\na: \"\\x41\\u00e4\"\nb: ${HOME:-x}\n? c\n: [1, {d: e}, [f]]\n" \
                    b"g: &h |\n  x\ni: *h\n...\n"
    yield "pp", b"decode|resize(224, method='area')|value_range(-1, 1)|keep(\"image\", 'labels')"
    yield "pp", b"decode_jpeg_and_inception_crop(8)|flip_lr|randaug(2, 15)|onehot(10)|" \
                b"choice([0, 2], 'text', True)|strfmt('{label} {text}')"
    yield "duration", b"total_epochs: 2.5\nlog_seconds: 30\n"
    yield "duration", b"total_examples: 1e6\nlog_percent: 0.01\n"
    yield "duration", b"total_steps: 100\nlog_steps: 7\n"
    yield "split", b"train[:99%]+test[5:]+val[-3:]"
    yield "split", b"train[10%:60%][even 2/5]"
    yield "split", b"train[not fold 2/5]"
    yield "split", b"train[:2shard]+all"
    yield "braces", b"a-{00..12}{x,y{1,2}}.tar"
    yield "braces", b"{a..e..2},{9..1..-3}"
    yield "jsonl", b'{"image": "a.jpg", "label": 0, "x": [1, 2.5], "t": "\\u00e4\\ud83d\\ude00"}\n' \
                   b'{"image": "a.jpg", "label": 1, "x": [], "t": ""}\n'
    yield "jsonl", b'{"a": {"b": [true, false], "c": -1.5e3}, "image": "a.jpg", "split": "train"}\n'
    yield "csv", b"image,label,score,split\na.jpg,0,0.5,train\n\"b,c.jpg\",1,\"1\",test\r\n"
    yield "csv", b"\xef\xbb\xbfpath;class;note\na.jpg;cat;\"x \"\"y\"\"\n\nb.jpg;dog;\n"
    yield "csv", b"image\tlabel\na.jpg\tcat|dog\nb.jpg\t\n"
    yield "metrics", b'{"step": 1, "training_loss": 2.5, "x": NaN}\n{"step": 2, "a/b": -1e-3}\n{"st'
    yield "metrics", b'{"data": "input", "step": 3, "example": "train/cat/17.jpg", "reason": "x"}\n'
    meta = {"class_names": ["a"], "image": [8, 8, 3], "row": [["loss", "nan"], ["x", 1.5]],
            "data": {"input": "train", "evals": {"val": 5}}, "compute_threads": 2}
    yield "manifest", json.dumps({
        "files": [{"bytes": 20, "chunk_bytes": 1 << 20, "name": "state-00000-of-00001.safetensors",
                   "xxh3_64": ["0123456789abcdef"]}],
        "format": 2, "keep": False, "meta": meta, "step": 7, "world_size": 1,
        "pieced": {"w": [[2, 3], [3, 1]]}}).encode()[:-1]


def arrays():
    head = struct.pack(">IIII", 0x803, 2, 2, 2)
    yield "idx", head + b"12345678"
    yield "idx", struct.pack(">II", 0x801, 4) + b"\0\1\2\1"
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield "idx", compressor.compress(head + b"12345678") + compressor.flush()
    yield "cifar", b"\1\2" + b"\7" * 3072 + LINE + b"\n".join(b"c%d" % i for i in range(100))
    numbers = npy("<i8", (2,), struct.pack("<qq", 1, 2))
    yield "npy", numbers
    yield "npy", npy(">f4", (1, 2), b"\0" * 8, major=2)
    yield "npy", npy("<U2", (2,), "a\0\u00e4b".encode("utf-32-le"))
    yield "npy", npy("|b1", (2,), b"\0\1")
    image = npy("|u1", (2, 2, 2, 1), b"abcdefgh")
    text = npy("<U2", (1,), "ab".encode("utf-32-le"))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        archive = npz({"image": image, "label": numbers, "names": text}, method)
        yield "npz", archive
        yield "weights", archive
    tensors = safetensors({"__metadata__": {"k": "v\u00e4"},
                           "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                           "b": {"dtype": "BOOL", "shape": [2, 1], "data_offsets": [8, 10]}},
                          b"\0" * 9 + b"\1")
    yield "safetensors", tensors
    yield "weights", tensors
    yield "weights", b"\x80\x02}q\x00."


def records_and_tars():
    example = tf_example({b"image": field(1, field(1, JPEG)), b"label": field(3, field(1, b"\5")),
                          b"x": field(2, field(1, struct.pack("<ff", 1, 2)))})
    yield "tf_example", example
    yield "tf_example", tf_example({b"t": field(1, field(1, b"a") + field(1, b"bc")), b"e": b""})
    info = {"name": "d", "version": "1.0.0", "fileFormat": "tfrecord",
            "splits": [{"name": "train", "shardLengths": ["1"],
                        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"}]}
    shape = {"dimensions": ["-1"]}
    features = {"featuresDict": {"features": {
        "image": {"pythonClassName": "x.Image", "image": {"shape": {"dimensions": ["-1", "-1", "3"]}}},
        "label": {"pythonClassName": "x.ClassLabel", "classLabel": {"numClasses": "10"}},
        "x": {"tensor": {"dtype": "float32", "shape": shape}},
        "o": {"sequence": {"feature": {"featuresDict": {"features": {"t": {"text": {}}}}}}}}}}
    yield "tfds", LINE.join([json.dumps(info).encode(), json.dumps(features).encode(),
                             b"zero\none\n", example])
    yield "array_record", LINE.join([b"x", records(b"abc", b"de") + b"\2", records(b"", b"\x08\x40\x18\1")])
    sample = {"a.jpg": JPEG, "a.cls": b"1", "a.txt": b"dog", "a.json": b'{"x": [1, 2.5], "y": "z"}',
              "a.npy": npy("<f4", (2,), b"\0" * 8)}
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT):
        yield "tar", tar(sample, form)
    yield "tar", tar({"n" * 120 + ".jpg": JPEG, "n" * 120 + ".cls": b"0"}, tarfile.PAX_FORMAT)
    with tarfile.open(ROOT.parent / "data/digits_40.tar.gz") as archive:
        shard = archive.extractfile("digits_40/tfrecord/train-00000-of-00002").read()
        length = struct.unpack("<Q", shard[:8])[0]
        yield "tfrecord", shard[:2 * (length + 16)] + LINE + example
        array = archive.extractfile("digits_40/tfds_array_record/digits_40/1.0.0/"
                                    "digits_40-train.array_record-00000-of-00002").read()
        yield "array_record", array + LINE + LINE


def images():
    exif = b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
    turned = JPEG[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + JPEG[2:]
    for target in ("jpeg", "image_head"):
        yield target, JPEG
        yield target, turned
    for colour, depth in ((0, 1), (0, 16), (2, 8), (3, 4), (6, 8)):
        yield "png", png(colour=colour, depth=depth)
    yield "png", png(interlaced=1)
    yield "image_head", png()
    yield "webp", WEBP
    yield "image_head", WEBP
    chunk = b"EXIF" + struct.pack("<I", 32) + exif[6:] + b"\0" * (32 - len(exif) + 6)
    body = b"WEBPVP8X" + struct.pack("<IIHBHB", 10, 8, 7, 0, 7, 0) + WEBP[12:] + chunk
    yield "webp", b"RIFF" + struct.pack("<I", len(body)) + body


def main():
    counts = {}
    for make in (texts, arrays, records_and_tars, images):
        for target, content in make():
            counts[target] = counts.get(target, 0) + 1
            folder = ROOT / "corpus" / target
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{counts[target]:02}").write_bytes(content)
    print(f"{sum(counts.values())} inputs for {len(counts)} targets")


if __name__ == "__main__":
    main()

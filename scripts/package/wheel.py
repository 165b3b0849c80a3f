#!/usr/bin/env python3
"""Writes a wheel.

    wheel.py FOLDER VERSION TAG README OUTPUT

FOLDER holds what the wheel installs: the folder bvtrain and bvtrain-VERSION.data. The wheel gets its
metadata and README as description, and is written into OUTPUT. Prints its path.
"""
import base64
import hashlib
import pathlib
import sys
import zipfile

METADATA = """\
Metadata-Version: 2.1
Name: bvtrain
Version: {version}
Summary: A trainer for image classifiers and regressors: one native binary on LibTorch
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: torch==2.11.0
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: bvtrain
Root-Is-Purelib: false
Tag: {tag}
"""


def hash_text(content):
    digest = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    folder, version, tag, readme, output = sys.argv[1:]
    info = f"bvtrain-{version}.dist-info"
    description = pathlib.Path(readme).read_text(encoding="utf-8")
    generated = {
        "METADATA": METADATA.format(version=version, description=description),
        "WHEEL": WHEEL.format(tag=tag),
    }
    entries = [(path.relative_to(folder).as_posix(), path.read_bytes(), path.stat().st_mode)
               for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()]
    entries += [(f"{info}/{name}", text.encode(), 0o100644) for name, text in generated.items()]
    record = "".join(f"{name},{hash_text(content)},{len(content)}\n" for name, content, _ in entries)
    entries.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o100644))

    wheel = pathlib.Path(output) / f"bvtrain-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in entries:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16  # pip preserves the executable bit
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(wheel)


if __name__ == "__main__":
    main()

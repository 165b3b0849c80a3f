"""Makes the npz files beside it (numpy 2, any version): stored, deflated, and written to a pipe."""
import os
import zipfile

import numpy as np

arrays = {
    "params/f4": np.arange(6, dtype="<f4").reshape(2, 3) / 4,
    "params/f8_big": np.array([1.5, -2.25, 1e300], dtype=">f8"),
    "params/f2": np.array([0.5, -65504], dtype="<f2"),
    "params/fortran": np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4)),
    "params/fortran_big": np.asfortranarray(np.arange(6, dtype=">i2").reshape(3, 2)),
    "params/bf16": np.array([0x3F80, 0xC000], dtype="<u2").view("V2"),  # 1.0, -2.0
    "u1": np.array([0, 255], dtype="u1"),
    "i1": np.array([-128, 127], dtype="i1"),
    "u2": np.array([0, 65535], dtype="<u2"),
    "u2_big": np.array([1, 65534], dtype=">u2"),
    "u4": np.array([0, 2**32 - 1], dtype="<u4"),
    "u8": np.array([0, 2**63 - 1], dtype="<u8"),
    "i8": np.array([-(2**63), 2**63 - 1], dtype="<i8"),
    "bool": np.array([True, False, True]),
    "scalar": np.array(7.5, dtype="<f4"),
    "empty": np.zeros((0, 3), dtype="<f4"),
    "names": np.array(["cat", "hound"]),
    "bytes": np.array([b"cat", b"hound"]),
}


class Pipe:
    """A file that can't seek: zipfile then puts sizes and CRC behind the data."""

    def __init__(self, name):
        self.file = open(name, "wb")

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        self.file.flush()


here = os.path.dirname(os.path.abspath(__file__))
np.savez(os.path.join(here, "stored.npz"), **arrays)
np.savez_compressed(os.path.join(here, "deflated.npz"), **arrays)
pipe = Pipe(os.path.join(here, "piped.npz"))
with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, array in arrays.items():
        with archive.open(zipfile.ZipInfo(name + ".npy"), "w") as entry:
            np.lib.format.write_array(entry, array, allow_pickle=False)

#!/usr/bin/env python3
"""Makes test/golden/flexi_vit.npz by running big_vision's own models/proj/flexi/vit.py.

    flexi_vit.py BIG_VISION OUTPUT.npz      BIG_VISION: a checkout (tested: 0127fb6b)

Needs jax, flax and numpy (tested: 0.6.0, 0.10.6, 2.x). The model uses one function of TensorFlow,
tf.image.resize(method="bilinear"). Without TensorFlow, its documented formula is used instead.
"""
import importlib
import sys
import types

import flax.training.checkpoints  # imported before TensorFlow is replaced below
import jax
import numpy as np

# Both sides of a patch grow, or both shrink: otherwise big_vision inverts a singular matrix in float32.
CASES = {
    "tok": ((32, 35), dict(patch_size=(8, 8), posemb_size=(4, 4), pool_type="tok", seqhw=5)),
    "gap": ((48, 40), dict(patch_size=(6, 9), posemb_size=(7, 6), pool_type="gap", seqhw=4)),
    "map": ((36, 36), dict(patch_size=(8, 8), posemb_size=(3, 3), pool_type="map", seqhw=6, posemb="sincos2d")),
}
SIZE = dict(width=16, depth=1, mlp_dim=24, num_heads=2, head_zeroinit=False)
KEPT = ("stem", "with_posemb", "pre_logits", "logits_2d")


def bilinear(size, new):
    """Returns the (new, size) matrix of a bilinear resize: half-pixel centres, clamped, no antialiasing."""
    at = np.clip((np.arange(new) + 0.5) * size / new - 0.5, 0, size - 1)
    low = np.floor(at).astype(int)
    matrix = np.zeros((new, size))
    matrix[np.arange(new), low] += 1 - (at - low)
    matrix[np.arange(new), np.minimum(low + 1, size - 1)] += at - low
    return matrix


class Array(np.ndarray):
    def numpy(self):
        return np.asarray(self, np.float32)


def resize(image, shape, method):
    assert method == "bilinear"
    plane = np.asarray(image)[0, ..., 0]
    plane = bilinear(plane.shape[0], shape[0]) @ plane @ bilinear(plane.shape[1], shape[1]).T
    return plane[None, ..., None].view(Array)


def load_model(checkout):
    try:
        import tensorflow
    except ImportError:
        tensorflow = types.ModuleType("tensorflow")
        tensorflow.constant = np.asarray
        tensorflow.image = types.SimpleNamespace(resize=resize)
        sys.modules["tensorflow"] = tensorflow
    # Packages without __init__, so that modules needed only for loading weights are not imported.
    for name in ("big_vision", "big_vision.utils", "big_vision.models", "big_vision.models.common"):
        module = types.ModuleType(name)
        module.__path__ = [f"{checkout}/{name.replace('.', '/')}"]
        sys.modules[name] = module
        if "." in name:
            parent, child = name.rsplit(".", 1)
            setattr(sys.modules[parent], child, module)
    sys.modules["big_vision.models"].vit = importlib.import_module("big_vision.models.vit")
    return importlib.import_module("big_vision.models.proj.flexi.vit")


def main():
    checkout, output = sys.argv[1:]
    flexi = load_model(checkout)
    rng = np.random.RandomState(0)
    arrays = {}
    for name, (hw, arguments) in CASES.items():
        image = rng.uniform(-1, 1, (2, *hw, 3)).astype(np.float32)
        model = flexi.Model(5, **SIZE, **arguments)
        params = model.init(jax.random.PRNGKey(0), image)["params"]
        params = jax.tree.map(lambda x: np.asarray(x) + 0.05 * rng.randn(*x.shape).astype(np.float32), params)
        logits, out = model.apply({"params": params}, image)
        grads = jax.grad(lambda p: (model.apply({"params": p}, image)[0] ** 2).sum())(params)
        arrays[f"{name}/image"] = image
        arrays[f"{name}/logits"] = logits
        for key in KEPT:
            arrays[f"{name}/out/{key}"] = out[key]
        for key, value in flax.traverse_util.flatten_dict(params, sep="/").items():
            arrays[f"{name}/params/{key}"] = value
        for key, value in flax.traverse_util.flatten_dict(grads, sep="/").items():
            if key in ("embedding/kernel", "pos_embedding", "head/kernel"):
                arrays[f"{name}/grad/{key}"] = value
    np.savez_compressed(output, **{k: np.asarray(v, np.float32) for k, v in arrays.items()})


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks that exported weights give the same logits in other programs as in bvtrain.

Needs numpy, safetensors, timm (with torch) and onnxruntime. It is best to install them in a new
environment:
    python3 -m venv build/export-venv
    build/export-venv/bin/pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu
    build/export-venv/bin/pip install timm onnxruntime safetensors numpy transformers

With --bvtrain it runs the binary (train, export, predict), timm and onnxruntime on
  - each model of the golden data, also with image sizes that leave borders;
  - small models of every architecture, trained for some steps;
  - models of timm and (with transformers) Hugging Face, loaded by the binary:
    build/export-venv/bin/python scripts/golden/check_export.py --bvtrain build/release/bvtrain \\
        [--golden ../shared/golden]

With --expected it compares one export with known logits (an npz with `image` and `logits`):
    .../check_export.py --expected io.npz [--onnx F.onnx] [--timm F.safetensors]

Prints the largest difference of each, relative to the largest logit. Exits with 1 if one is above
2e-5.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial

import numpy as np

TOLERANCE = 2e-5
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Golden models whose parameters also fit images of other sizes (height, width).
OTHER_SIZES = {"bit": [(33, 47), (42, 54)], "bit_paper": [(33, 47), (42, 54)], "mixer": [(27, 30)]}

# Models that this script trains on generated images (height, width, channels).
MU = {"variant": "mu", "patch_size": [6, 6], "posemb_size": [3, 4]}
TRAINED = {
    "cnn 19x23": ("cnn", {"widths": [16, 8], "dense": 20}, (19, 23, 3)),
    "cnn without convolutions": ("cnn", {"widths": [], "dense": 20}, (5, 6, 1)),
    "resnet_cifar batch 33x35": ("resnet_cifar", {"width": 16, "blocks": [1, 0, 1]}, (33, 35, 3)),
    "resnet_cifar group": ("resnet_cifar", {"width": 16, "blocks": [0, 2], "norm": "group",
                                            "logit_scale": 1.5}, (16, 16, 1)),
    "flexi_vit seqhw 5": ("flexi_vit", MU | {"pool_type": "tok", "seqhw": 5}, (35, 30, 3)),
    "flexi_vit its own patches": ("proj.flexi.vit", MU | {"pool_type": "gap"}, (20, 26, 3)),
    "flexi_vit sincos2d": ("flexi_vit", MU | {"pool_type": "map", "seqhw": 3,
                                              "posemb": "sincos2d"}, (27, 24, 1)),
    "mlp_mixer padded": ("mlp_mixer", {"patch_size": [4, 5], "num_blocks": 3, "hidden_dim": 24,
                                       "tokens_mlp_dim": 7, "channels_mlp_dim": 50,
                                       "stoch_depth": 0.1}, (19, 23, 3)),
    "mlp_mixer": ("mlp_mixer", {"patch_size": [4, 5], "num_blocks": 2, "hidden_dim": 24,
                                "tokens_mlp_dim": 7, "channels_mlp_dim": 50}, (20, 25, 1)),
    "bit": ("bit", {"width": 0.5, "depth": [1, 2, 1]}, (37, 50, 1)),
    "bit_paper": ("bit_paper", {"width": 0.5, "depth": [1, 2, 1]}, (37, 50, 3)),
    "vit rep_size, a remainder": ("vit", {"variant": "mu", "patch_size": [5, 7], "rep_size": 20,
                               "mlp_dim": 50}, (17, 23, 1)),
    "vit scan map": ("vit", {"variant": "mu/8", "depth": 3, "scan": True, "mlp_dim": 50,
                             "pool_type": "map"}, (32, 24, 3)),
}


def timm_model(file):
    """Returns timm's model with the file's weights and arguments (docs/weights.md), the arguments, and torch."""
    import torch
    import timm.models as models
    from safetensors import safe_open
    from timm.layers import GELUTanh, StdConv2d

    # Arguments that JSON cannot hold.
    more = {"MlpMixer": {"act_layer": GELUTanh},
            "ResNetV2": {"conv_layer": partial(StdConv2d, eps=1e-10)}}
    with safe_open(file, "pt") as tensors:
        about = tensors.metadata()
        weights = {name: tensors.get_tensor(name) for name in tensors.keys()}
    name, arguments = about["timm_class"], json.loads(about["timm"])
    model = getattr(models, name)(**arguments, **more.get(name, {}))
    model.load_state_dict(weights)  # strict: every name and shape must fit
    return model.eval(), arguments, torch


def timm_outputs(file, image):
    model, arguments, torch = timm_model(file)
    # VisionTransformer accepts only whole patches.
    height, width = arguments.get("img_size", image.shape[1:3])
    crop = np.ascontiguousarray(image[:, :height, :width].transpose(0, 3, 1, 2))
    with torch.inference_mode():
        return model(torch.from_numpy(crop)).numpy()


def onnx_outputs(file, image):
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    whole = session.run(None, {"image": image})[0]
    # The exported graph must accept any batch size.
    single = session.run(None, {"image": image[:1]})[0]
    assert difference(single, whole[:1]) <= TOLERANCE, "a batch of one differs"
    return whole


def difference(ours, expected):
    assert ours.shape == expected.shape, f"shapes {ours.shape} and {expected.shape}"
    assert np.isfinite(ours).all()
    return float(np.abs(ours - expected).max() / np.abs(expected).max())


def report(what, value):
    ok = value <= TOLERANCE
    print(f"{what:48} {value:8.1e}  {'ok' if ok else 'TOO LARGE'}", flush=True)
    return ok


def run(command, expect=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != expect:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done


def predict(binary, weights, image, folder):
    np.savez(f"{folder}/images.npz", image=image)
    run([binary, "predict", *weights, "--input", f"{folder}/images.npz", "--pp", "", "--output",
         f"{folder}/p.npz"])
    return np.load(f"{folder}/p.npz")["logits"]


def has_timm(model_name, model, image):
    """Returns whether `--format timm` can hold the model; bvtrain must refuse the others."""
    if model_name == "mlp_mixer":
        patch = model.get("patch_size") or [int(model["variant"].split("/")[1])] * 2
        return all(side % size == 0 for side, size in zip(image.shape[1:3], patch))
    if model_name == "vit":
        return not model.get("rep_size")
    return model_name in ("bit_paper", "flexi_vit", "proj.flexi.vit")


def check_exports(binary, name, case, weights, image, logits, folder):
    """Exports to ONNX and timm and compares their logits with bvtrain's.

    `weights` are the options of bvtrain that choose the weights.
    """
    good = True
    for kind, outputs in (("onnx", onnx_outputs), ("timm", timm_outputs)):
        file = f"{folder}/f.{kind}"
        command = [binary, "export", *weights, "--format", kind, "--output", file]
        if kind == "timm" and not has_timm(*case, image):
            done = run(command, expect=2)
            print(f"{name + ': timm':48} refused: {done.stderr.strip()[:70]}")
            continue
        run(command)
        good &= report(f"{name}: {kind} - bvtrain", difference(outputs(file, image), logits))
    return good


def random_images(height, width, channels, n=5):
    return np.random.default_rng(0).uniform(-1, 1, (n, height, width, channels)).astype(np.float32)


def check_golden(binary, golden):
    """Compares the logits of bvtrain, timm and onnxruntime for each golden model, on its images and others."""
    good = True
    with open(f"{golden}/models/models.json", encoding="utf-8") as file:
        cases = json.load(file)
    for name, case in cases.items():
        weights = f"{golden}/models/{name}.ckpt.npz"
        if not os.path.exists(f"{golden}/models/{name}.io.npz") or not os.path.exists(weights):
            continue
        if case["model"].get("dtype_mm", "float32") != "float32":
            continue
        io = np.load(f"{golden}/models/{name}.io.npz")
        golden_image, expected = io["image"], io["logits"]
        sizes = [golden_image.shape[1:3], *OTHER_SIZES.get(name, [])]
        for number, (height, width) in enumerate(sizes):
            image = random_images(height, width, golden_image.shape[3])
            if number == 0:
                image = np.concatenate([golden_image, image])
            label = name if number == 0 else f"{name} {height}x{width}"
            with tempfile.TemporaryDirectory() as folder:
                config = {k: case[k] for k in ("model_name", "model", "num_classes")}
                with open(f"{folder}/c.yaml", "w", encoding="utf-8") as file:
                    json.dump(config | {"precision": "float32", "model_init": weights}, file)
                options = ["--config", f"{folder}/c.yaml"]
                logits = predict(binary, options, image, folder)
                if number == 0:
                    good &= report(f"{label}: bvtrain - reference",
                                   difference(logits[:len(expected)], expected))
                options += ["--image-size", f"{height},{width}"]
                good &= check_exports(binary, label, (case["model_name"], case["model"]), options,
                                      image, logits, folder)
    return good


def check_trained(binary):
    """Checks models that the binary trains, so that running statistics and zero-initialised layers change."""
    with tempfile.TemporaryDirectory() as folder:
        digits = os.path.join(ROOT, "configs", "digits_cnn.yaml")
        run([binary, "--config", digits, "--workdir", f"{folder}/w", "--set", "precision=float32"])
        image = random_images(8, 8, 1)
        weights = ["--workdir", f"{folder}/w"]
        good = check_exports(binary, "configs/digits_cnn.yaml", ("cnn", {}), weights, image,
                             predict(binary, weights, image, folder), folder)
        good &= check_exports(binary, "configs/digits_cnn.yaml --ema", ("cnn", {}),
                              weights + ["--ema"], image,
                              predict(binary, weights + ["--ema"], image, folder), folder)
    for name, (model_name, model, (height, width, channels)) in TRAINED.items():
        with tempfile.TemporaryDirectory() as folder:
            data = {"name": "synthetic", "height": height, "width": width, "channels": channels,
                    "classes": 7, "encoded": "none"}
            pp = ('value_range(-1, 1)|onehot(7, key="label", key_result="labels")'
                  '|keep("image", "labels")')
            config = {"num_classes": 7, "total_steps": 30, "log_training_steps": 30, "lr": 0.01,
                      "precision": "float32", "optax_name": "scale_by_adam",
                      "model_name": model_name, "model": model,
                      "input": {"data": data, "batch_size": 16, "pp": pp}}
            with open(f"{folder}/c.yaml", "w", encoding="utf-8") as file:
                json.dump(config, file)
            run([binary, "--config", f"{folder}/c.yaml", "--workdir", f"{folder}/w"])
            image = random_images(height, width, channels)
            weights = ["--workdir", f"{folder}/w"]
            good &= check_exports(binary, f"trained {name}", (model_name, model), weights, image,
                                  predict(binary, weights, image, folder), folder)
    return good


def foreign_models():
    """Returns {name: (bvtrain's model_name, its model, a model of another program with random weights)}."""
    from timm.layers import GELUTanh, StdConv2d
    from timm.models.mlp_mixer import MlpMixer
    from timm.models.resnetv2 import ResNetV2
    from timm.models.vision_transformer import VisionTransformer

    sizes = {"embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 10, "img_size": 32,
             "patch_size": 8, "act_layer": "gelu_tanh"}
    vit = {"variant": "mu/8", "depth": 2}
    cases = {
        "timm token": ("vit", vit | {"pool_type": "tok"}, VisionTransformer(**sizes)),
        "timm map": ("vit", vit | {"pool_type": "map"},
                     VisionTransformer(**sizes, global_pool="map", class_token=False)),
        "timm avg": ("vit", vit | {"pool_type": "gap"},
                     VisionTransformer(**sizes, global_pool="avg", class_token=False,
                                       fc_norm=False)),
        "timm MlpMixer": ("mlp_mixer",
                          {"patch_size": [8, 8], "num_blocks": 2, "hidden_dim": 32,
                           "tokens_mlp_dim": 16, "channels_mlp_dim": 128},
                          MlpMixer(10, 32, patch_size=8, num_blocks=2, embed_dim=32,
                                   act_layer=GELUTanh)),
        "timm ResNetV2": ("bit_paper", {"width": 0.5, "depth": [2, 1]},
                          ResNetV2([2, 1], (128, 256), 10, stem_chs=32,
                                   conv_layer=partial(StdConv2d, eps=1e-10))),
    }
    try:
        from transformers import ViTConfig, ViTForImageClassification
        cases["Hugging Face"] = ("vit", vit | {"pool_type": "tok"}, ViTForImageClassification(
            ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                      intermediate_size=128, image_size=32, patch_size=8,
                      hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, num_labels=10)))
    except ImportError:
        print("skipped: Hugging Face (no transformers)")
    return cases


def check_import(binary):
    """Checks that bvtrain loads models of timm and Hugging Face with random weights."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    image = torch.rand(3, 32, 32, 3) * 2 - 1
    good = True
    for name, (model_name, arguments, model) in foreign_models().items():
        for parameter in model.parameters():  # so that zeros and ones do not hide errors
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.eval()
        with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
            expected = model(image.permute(0, 3, 1, 2))
            expected = getattr(expected, "logits", expected).numpy()
            files = [f"{folder}/memory.safetensors"]
            if hasattr(model, "save_pretrained"):
                model.save_pretrained(folder)
                files.append(folder)
            save_file({k: v.contiguous() for k, v in model.state_dict().items()}, files[0])
            for file in files:
                config = {"model_name": model_name, "num_classes": 10, "precision": "float32",
                          "model": arguments, "model_init": file}
                with open(f"{folder}/c.yaml", "w", encoding="utf-8") as out:
                    json.dump(config, out)
                logits = predict(binary, ["--config", f"{folder}/c.yaml"], image.numpy(), folder)
                good &= report(f"{name}: bvtrain - it", difference(logits, expected))
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bvtrain", help="the binary: checks every model")
    parser.add_argument("--golden", default=os.path.join(
        os.environ.get("BVTRAIN_SHARED", "../shared"), "golden"))
    parser.add_argument("--expected", help="npz with image and logits")
    parser.add_argument("--onnx")
    parser.add_argument("--timm")
    options = parser.parse_args()
    if bool(options.bvtrain) == bool(options.expected):
        parser.error("give --bvtrain or --expected")
    if options.bvtrain:
        good = check_golden(options.bvtrain, options.golden)
        good &= check_trained(options.bvtrain)
        good &= check_import(options.bvtrain)
    else:
        arrays = np.load(options.expected)
        good = bool(options.onnx or options.timm)
        if options.onnx:
            good &= report("onnxruntime", difference(
                onnx_outputs(options.onnx, arrays["image"]), arrays["logits"]))
        if options.timm:
            good &= report("timm", difference(
                timm_outputs(options.timm, arrays["image"]), arrays["logits"]))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Proves that exported weights compute in other programs what bvtrain computes.

Needs numpy, safetensors, timm (with torch) and onnxruntime, best in an environment of their own:
    python3 -m venv build/export-venv
    build/export-venv/bin/pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu
    build/export-venv/bin/pip install timm onnxruntime safetensors numpy transformers

Every vit of the golden data, through the binary (export, predict), timm and onnxruntime, and models
of timm and (with transformers) Hugging Face loaded by the binary:
    build/export-venv/bin/python scripts/golden/check_export.py --bvtrain build/release/bvtrain \\
        [--golden ../shared/golden]
One export against logits that are known (an npz with `image` and `logits`):
    .../check_export.py --expected io.npz [--onnx F.onnx] [--timm F.safetensors]
Prints the largest difference of each, relative to the largest logit; exits with 1 where one is
above 2e-5.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

TOLERANCE = 2e-5


def timm_outputs(file, image):
    """The logits of timm's VisionTransformer with the file's weights and arguments."""
    import torch
    from safetensors import safe_open
    from timm.models.vision_transformer import VisionTransformer

    with safe_open(file, "pt") as tensors:
        arguments = json.loads(tensors.metadata()["timm"])
        weights = {name: tensors.get_tensor(name) for name in tensors.keys()}
    model = VisionTransformer(**arguments)
    model.load_state_dict(weights)  # strict: every name and shape must fit
    model.eval()
    height, width = arguments["img_size"]
    crop = np.ascontiguousarray(image[:, :height, :width].transpose(0, 3, 1, 2))
    with torch.inference_mode():
        return model(torch.from_numpy(crop)).numpy()


def onnx_outputs(file, image):
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    whole = session.run(None, {"image": image})[0]
    # The batch's size is free.
    single = session.run(None, {"image": image[:1]})[0]
    assert difference(single, whole[:1]) <= TOLERANCE, "a batch of one differs"
    return whole


def difference(ours, expected):
    assert ours.shape == expected.shape, f"shapes {ours.shape} and {expected.shape}"
    assert np.isfinite(ours).all()
    return float(np.abs(ours - expected).max() / np.abs(expected).max())


def report(what, value):
    ok = value <= TOLERANCE
    print(f"{what:44} {value:8.1e}  {'ok' if ok else 'TOO LARGE'}", flush=True)
    return ok


def run(command, expect=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != expect:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done


def check_golden(binary, golden):
    """Each vit case: bvtrain's own logits, timm's and onnxruntime's."""
    good = True
    with open(f"{golden}/models/models.json", encoding="utf-8") as file:
        cases = json.load(file)
    for name, case in cases.items():
        weights = f"{golden}/models/{name}.ckpt.npz"
        if case["model_name"] != "vit" or not os.path.exists(f"{golden}/models/{name}.io.npz"):
            continue
        if case["model"].get("dtype_mm", "float32") != "float32" or not os.path.exists(weights):
            continue
        io = np.load(f"{golden}/models/{name}.io.npz")
        image, expected = io["image"], io["logits"]
        with tempfile.TemporaryDirectory() as folder:
            config = {k: case[k] for k in ("model_name", "model", "num_classes")}
            with open(f"{folder}/c.yaml", "w", encoding="utf-8") as file:
                json.dump(config | {"precision": "float32", "model_init": weights}, file)
            np.savez(f"{folder}/images.npz", image=image)
            run([binary, "predict", "--config", f"{folder}/c.yaml", "--input",
                 f"{folder}/images.npz", "--pp", "", "--output", f"{folder}/p.npz"])
            logits = np.load(f"{folder}/p.npz")["logits"]
            good &= report(f"{name}: bvtrain - reference", difference(logits, expected))
            size = f"{image.shape[1]},{image.shape[2]}"
            for kind, outputs in (("onnx", onnx_outputs), ("timm", timm_outputs)):
                command = [binary, "export", "--config", f"{folder}/c.yaml", "--format", kind,
                           "--image-size", size, "--output", f"{folder}/f.{kind}"]
                if kind == "timm" and case["model"].get("rep_size"):
                    run(command, expect=2)
                    print(f"{name + ': timm':44} refused: rep_size")
                    continue
                run(command)
                found = outputs(f"{folder}/f.{kind}", image)
                good &= report(f"{name}: {kind} - bvtrain", difference(found, logits))
    return good


def check_import(binary):
    """Models of timm and Hugging Face with random weights, loaded by bvtrain."""
    import torch
    from safetensors.torch import save_file
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    image = torch.rand(3, 32, 32, 3) * 2 - 1
    sizes = {"embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 10, "img_size": 32,
             "patch_size": 8, "act_layer": "gelu_tanh"}
    cases = {
        "timm token": ("tok", VisionTransformer(**sizes)),
        "timm map": ("map", VisionTransformer(**sizes, global_pool="map", class_token=False)),
        "timm avg": ("gap", VisionTransformer(**sizes, global_pool="avg", class_token=False,
                                              fc_norm=False)),
    }
    try:
        from transformers import ViTConfig, ViTForImageClassification
        cases["Hugging Face"] = ("tok", ViTForImageClassification(ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
            image_size=32, patch_size=8, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6,
            num_labels=10)))
    except ImportError:
        print("skipped: Hugging Face (no transformers)")
    good = True
    for name, (pool, model) in cases.items():
        for parameter in model.parameters():  # no zero or one hides an error
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.eval()
        with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
            expected = model(image.permute(0, 3, 1, 2))
            expected = getattr(expected, "logits", expected).numpy()
            if hasattr(model, "save_pretrained"):
                model.save_pretrained(folder)
                files = [folder, f"{folder}/memory.safetensors"]
            else:
                files = [f"{folder}/memory.safetensors"]
            save_file({k: v.contiguous() for k, v in model.state_dict().items()},
                      f"{folder}/memory.safetensors")
            np.savez(f"{folder}/images.npz", image=image.numpy())
            for file in files:
                config = {"model_name": "vit", "num_classes": 10, "precision": "float32",
                          "model": {"variant": "mu/8", "depth": 2, "pool_type": pool},
                          "model_init": file}
                with open(f"{folder}/c.yaml", "w", encoding="utf-8") as out:
                    json.dump(config, out)
                run([binary, "predict", "--config", f"{folder}/c.yaml", "--input",
                     f"{folder}/images.npz", "--pp", "", "--output", f"{folder}/p.npz"])
                logits = np.load(f"{folder}/p.npz")["logits"]
                good &= report(f"{name}: bvtrain - it", difference(logits, expected))
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bvtrain", help="the binary: checks every golden vit")
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

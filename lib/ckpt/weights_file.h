// Reading the parameters of a model from a file of any supported format.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lib/ckpt/model_card.h"
#include "lib/ckpt/tensors.h"

namespace bv {

// Returns the parameters at `path` under the names that the file gives them. `path` is
//   - a checkpoint of bvtrain, a ckpt/ folder or a workdir: its params/... and buffers/...
//   - an npz file of big_vision: its params/..., or else its opt/target/..., or else all of it (as
//     in utils.py, `load_checkpoint_np` and `load_params`)
//   - a safetensors file, or a folder that holds model.safetensors and no checkpoint
// Parameters are returned without the root "params/"; buffers (running statistics) as
// "buffers/...". A suffix ":sub/tree" of `path` selects the parameters below that name instead, in
// the file or below its root. If there are none, the error lists the subtrees that exist.
//
// The format is recognized by the content. Pickles (.pth, .pt, .bin, .ckpt, .pkl) are rejected with
// advice on how to convert them; nothing in them is ever executed. An npz file is rejected before
// anything is unpacked if its arrays would take more than 256 MiB + 4 * `model_bytes`, where
// `model_bytes` is the size of the model's parameters. Throws Error(Exit::usage).
NamedTensors read_weights(const std::string& path, uint64_t model_bytes);

// Checks what can be checked quickly, without reading arrays: that the file exists, its format, its
// table of contents, and that it has something below ":sub/tree". Returns how many bytes all arrays
// of the file take; nullopt for a checkpoint. Throws what read_weights() would.
std::optional<uint64_t> peek_weights(const std::string& path);

// Returns the pairs of strings that the weights file at `path` holds in addition to its arrays:
// those of a safetensors header, or those of an npz file's kModelCardArray. Empty if there are
// none, and for a checkpoint. Throws Error(Exit::usage).
Metadata read_weights_metadata(const std::string& path);

// Returns the JSON object in the file `name`, such as config.json, next to weights of timm or
// Hugging Face: `path` is a folder with a model.safetensors, or that file, or a file of another
// name that is the only weights file in its folder, if the object has keys of these programs.
// Returns an empty object if `path` is something else or if there is no file `name`. Throws
// Error(Exit::usage) if there is nothing at `path`, and at the file `name` next to a
// model.safetensors if it cannot be read or holds no JSON object.
nlohmann::json json_beside(const std::string& path, const std::string& name);

// Returns why json_beside() does not read a file `name` that is next to the weights file `path`, to
// follow "because"; "" if it reads it, or if there is no such file.
std::string json_not_read(const std::string& path, const std::string& name);

// Returns `path` without its ":sub/tree". Throws Error(Exit::usage) if there is no such file.
std::string without_subtree(const std::string& path);

// Returns whether `path` is a folder of a run, not a folder with weights only. A folder with a
// model.safetensors is one if it also holds checkpoints.
bool is_checkpoint(const std::string& path);

// Returns how to load the weights in the folder `path` if it holds no checkpoint, but weights under
// other names than model.safetensors: "give the file itself: hf/vit.safetensors". Otherwise "".
std::string advice_for_weights_in(const std::string& path);

}  // namespace bv

// Weights in any format that is read: which one it is, where the parameters lie in it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/ckpt/tensors.h"

namespace bv {

// The parameters of `path`, by the names they have there:
//   a bvtrain checkpoint, its ckpt/ folder or its workdir (params/..., buffers/...)
//   an npz file of big_vision (reference 10.1): params/..., else opt/target/..., else all of it
//   a safetensors file, or a folder with a model.safetensors
// Parameters stand there without their root, buffers (running statistics) as "buffers/...". A
// suffix ":sub/tree" selects what lies below that name, in place of the root or below it; one that
// is none is answered with those there are.
//
// What a file is is told by its content. Pickles (.pth, .pt, .bin, .ckpt, .pkl) are refused with
// how to convert them; nothing of them is executed. An npz whose wanted arrays unpack to more than
// 256 MiB + 4 * `model_bytes` is refused before any is. Throws Error(Exit::usage).
NamedTensors read_weights(const std::string& path, uint64_t model_bytes);

// What can be seen of `path` without reading arrays: that it exists, its format, its table of
// contents, that there is something below ":sub/tree". Throws Error(Exit::usage) as read_weights().
void peek_weights(const std::string& path);

// Whether `path` is a folder with checkpoints of a run rather than weights alone.
bool is_checkpoint(const std::string& path);

}  // namespace bv

// How ops name and find the tensors of an example.
#pragma once

#include <string>

#include "lib/config/config.h"
#include "lib/input/example.h"

namespace bv {

// The keys that an op reads and writes: the arguments `key` (for both) or `inkey` and `outkey`, as
// in big_vision's pp/utils.py `InKeyOutKey`.
struct InOutKeys {
  InOutKeys() = default;
  // Reads the keyword arguments. Call it after the op's own arguments have been read: `args` then
  // reports positional arguments that are left.
  explicit InOutKeys(const Config& args, const char* default_key = "image");

  std::string in = "image", out = "image";
};

// Returns the tensor of `key`. Throws Error(Exit::usage) "<op>: no key ..." that lists the keys of
// the example.
at::Tensor& require_tensor(Example& example, const std::string& key, const char* op);

}  // namespace bv

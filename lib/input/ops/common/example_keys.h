// How ops name and find the tensors of an example.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
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
// The rows of these arguments. in, out: the features that the op takes by default, as "= image".
constexpr std::array<KeyText, 3> in_out_key_texts(std::string_view in = "= image",
                                                  std::string_view out = "= image") {
  return {{
      {"key", "string", "none",
       "The feature to read and replace, passed by name as in key='mask'. If it is given, inkey "
       "and outkey have no effect."},
      {"inkey", "string", in, "The feature to read, passed by name as in inkey='mask'."},
      {"outkey", "string", out,
       "The feature to write, passed by name as in outkey='mask'. Its default does not depend on "
       "inkey."},
  }};
}

// Returns the tensor of `key`. Throws Error(Exit::usage) "<op>: no key ..." that lists the keys of
// the example.
at::Tensor& require_tensor(Example& example, const std::string& key, const char* op);

}  // namespace bv

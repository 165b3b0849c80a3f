// Where the arrays made by the reference's code lie.
#pragma once

#include <optional>
#include <string>

#include "test/shared.h"

namespace bv {

// The folder that has "train/sgd.npz"; nullopt (and a printed line) where there is none.
inline std::optional<std::string> golden_folder(const std::string& name) {
  const std::string file = shared_file("golden/" + name);
  if (file.empty()) return std::nullopt;
  return file.substr(0, file.size() - name.size() - 1);
}

}  // namespace bv

// Helpers for checkpoint tests besides test/support: forked children, damaged files, the content of
// folders, and shapes.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <string>

#include "lib/ckpt/layouts/layouts.h"
#include "test/support/child.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

// Returns `content` with one to three random changes: a byte set, a bit flipped, the end cut off,
// bytes repeated or removed.
inline std::string mutated(std::string content, std::mt19937& random) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const int changes = 1 + static_cast<int>(below(3));
  for (int i = 0; i < changes && !content.empty(); ++i) {
    const size_t at = below(content.size());
    switch (below(6)) {
      case 0:
        content[at] = static_cast<char>(below(256));
        break;
      case 1:
        content[at] = static_cast<char>(content[at] ^ (1 << below(8)));
        break;
      case 2:
        content[at] = "\x00\xff\x7f\x80"[below(4)];
        break;
      case 3:
        content.resize(at);
        break;
      case 4:
        content.insert(at, content.substr(at, 1 + below(8)));
        break;
      default:
        content.erase(at, 1 + below(8));
        break;
    }
  }
  return content;
}

// Returns the names of what is in a folder.
inline std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder))
    names.insert(item.path().filename());
  return names;
}

inline Shapes shapes_of(const NamedTensors& tree) {
  Shapes shapes;
  for (const auto& [name, value] : tree) shapes[name] = value.sizes().vec();
  return shapes;
}

}  // namespace bv::test

#include "lib/input/cache/cache_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace bv {
namespace {

// Returns the number after `key` in a file of lines "<key> 123 ..." below /proc or /sys.
std::optional<double> number_of(const std::string& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr);
  }
  return std::nullopt;
}

// Returns the unused part of a control group's limit; nullopt if it has none. Cached files count as
// free: the kernel drops them when memory is needed.
std::optional<double> left_of_group(const std::string& group) {
  const auto limit = number_of(group + "/memory.max", "");
  const auto used = number_of(group + "/memory.current", "");
  if (!limit || !used || *limit <= 0) return std::nullopt;  // "max" is read as 0
  const double cached = number_of(group + "/memory.stat", "inactive_file ").value_or(0) +
                        number_of(group + "/memory.stat", "active_file ").value_or(0);
  return std::max(*limit - *used + cached, 0.0);
}

}  // namespace

std::optional<double> available_memory(const std::string& root) {
  std::optional<double> least;
  const auto take = [&](const std::optional<double>& bytes) {
    if (bytes && (!least || *bytes < *least)) least = bytes;
  };
  if (const auto kib = number_of(root + "proc/meminfo", "MemAvailable:")) take(1024 * *kib);
  // Control groups version 2. A process is limited by its own group and all parent groups.
  std::ifstream in(root + "proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  while (!path.empty()) {
    take(left_of_group(root + "sys/fs/cgroup" + path));
    if (path == "/") break;
    path.resize(std::max<size_t>(path.rfind('/'), 1));
  }
  return least;
}

}  // namespace bv

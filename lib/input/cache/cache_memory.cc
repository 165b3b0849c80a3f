#include "lib/input/cache/cache_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "lib/util/control_groups.h"

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

// The names of control group files in versions 1 and 2.
struct GroupFiles {
  const char *limit, *used, *prefix;  // the last one: of the lines in memory.stat
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", ""};

// Returns the unused part of a control group's limit; nullopt if it has none. Cached files count as
// free: the kernel drops them when memory is needed.
std::optional<double> left_of_group(const std::string& group, const GroupFiles& files) {
  const auto limit = number_of(group + files.limit, "");
  const auto used = number_of(group + files.used, "");
  if (!limit || !used || *limit <= 0) return std::nullopt;  // "max" is read as 0
  const auto cached = [&](const std::string& line) {
    return number_of(group + "/memory.stat", files.prefix + line).value_or(0);
  };
  return std::max(*limit - *used + cached("inactive_file ") + cached("active_file "), 0.0);
}

}  // namespace

std::optional<double> available_memory(const std::string& root) {
  std::optional<double> least;
  const auto take = [&](const std::optional<double>& bytes) {
    if (bytes && (!least || *bytes < *least)) least = bytes;
  };
  if (const auto kib = number_of(root + "proc/meminfo", "MemAvailable:")) take(1024 * *kib);
  for (const ControlGroup& group : control_groups("memory", root))
    take(left_of_group(group.folder, group.version == 1 ? kVersion1 : kVersion2));
  return least;
}

}  // namespace bv

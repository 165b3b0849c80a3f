#include "lib/util/control_groups.h"

#include <algorithm>
#include <fstream>

#include "lib/util/text.h"

namespace bv {

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  const auto add = [&](const std::string& mount, std::string path, int version) {
    while (path.starts_with('/')) {
      groups.push_back({path == "/" ? mount : mount + path, version});
      if (path == "/") break;
      path.resize(std::max<size_t>(path.rfind('/'), 1));
    }
  };
  std::ifstream in(root + "proc/self/cgroup");
  for (std::string line;
       std::getline(in, line);) {  // "0::/a/b", or "5:cpu,cpuacct:/a/b" in version 1
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> all = split(names, ',');
    if (names.empty()) add(root + "sys/fs/cgroup", line.substr(second + 1), 2);
    if (std::ranges::find(all, controller) != all.end())
      add(root + "sys/fs/cgroup/" + std::string(controller), line.substr(second + 1), 1);
  }
  return groups;
}

}  // namespace bv

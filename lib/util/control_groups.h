// The control groups (cgroups) of this process, which limit its memory and CPU time: those of a
// container, a service or a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bv {

struct ControlGroup {
  std::string folder;  // with the group's files
  int version;         // 1 or 2: the names of the files differ
};

// Returns the groups whose `controller`, such as "memory", applies to this process: its own group
// and all parent groups. `root`: where /proc and /sys are, with a final slash.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root);

}  // namespace bv

// Which schedule, learning rate and weight decay each parameter gets: the keys `schedule`, `lr`,
// `lr_mults`, `wd`, `wd_mults` (reference section 6).
//
// Patterns are regular expressions (ECMAScript grammar) that must match a parameter's full name,
// "head/kernel"; the first that matches wins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/optim/optimizer.h"
#include "lib/optim/schedule.h"
#include "lib/params/flat_params.h"

namespace bv {

struct ParamGroups {
  struct Group {  // parameters that are updated alike
    int schedule = 0;
    float lr_mult = 1, weight_decay = 0;
    bool operator==(const Group&) const = default;
  };

  float lr = 0;
  std::vector<Schedule> schedules;  // the entries of `schedule` that are not null, in file order
  std::vector<Group> groups;
  std::vector<int> group_of;  // parameter to group, in the order of the names; or kFrozen
};

// Reads the keys for parameters of these names. Records problems with the config and throws
// Error(Exit::usage) where it can't go on.
ParamGroups read_groups(const Config& config, const std::vector<std::string>& names,
                        const RunLength& length);

// The groups as ranges of the flat buffers: those that this rank updates.
std::vector<UpdateRange> update_ranges(const ParamGroups& groups, const FlatParams& params);

}  // namespace bv

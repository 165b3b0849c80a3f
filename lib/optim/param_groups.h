// Which schedule, learning rate multiplier and weight decay each parameter gets: the config keys
// `lr`, `lr_mults`, `wd`, `wd_mults` and `schedule`. Follows optax.py `make` of big_vision.
//
// A pattern is a regular expression (ECMAScript grammar) that must match the full name of a
// parameter ("head/kernel"). The first pattern that matches wins.
#pragma once

#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/optim/optimizer.h"
#include "lib/optim/schedule.h"
#include "lib/params/flat_params.h"

namespace bv {

struct ParamGroups {
  struct Group {       // parameters that share these settings
    int schedule = 0;  // index into `schedules`
    float lr_mult = 1;
    float weight_decay = 0;  // wd times its multiplier
    bool operator==(const Group&) const = default;
  };

  float lr = 0;
  std::vector<Schedule> schedules;  // the entries of `schedule` that are not null, in config order
  std::vector<Group> groups;
  std::vector<int> group_of;  // by index of the parameter: index into `groups`, or kFrozen
};

// Reads the keys for the parameters `names`. Records problems with the config; throws
// Error(Exit::usage) if it cannot continue.
ParamGroups read_groups(const Config& config, const std::vector<std::string>& names,
                        const RunLength& length);

// The parameters that the groups freeze lose requires_grad. FlatParams does the same; this is for
// code that runs before it. `groups`: of all parameters of the model.
void freeze_parameters(const ParamGroups& groups, const Model& model);
// The same for the parameters that the `schedule` of a valid config freezes.
void freeze_parameters(const Config& config, const Model& model);

// Returns the ranges of the flat buffers that this rank updates, with their groups' settings.
std::vector<UpdateRange> update_ranges(const ParamGroups& groups, const FlatParams& params);

}  // namespace bv

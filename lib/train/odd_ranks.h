// Ranks that compute something else than others on devices of the same kind: their device or its
// memory is faulty.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/distributed/group.h"

namespace bv {

// What one rank tells the others.
struct RankFacts {
  std::string device;  // its kind
  std::string host;
  std::vector<std::string> values;
};

// Returns the ranks whose first value differs from that of the majority, in ascending order, or all
// ranks if there is no majority.
std::vector<int> differing_ranks(const std::vector<RankFacts>& ranks);

// The values are the fused kernels that are wrong on a rank's device. Returns each rank with such a
// kernel that is right on another device of the same kind, and the first of these kernels.
std::map<int, std::string> ranks_with_odd_kernels(const std::vector<RankFacts>& ranks);

// Compares the fused kernels that the first forward pass has checked. All ranks call it before
// backward: a rank with other kernels may finish its gradients in another order, and the
// collectives of the ranks would no longer match. Throws Error, with Exit::internal on the ranks of
// ranks_with_odd_kernels() and Exit::peer on the others, if there are such ranks.
void compare_kernels(Group& group, c10::Device device);

// All ranks call it together once they know that their digests (TrainStep::digest()) of the state
// after `step` differ. If all devices are of one kind, it throws Error, with Exit::internal on the
// ranks that differ from the majority, and with Exit::peer on the others, or on all ranks if there
// is no majority; its message ends with `advice`. Otherwise they may round differently, and it
// returns.
void report_odd_states(Group& group, c10::Device device, int64_t step, int64_t digest,
                       const std::string& advice);

}  // namespace bv

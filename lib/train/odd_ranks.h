// Finds ranks whose results differ from those of other ranks on devices of the same kind: the
// device of such a rank, or the memory of the device, is faulty.
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
  std::vector<std::string> values;  // what is compared
};

// Returns the ranks whose first value differs from that of the majority, in ascending order, or all
// ranks if there is no majority.
std::vector<int> differing_ranks(const std::vector<RankFacts>& ranks);

// The values of a rank are the fused kernels that are wrong on the rank's device. Such a kernel is
// odd if it is right on another device of the same kind. Returns the ranks that have odd kernels,
// each with the name of its first odd kernel.
std::map<int, std::string> ranks_with_odd_kernels(const std::vector<RankFacts>& ranks);

// Compares the fused kernels that the first forward pass has checked. All ranks must call it before
// the backward pass: a rank that uses other kernels may finish its gradients in another order, and
// then the collectives of the ranks would not match. Throws Error if a rank has odd kernels
// (ranks_with_odd_kernels()): with Exit::internal on the ranks that have them, and with Exit::peer
// on the other ranks.
void compare_kernels(Group& group, c10::Device device);

// All ranks must call it together once they know that their digests (TrainStep::digest()) of the
// state after `step` differ. Returns if the devices are of different kinds, because such devices
// may round differently. Otherwise throws Error, with a message that ends with `advice`. The exit
// code is Exit::internal on the ranks that differ from the majority, and Exit::peer on the other
// ranks. Without a majority it is Exit::peer on all ranks.
void report_odd_states(Group& group, c10::Device device, int64_t step, int64_t digest,
                       const std::string& advice);

}  // namespace bv

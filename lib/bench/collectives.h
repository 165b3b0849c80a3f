// The measurement behind `bvtrain bench collectives`: how long the collectives of a training step
// take by size, and the link bandwidth and latency that `bench scaling` takes as input.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lib/bench/step_time.h"
#include "lib/distributed/group.h"

namespace bv {

// Median seconds of each collective on this rank, for a full tensor of `bytes` bytes.
struct CollectiveTimes {
  int64_t bytes = 0;
  double all_reduce = 0, reduce_scatter = 0, all_gather = 0;
};

// Measures sizes from 4 KiB to `most_bytes`, each four times the last, of tensors on `device`, and
// passes each result to `report` at once. Every rank of `group` must call this.
void measure_collectives(Group& group, c10::Device device, int64_t most_bytes,
                         const std::function<void(const CollectiveTimes&)>& report);

// Estimates a link from the all-reduce times of the smallest and the largest size, assuming rings
// of `ranks` ranks on one host. Returns nothing if the largest took no longer than the smallest.
std::optional<Link> estimate_link(const CollectiveTimes& smallest, const CollectiveTimes& largest,
                                  int ranks);

}  // namespace bv

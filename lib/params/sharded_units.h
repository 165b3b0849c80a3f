// Runs the collectives of sharded training (zero1, zero2, fsdp) and gives the full parameters and
// gradients memory only while they are needed, following FSDP (Zhao et al. 2023).
//
// A unit is a part of the model that forward() runs as a whole, such as an encoder block
// (Model::units()). A segment is a group of parameters that are cut into shards together, one
// shard for each rank (FlatParams::Segment). With fsdp, the trainable parameters of a unit are one
// segment and its frozen ones another; with zero1 and zero2, a segment is a bucket of about
// bucket_mb.
//
// Forward (fsdp): the parameters of a unit are all-gathered when the pass enters it, while those of
// the next unit are already on their way; they are freed when the pass leaves it. Backward: they
// are gathered again when the gradient of the unit's output is ready, while those of the previous
// unit are on their way, and freed when the gradient of its input is ready. Parameters outside all
// units (the "root", in FSDP's term) stay gathered from begin() to end().
//
// Gradients (zero2, fsdp) get memory with the first gradient of their segment. After the last one
// they are reduce-scattered into each rank's shard, and their memory is freed. With gradient
// accumulation this happens once per micro-batch. With zero1 every rank holds full gradients:
// GradientBuckets all-reduces them, as without sharding, and each rank updates only its shard of
// the parameters. After the update, all_gather_parameters() gives every rank the full zero1 and
// zero2 parameters.
//
// Collectives are started in the order of the graph, which is the same on all ranks.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "lib/distributed/group.h"
#include "lib/model/unit_hooks.h"
#include "lib/params/flat_params.h"

namespace bv {

class ShardedUnits : public UnitHooks {
 public:
  // Hooks into the gradients of `params`. Both arguments must outlive this object.
  ShardedUnits(FlatParams& params, Group& group);
  ~ShardedUnits() override;

  void begin() override;
  void end() override;
  void enter(int unit, const at::Tensor& x) override;
  void leave(int unit, const at::Tensor& y) override;

  // Call before each backward pass. With `accumulate`, the new gradients are added to the shards in
  // params.grads(); otherwise they overwrite them.
  void begin_gradients(bool accumulate);
  // Call after each backward pass: reduce-scatters the segments that did not get all of their
  // gradients, and waits for all segments.
  void finish_gradients();

  // All-gathers the zero1 and zero2 parameters in params.data() after each rank has updated its
  // shards of them.
  void all_gather_parameters();

 private:
  // The collectives of one segment.
  struct SegmentWork {
    Group::Pending all_gather, reduce_scatter;
    bool gathering = false;  // the all-gather has been started and not waited for
    int parameters = 0;      // that have a sharded gradient
    int missing = 0;         // gradients that have not arrived in this backward pass
    bool reduced = false;    // the reduce-scatter has been started in this backward pass
    at::Tensor to_add;       // with accumulation: receives the reduce-scatter
    std::string gather_name, reduce_name;
  };
  void start_all_gather(int unit);  // does nothing if it is gathered or on its way
  void gather(int unit);            // returns when the parameters are ready
  void free_parameters(int unit);
  void on_gradient_begin(int segment);  // before autograd adds the gradient of a parameter
  void on_gradient_ready(int segment);  // afterwards
  void start_reduce_scatter(int segment);
  void wait_for_reduce_scatters(size_t max_in_flight);
  at::Tensor shard_of(const at::Tensor& flat, int64_t offset, int segment) const;
  void hook(const FlatParams::Entry& entry);

  FlatParams& params_;
  Group& group_;
  const int root_;  // stands for the parameters outside all units: the number of units
  std::vector<std::vector<int>> segments_of_unit_;  // fsdp segments
  std::vector<SegmentWork> work_;                   // one per segment
  std::vector<bool> in_backward_;  // the current pass's backward will run through this unit
  bool accumulate_ = false;
  std::deque<int> reducing_;  // segments whose reduce-scatter has been started
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
};

}  // namespace bv

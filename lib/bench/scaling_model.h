// What a training step of a config's model computes and sends, as input for lib/bench/step_time.h.
// Nothing is computed: the model is built on the meta device. Its parameters, units and gradient
// buckets are those of a real run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/bench/step_time.h"
#include "lib/config/config.h"

namespace bv {

class ScalingModel {
 public:
  // Builds the model of `config`, which must outlive this object. `synthetic` is as for Recipe.
  // Throws Error(Exit::usage).
  ScalingModel(const Config& config, bool synthetic);
  ~ScalingModel();

  const std::string& model_name() const;
  int64_t parameters() const;
  double macs() const;  // multiply-accumulates of one example, forward only
  int64_t batch_size() const;

  // Returns the work of one of `ranks` ranks that needs `compute` seconds for forward and backward
  // of its `examples` examples, and for the optimizer `update` seconds if it updates all parameters
  // alone. The seconds of forward are divided over the units in proportion to their
  // multiply-accumulates; backward takes twice as long as forward; the gradients of a unit become
  // ready during its backward, in proportion to their size. Throws Error(Exit::usage) if the config
  // does not work with this number of ranks.
  StepWork work(int ranks, int64_t examples, double compute, double update) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

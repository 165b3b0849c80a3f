// What a step of a config's model computes and sends, for the predictions of lib/bench/cost.h.
// Nothing is computed: the model is built on the meta device, its parameters, units and buckets are
// those of a run.
#pragma once

#include <memory>
#include <string>

#include "lib/bench/cost.h"
#include "lib/config/config.h"

namespace bv {

class Scaling {
 public:
  // As Recipe; `config` must outlive this.
  Scaling(const Config& config, bool synthetic);
  ~Scaling();

  const std::string& model_name() const;
  int64_t parameters() const;
  double macs() const;  // multiply-accumulates of an example, forward
  int64_t batch_size() const;

  // A step of one of `ranks`: `compute` seconds for forward and backward of its `examples`,
  // `update` seconds for the optimizer on all of the parameters.
  //
  // Units share `compute` by their multiply-accumulates, backward takes twice as long as forward,
  // and the gradients of a unit come as its backward goes on, in proportion to their size. Throws
  // the problems of the config with so many ranks.
  StepWork work(int ranks, int64_t examples, double compute, double update) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

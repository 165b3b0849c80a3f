// Evaluators: one file each, named after `evals.<any>.type`. Reference section 13.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/config/registry.h"
#include "lib/input/loader.h"
#include "lib/report/metrics.h"
#include "lib/tasks/task.h"

namespace bv {

// What an evaluator may know when it is built.
struct EvalEnv {
  std::string name;        // its key in `evals`
  int64_t batch_size = 0;  // default for its `batch_size`
  int threads = 1;
  uint64_t seed = 0;
  DataEnv data;
};

// What it gets when it runs.
struct EvalContext {
  int64_t step = 0;
  // The prediction function `pred`, bound to model, precision and parameters; no gradients.
  std::function<Outputs(const Batch&)> predict;
  std::function<void(EvalDetails)> details;  // for the report; may be empty
  std::function<void()> poll;                // called once a batch: throws on a signal
};

class Evaluator {
 public:
  using Registry = bv::Registry<Evaluator, EvalEnv>;
  static constexpr const char* kKind = "evaluator";
  virtual ~Evaluator() = default;

  // Opens the data and returns its first n examples (fewer if there are fewer) as a batch: what the
  // start of a run and --dry-run check. Throws Error(Exit::usage).
  virtual Batch probe(int64_t n) = 0;
  virtual int64_t examples() const = 0;  // of a pass; 0 before probe()
  virtual void run(const EvalContext& context, const Measure& emit) = 0;
};

// The input side that evaluators share: reads `data`, `pp_fn`, `batch_size`, `prefetch` and
// `threads`; opens nothing until first used.
class EvalInput {
 public:
  EvalInput(const Config& config, const EvalEnv& env);
  ~EvalInput();

  Batch probe(int64_t n);
  int64_t examples() const;
  const Dataset& data();
  // Runs `each` over every batch of one pass and checks that every example was seen exactly once.
  void for_each(const EvalContext& context, const std::function<void(const Batch&)>& each);

 private:
  std::function<std::shared_ptr<const Dataset>()> open_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Pipeline> pp_;
  LoaderOptions options_;
  std::unique_ptr<Loader> loader_;  // kept between passes: its threads and memory are reused
};

}  // namespace bv

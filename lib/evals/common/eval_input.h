// The data of an evaluator: reads the keys `evals.*.data`, `pp_fn`, `batch_size`, `prefetch`,
// `threads` and `skip_errors`, and yields the batches of one pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/evals/evaluator.h"
#include "lib/input/loader/loader.h"

namespace bv {

// Reads the keys that all evaluators with data share: batch_size (default: env.batch_size),
// prefetch (1), threads (env.threads) and skip_errors. Records problems with the config.
LoaderOptions read_eval_loader(const Config& config, const EvalEnv& env);

// Opens no file before its first use.
class EvalInput {
 public:
  // Reads `data` (a section {name, split, ...}), `pp_fn` and the keys of read_eval_loader().
  // Records problems with the config, also those of the source: see prepared().
  EvalInput(const Config& config, const EvalEnv& env);
  // For evaluators with several inputs: `data` is the section of this one.
  EvalInput(const Config& data, std::shared_ptr<const Pipeline> pp, const LoaderOptions& options,
            const DataEnv& env);
  EvalInput(EvalInput&&) noexcept;
  ~EvalInput();

  // Opens the data and returns its first n examples as a batch, or all of them if there are fewer.
  // Checks a few more examples too. Throws Error(Exit::usage) if the data cannot be opened or
  // examples have different shapes, Error(Exit::data) if more examples fail than skip_errors
  // allows.
  Batch probe(int64_t n);
  // Returns whether the data can be opened: its keys are right.
  bool prepared() const { return open_ != nullptr; }
  // Returns the number of examples, 0 before the data is open.
  int64_t examples() const;
  // Returns the data set, before preprocessing. Opens it if necessary.
  const Dataset& data();

  // Calls `each` with every batch of one pass, in the order of the data. All ranks must call this;
  // each rank gets its part of every batch, and all ranks get the same number of batches. Checks
  // that the ranks together saw every example exactly once. Throws Error(Exit::data) if more
  // examples fail than skip_errors allows.
  void for_each(const EvalContext& context, const std::function<void(const Batch&)>& each);

  // Frees the threads and batches, which otherwise stay between passes.
  void release() { loader_.reset(); }

 private:
  std::function<std::shared_ptr<const Dataset>()> open_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Pipeline> pp_;
  LoaderOptions options_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace bv

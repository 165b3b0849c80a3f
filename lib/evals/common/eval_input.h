// The data of an evaluator: reads the keys `evals.*.data`, `pp_fn`, `batch_size`, `prefetch`,
// `threads` and `skip_errors`, and yields the batches of one pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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
  // For evaluators with several inputs: `data` is the section of this one, and `part` its name in
  // the list of skipped examples ("evals.<name>.<part>").
  EvalInput(const Config& data, std::shared_ptr<const Pipeline> pp, const LoaderOptions& options,
            const DataEnv& env, const std::string& part = "");
  EvalInput(EvalInput&&) noexcept;
  ~EvalInput();

  // Opens the data and returns its first n examples as a batch, or all of them if there are fewer.
  // Checks a few more examples too. Throws Error(Exit::usage) if the data cannot be opened, if
  // examples differ in shape or have a label out of range, or if more fail than skip_errors allows.
  Batch probe(int64_t n);
  // Returns whether the data can be opened: its keys are right.
  bool prepared() const { return open_ != nullptr; }
  // Returns the number of examples, 0 before the data is open.
  int64_t examples() const;
  // Returns the data set, before preprocessing. Opens it if necessary.
  const Dataset& data();
  // Renumbers the labels by the names of another input's classes. For data whose classes are not
  // those of the run; call it before the data is open. `owner` names the other data in messages.
  void match_classes(EvalInput& other, const std::string& owner);

  // Calls `each` with every batch of one pass, in the order of the data. All ranks must call this;
  // each rank gets its part of every batch, and all ranks get the same number of batches. Checks
  // that the ranks together saw every example exactly once, and reports those that were left out to
  // context.left_out. Throws Error(Exit::data) if more examples fail than skip_errors allows.
  void for_each(const EvalContext& context, const std::function<void(const Batch&)>& each);

  // Frees the threads and batches, which otherwise stay between passes.
  void release() { loader_.reset(); }

 private:
  OpenDataset open_;
  std::optional<ClassNames> classes_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Pipeline> pp_;
  LoaderOptions options_;
  std::string name_;  // "evals.<name>" or "evals.<name>.<part>"
  std::unique_ptr<Loader> loader_;
};

}  // namespace bv

// The data of an evaluator: reads the keys that describe them and yields the batches of one pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/config/key_table.h"
#include "lib/evals/evaluator.h"
#include "lib/input/loader/loader.h"
#include "lib/input/quarantine.h"

namespace bv {

// The keys of read_eval_loader(), which all evaluators with data share.
inline constexpr KeyText kEvalLoaderKeys[] = {
    {"batch_size", "int >= 1", "= batch_size_eval",
     "Upper limit of the batch size, which counts the examples of all processes; a multiple of the "
     "number of processes. It affects speed and memory, not results. Evaluation needs less memory "
     "than training, so larger batches fit. The batches are as small as their number allows, so "
     "that little is padded: 50 examples with `batch_size: 48` are two batches of 25."},
    {"prefetch", "int 0..4096", "1",
     "Number of batches to prefetch while the model computes, so that slow files do not stall the "
     "evaluation. Each takes the memory of one batch. With 0 a batch is prepared when it is "
     "needed."},
    {"threads", "int 1..4096", "= input.threads",
     "Number of threads per process that read and preprocess examples.", "", "-"},
    skip_errors_key(
        "Number of unreadable examples, such as broken files, that one evaluation may skip, over "
        "all processes: `true` allows any number, 0 or `false` none. The file `skipped.jsonl` in "
        "the workdir lists them, and the metric `errors` is then their number.",
        "-"),
    kQuarantineKey,
    {"cache", "any", "none",
     "Has no effect and gives a warning. An evaluator keeps its threads and buffers between "
     "evaluations, and the operating system caches files that are read again."},
    {"cache_final", "any", "none",
     "Has no effect and gives a warning. Examples are preprocessed again for each evaluation; "
     "raise `threads` if that takes too long."},
    {"cache_raw", "any", "none",
     "Has no effect and gives a warning. The operating system caches files that are read again."},
    {"warmup", "any", "none", "Has no effect and gives a warning. An evaluator needs no warm-up."},
};
// The keys of EvalInput's first constructor, in addition to those of read_eval_loader().
inline constexpr KeyText kEvalDataKeys[] = {
    {"data", "map of input.data", "required",
     "Data set to evaluate on, with the same keys as `input.data`. If it and the training data "
     "name their classes, its labels are matched with theirs by name.",
     "{name: image_folder, data_dir: data/pets, split: val}"},
    {"pp_fn", "string", "\"\"",
     "Preprocessing of each example: ops as in `input.pp`, without random augmentation. They must "
     "produce a float `image` of one size for all examples, and the labels that the evaluator "
     "needs.",
     "decode|resize(224)|value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")"},
};

// How the data of an evaluator are loaded.
struct EvalLoaderOptions : LoaderOptions {
  std::shared_ptr<const Quarantine> quarantine;  // what is excluded; may be null
  bool keep_broken = false;                      // see SourceEnv
  std::string label_key = "labels";              // the feature with the labels, after pp
};

// Reads kEvalLoaderKeys. Records problems with the config.
EvalLoaderOptions read_eval_loader(const Config& config, const EvalEnv& env,
                                   const std::string& label_key = "labels");

// Opens no file before its first use.
class EvalInput {
 public:
  // Reads kEvalDataKeys and kEvalLoaderKeys. Records problems with the config, also those of the
  // source: see prepared(). Labels are matched with the classes of the run if pp makes the feature
  // `label_key` from them.
  EvalInput(const Config& config, const EvalEnv& env, const std::string& label_key = "labels");
  // For evaluators with several inputs: `data` is the section of this one, and `part` its name in
  // the list of skipped examples ("evals.<name>.<part>").
  EvalInput(const Config& data, std::shared_ptr<const Pipeline> pp,
            const EvalLoaderOptions& options, const DataEnv& env, const std::string& part = "");
  EvalInput(EvalInput&&) noexcept;
  ~EvalInput();

  // Opens the data and returns the first example and n - 1 others as a batch, always the same ones,
  // or all of them if there are fewer. Checks a few more examples too. Throws Error(Exit::usage) if
  // the data cannot be opened, if examples differ in shape or have a label out of range, or if more
  // fail than skip_errors allows before one can be read.
  Batch probe(int64_t n);
  // Returns whether the keys of the data are valid, so that data() can open it.
  bool prepared() const { return open_ != nullptr; }
  // Returns "evals.<name>" or "evals.<name>.<part>".
  const std::string& name() const { return name_; }
  // Returns the number of examples, 0 before the data is open.
  int64_t examples() const;
  // Return those of Dataset, 0 before the data is open.
  uint64_t fingerprint() const;
  uint64_t content() const;
  // Returns the data set, before preprocessing. Opens it if necessary.
  const Dataset& data();
  // Returns the names of the classes of the feature `label_key` after preprocessing. Empty if they
  // are not known, for example because pp makes it from another feature than `label`. Opens the
  // data if necessary.
  std::vector<std::string> class_names(const std::string& label_key);
  // Finds the example with the largest label in the data. Returns its index and the class number
  // that pp puts under `key` for it. Returns nullopt if the data does not know its labels, if pp
  // gives no class number under `key`, or if the example cannot be used. Opens the data if
  // necessary.
  std::optional<std::pair<int64_t, int64_t>> largest_label(const std::string& key);
  // Renumbers the labels by the names of another input's classes. For data whose classes are not
  // those of the run; call it before the data is open. `owner` names the other data in messages.
  void match_classes(EvalInput& other, const std::string& owner);

  // Calls `each` with every batch of one pass, in the order of the data. All ranks must call this;
  // each rank gets its part of every batch, and all ranks get the same number of batches. Checks
  // that the ranks together saw every example exactly once, and reports those that were skipped to
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
  bool numbers_;  // the labels are regression targets; false for data with its own classes
  std::string name_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace bv

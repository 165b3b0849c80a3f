// fewshot_lsr: accuracy of a linear regression fitted to the representations of a few examples per
// class. Follows big_vision's evaluators/fewshot_lsr.py, class Evaluator; a list of l2_reg and data
// sets given as mappings are not in big_vision.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/least_squares.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/common/representation.h"
#include "lib/evals/evaluator.h"
#include "lib/input/data_pair.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable fewshot_lsr_keys(
    "evals.*: fewshot_lsr",
    {"Measures how useful the model's representations are for new classes: it fits a linear "
     "regression to a few examples per class of another data set. The metric "
     "`<dataset>_<n>shot-seed-<seed>` is the accuracy on the test split after fitting to n "
     "examples per class, which each seed chooses at random. With several `l2_reg` it ends in "
     "`-l2-<value>`. Its prefix is `a/` if `display_first` names it, otherwise `z/`.",
     "type: fewshot_lsr\n"
     "datasets:\n"
     "  digits: [digits, train, test]\n"
     "pp_train: value_range(-1, 1)|keep(\"image\", \"label\")\n"
     "pp_eval: value_range(-1, 1)|keep(\"image\", \"label\")\n"
     "representation_layer: pre_logits\n"
     "shots: [1, 5]",
     "evaluators/fewshot_lsr.py Evaluator"},
    {{"datasets", "map of ([string, string, string] | map of evals.*.datasets.*)", "required",
      "Data sets, under names of your choice that the metrics contain. Each is a list [source, "
      "training split, test split], or a mapping with `train` and `test` if the source needs more "
      "keys. They need not have the classes of the training data.",
      "{digits: [digits, train, test]}"},
     {"data_dir", "string", "\"\"",
      "The `data_dir` of the data sets that are given as lists. Leave it out for sources without a "
      "folder.",
      "data/cifar100"},
     {"pp_train", "string", "\"\"",
      "Preprocessing of the training splits: ops as in `input.pp`. They must produce a float "
      "`image` of one size for all examples, and the `label`, the class as a number.",
      "decode|resize(224)|value_range(-1, 1)|keep(\"image\", \"label\")"},
     {"pp_eval", "string", "\"\"",
      "Preprocessing of the test splits, usually the same as `pp_train`.",
      "decode|resize(224)|value_range(-1, 1)|keep(\"image\", \"label\")"},
     {"shots", "list of int >= 1", "[1, 5, 10, 25]",
      "Numbers of training examples per class; each gives a metric. A class with fewer examples "
      "uses all of them."},
     {"l2_reg", "float >= 0 | list of float >= 0", "1024",
      "Strength of the L2 regularization; 0 turns it off. The default suits most models. A list "
      "measures each value."},
     {"num_seeds", "int >= 1", "3",
      "Number of random choices of training examples. More choices show the spread, and their mean "
      "is steadier."},
     {"display_first", "list of [string, int]", "[]",
      "Pairs of a data set and a number of shots whose metrics begin with `a/` instead of `z/`. "
      "They then come first in sorted lists of metrics.",
      "[[digits, 5]]"}},
    kRepresentationKeys, kEvalLoaderKeys);
const KeyTable dataset_keys(
    "evals.*.datasets.*",
    {"A data set for few-shot classification. The labels of its splits are matched by class names, "
     "if both have names.",
     "train: {name: digits, split: train}\n"
     "test: {name: digits, split: test}"},
    {{"train", "map of input.data", "required",
      "Split from which the few examples per class are chosen, with the same keys as `input.data`.",
      "{name: digits, split: train}"},
     {"test", "map of input.data", "required",
      "Split on which the accuracy is measured, with the same keys as `input.data`.",
      "{name: digits, split: test}"}});

// The two splits of a data set.
struct TrainAndTest {
  std::string name;
  EvalInput train, test;
};

// Returns the first line of the message, without the place in the config.
std::string reason(const Error& error) {
  const std::string line = bv::split(error.message(), '\n').at(0);
  return error.component().empty() ? line : fmt::format("[{}] {}", error.component(), line);
}

class FewshotLsr : public Evaluator {
 public:
  FewshotLsr(const Config& config, const EvalEnv& env)
      : name_(env.name),
        data_dir_(config.get("data_dir", "")),
        keys_(config, env.name),
        options_(read_eval_loader(config, env, keys_.label_key)),
        data_env_(env.data),
        shots_(config.get("shots", std::vector<int64_t>{1, 5, 10, 25})),
        l2_(config.is_list("l2_reg") ? config.get<std::vector<double>>("l2_reg")
                                     : std::vector<double>{config.get<double>("l2_reg", 1024.0)}),
        num_seeds_(config.get<int64_t>("num_seeds", 3)) {
    data_env_.source.num_classes = 0;  // these data sets have their own classes
    data_env_.classes.reset();
    if (shots_.empty() || *std::min_element(shots_.begin(), shots_.end()) < 1)
      config.problem("shots", "must be positive numbers of examples");
    if (l2_.empty() || !std::all_of(l2_.begin(), l2_.end(), [](double l2) { return l2 >= 0; }))
      config.problem("l2_reg", "must not be negative");
    if (num_seeds_ < 1) config.problem("num_seeds", "must be positive");
    const auto pp_train = std::make_shared<Pipeline>(config, "pp_train");
    const auto pp_eval = std::make_shared<Pipeline>(config, "pp_eval");
    read_datasets(config, pp_train, pp_eval);
    read_display_first(config);
  }

  Batch probe(int64_t n) override {
    Batch first;
    for (TrainAndTest& pair : pairs_) {
      pair.test.match_classes(pair.train, fmt::format("the train split of '{}'", pair.name));
      for (EvalInput* input : {&pair.train, &pair.test}) {
        Batch batch = input->probe(first.empty() ? n : 1);
        keys_.check_batch(batch);
        require_same_form(first, batch, name_);
        if (first.empty()) first = std::move(batch);
      }
    }
    return first;
  }

  int64_t examples() const override {
    int64_t sum = 0;
    for (const TrainAndTest& pair : pairs_) sum += pair.train.examples() + pair.test.examples();
    return sum;
  }
  uint64_t fingerprint() const override {
    uint64_t hash = 0;
    for (const TrainAndTest& pair : pairs_)
      hash = 31 * (31 * hash + pair.train.fingerprint()) + pair.test.fingerprint();
    return hash;
  }
  uint64_t content() const override {
    uint64_t hash = 0;
    for (const TrainAndTest& pair : pairs_)
      hash = 31 * (31 * hash + pair.train.content()) + pair.test.content();
    return hash;
  }

  std::vector<std::string> activations() const override { return keys_.activations(); }
  std::string output() const override { return keys_.output(); }
  void check_outputs(const Batch&, const Outputs& outputs) const override {
    keys_.vectors_in(outputs);
  }

  std::optional<std::vector<std::string>> metrics() const override {
    std::vector<std::string> names;
    for (int64_t seed = 0; seed < num_seeds_; ++seed) {
      for (const TrainAndTest& pair : pairs_) {
        for (const int64_t shots : shots_) {
          for (const double l2 : l2_) names.push_back(metric_name(pair.name, shots, seed, l2));
        }
      }
    }
    return names;
  }

  void run(const EvalContext& context, const Measure& emit) override {
    std::vector<Sets> all;
    for (TrainAndTest& pair : pairs_) all.push_back(represent(pair, context));
    const auto pairs = std::ssize(all), shots = std::ssize(shots_), l2s = std::ssize(l2_);
    const at::Tensor accuracies = at::zeros({num_seeds_, pairs, shots, l2s}, at::kDouble);
    // Every rank has all features; the ranks share the fits. Those that follow each other are of
    // about the same size.
    int64_t fits = 0;
    for (int64_t k = 0; k < shots; ++k) {
      for (int64_t seed = 0; seed < num_seeds_; ++seed) {
        for (int64_t i = 0; i < pairs; ++i) {
          const int64_t turn = fits++ % context.group->size();
          if (turn == 0 && context.poll) context.poll();  // waits for all ranks
          if (turn == context.group->rank())
            measure(all[i], seed, shots_[k], accuracies[seed][i][k]);
        }
      }
    }
    sum_over_ranks(*context.group, accuracies);
    const auto* accuracy = accuracies.const_data_ptr<double>();
    const std::vector<std::string> names = metrics().value();
    for (const std::string& name : names) emit(name, *accuracy++);
  }

 private:
  struct Sets {
    LabelledFeatures train, test;
    int64_t classes;
  };

  void read_datasets(const Config& config, const std::shared_ptr<const Pipeline>& pp_train,
                     const std::shared_ptr<const Pipeline>& pp_eval) {
    const Config datasets = config.section("datasets");
    for (const std::string& name : datasets.keys()) {
      if (!datasets.has(name)) continue;  // null removes an inherited data set
      const DataPair data = data_pair(datasets, name, data_dir_, options_.section + "." + name);
      pairs_.push_back({name, open(datasets, name, "train", data.train, pp_train),
                        open(datasets, name, "test", data.test, pp_eval)});
    }
    if (pairs_.empty())
      config.fail("datasets", "missing: name: [source, train split, test split] is required");
    const bool lists = std::any_of(pairs_.begin(), pairs_.end(), [&](const TrainAndTest& pair) {
      return !datasets.is_map(pair.name);
    });
    if (!data_dir_.empty() && !lists)
      config.warn("data_dir", "has no effect, because no data set is given as a list");
  }

  EvalInput open(const Config& datasets, const std::string& name, const std::string& part,
                 const Config& data, const std::shared_ptr<const Pipeline>& pp) const {
    const std::string shown = name + "." + part;
    if (datasets.is_map(name)) return {data, pp, options_, data_env_, shown};
    try {  // the keys of a list's data sets have no place in the config
      EvalInput input(data, pp, options_, data_env_, shown);
      throw_problems(data);
      return input;
    } catch (const Error& error) {
      if (error.code() != Exit::usage) throw;
      datasets.fail(name, reason(error));
    }
  }

  void read_display_first(const Config& config) {
    display_first_ = config.get("display_first", std::vector<std::pair<std::string, double>>());
    for (const auto& [name, shots] : display_first_) {
      const bool known =
          std::any_of(pairs_.begin(), pairs_.end(),
                      [&, &name = name](const TrainAndTest& p) { return p.name == name; });
      if (!known) config.warn("display_first", fmt::format("'{}' is none of the datasets", name));
      const bool measured = std::any_of(
          shots_.begin(), shots_.end(),
          [&, wanted = shots](int64_t each) { return static_cast<double>(each) == wanted; });
      if (known && !measured)
        config.warn("display_first",
                    fmt::format("'{}' is not measured with {} shots", name, shots));
    }
  }

  Sets represent(TrainAndTest& pair, const EvalContext& context) const {
    Sets sets{keys_.represent(pair.train, context), keys_.represent(pair.test, context), 0};
    pair.train.release();
    pair.test.release();
    sets.classes = std::max(count_classes(pair.train.data(), sets.train.labels, name_),
                            count_classes(pair.test.data(), sets.test.labels, name_));
    return sets;
  }

  // Fills `accuracies` (l2).
  void measure(const Sets& sets, int64_t seed, int64_t shots, const at::Tensor& accuracies) const {
    const auto members =
        permuted_classes(sets.train.labels, sets.classes, NumpyRng(static_cast<uint64_t>(seed)));
    const at::Tensor rows = take_shots(members, shots);
    const LeastSquares fit(sets.train.features.index_select(0, rows),
                           sets.train.labels.index_select(0, rows), sets.classes);
    for (int64_t i = 0; i < std::ssize(l2_); ++i) {
      const at::Tensor guess = fit.predict(sets.test.features, fit.weights(l2_[i])).argmax(1);
      accuracies[i] = guess.eq(sets.test.labels).to(at::kDouble).mean();
    }
  }

  std::string metric_name(const std::string& dataset, int64_t shots, int64_t seed,
                          double l2) const {
    const std::pair<std::string, double> shown(dataset, static_cast<double>(shots));
    const bool first =
        std::find(display_first_.begin(), display_first_.end(), shown) != display_first_.end();
    return fmt::format("{}{}_{}shot-seed-{}{}", first ? "a/" : "z/", dataset, shots, seed,
                       l2_.size() > 1 ? fmt::format("-l2-{}", l2) : "");
  }

  const std::string name_, data_dir_;
  const RepresentationKeys keys_;
  const EvalLoaderOptions options_;
  DataEnv data_env_;
  const std::vector<int64_t> shots_;
  const std::vector<double> l2_;
  const int64_t num_seeds_;
  std::vector<TrainAndTest> pairs_;
  std::vector<std::pair<std::string, double>> display_first_;
};

const Register<Evaluator, FewshotLsr> registered_fewshot_lsr("fewshot_lsr");

}  // namespace
}  // namespace bv

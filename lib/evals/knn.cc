// knn: accuracy of a vote of the k nearest neighbours in a training set, by the cosine similarity
// of representations. If neighbours are equally near, the first ones in the data count; if classes
// have equally many votes, the lowest wins. The similarity-weighted vote follows Wu et al.,
// arXiv:1805.01978. big_vision has no such evaluator.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/common/representation.h"
#include "lib/evals/evaluator.h"

namespace bv {
namespace {

const KeyTable knn_keys(
    "evals.*: knn",
    {"Measures how useful the model's representations are without training: each example gets the "
     "class that its k nearest neighbours in a training set vote for, by cosine similarity of the "
     "representations. The metric `prec@1_k=<k>` is the fraction of correctly classified examples.",
     "type: knn\n"
     "train: {name: digits, split: train}\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|keep(\"image\", \"label\")\n"
     "representation_layer: pre_logits\n"
     "k: [1, 20]"},
    {{"data", "map of input.data", "required",
      "Data set to classify, with the same keys as `input.data`. Its classes need not be those "
      "that the model is trained on.",
      "{name: digits, split: test}"},
     {"train", "map of input.data", "required",
      "Data set with the neighbours, with the same keys as `input.data`. If both data sets name "
      "their classes, labels are matched by name.",
      "{name: digits, split: train}"},
     {"pp_fn", "string", "\"\"",
      "Preprocessing of `data`: ops as in `input.pp`, without random augmentation. They must "
      "produce a float `image` of one size for all examples, and the `label`, the class as a "
      "number.",
      "value_range(-1, 1)|keep(\"image\", \"label\")"},
     {"pp_train", "string", "= pp_fn",
      "Preprocessing of `train`, if it must differ from that of `data`."},
     {"k", "int >= 1 | list of int >= 1", "20",
      "Number of neighbours that vote; a list measures each value. If there are fewer neighbours, "
      "all of them vote."},
     {"vote", "'similarity' | 'majority'", "similarity",
      "Weight of a vote: exp(cosine / temperature) with `similarity`, so nearer neighbours count "
      "more; 1 with `majority`."},
     {"temperature", "float > 0", "0.07",
      "How fast a vote's weight falls with distance: a low temperature gives the nearest "
      "neighbours almost all the weight. Only with `vote: similarity`."}},
    kRepresentationKeys, kEvalLoaderKeys);

constexpr int64_t kKnnBlock = 256;  // examples whose similarities are computed together

// Returns the rows of `features` (n, d), normalized to length 1, float64.
at::Tensor unit_rows(const at::Tensor& features) {
  at::Tensor wide = features.to(at::kDouble);
  wide.div_(wide.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12));
  return wide;
}

class Knn : public Evaluator {
 public:
  Knn(const Config& config, const EvalEnv& env)
      : name_(env.name),
        keys_(config, env.name),
        ks_(config.is_list("k") ? config.get<std::vector<int64_t>>("k")
                                : std::vector<int64_t>{config.get<int64_t>("k", 20)}),
        by_similarity_(config.word("vote", "similarity", {"similarity", "majority"}) ==
                       "similarity"),
        temperature_(by_similarity_ ? config.get<double>("temperature", 0.07) : 1.0),
        options_(read_eval_loader(config, env, keys_.label_key)),
        pp_(std::make_shared<Pipeline>(config, "pp_fn")),
        test_(config.section("data"), pp_, options_, unlabelled(env.data)),
        train_(config.section("train"),
               config.has("pp_train") ? std::make_shared<Pipeline>(config, "pp_train") : pp_,
               options_, unlabelled(env.data), "train") {
    if (ks_.empty() || *std::min_element(ks_.begin(), ks_.end()) < 1)
      config.problem("k", "must be positive");
    if (!(temperature_ > 0)) config.problem("temperature", "must be positive");
  }

  Batch probe(int64_t n) override {
    test_.match_classes(train_, "`train`");
    const Batch train = train_.probe(1);
    keys_.check_batch(train);
    Batch batch = test_.probe(n);
    keys_.check_batch(batch);
    require_same_form(batch, train, name_);
    return batch;
  }
  int64_t examples() const override { return train_.examples() + test_.examples(); }
  uint64_t fingerprint() const override { return 31 * train_.fingerprint() + test_.fingerprint(); }
  uint64_t content() const override { return 31 * train_.content() + test_.content(); }
  std::vector<std::string> activations() const override { return keys_.activations(); }
  std::string output() const override { return keys_.output(); }
  void check_outputs(const Batch&, const Outputs& outputs) const override {
    keys_.vectors_in(outputs);
  }

  std::optional<std::vector<std::string>> metrics() const override {
    std::vector<std::string> names;
    for (const int64_t k : ks_) names.push_back(metric_name(k));
    return names;
  }

  void run(const EvalContext& context, const Measure& emit) override {
    LabelledFeatures train = keys_.represent(train_, context);
    const LabelledFeatures test = keys_.represent(test_, context);
    train_.release();
    test_.release();
    const int64_t classes = std::max(count_classes(train_.data(), train.labels, name_),
                                     count_classes(test_.data(), test.labels, name_));
    const at::Tensor bank = unit_rows(train.features).t();  // (d, m)
    train.features.reset();                                 // they may take gigabytes
    // Every rank has all features; the ranks share the blocks of examples.
    const at::Tensor right = at::zeros({std::ssize(ks_)}, at::kLong);
    const int64_t n = test.features.size(0);
    for (int64_t begin = 0; begin < n; begin += kKnnBlock) {
      const int64_t turn = begin / kKnnBlock % context.group->size();
      if (turn == 0 && context.poll) context.poll();  // waits for all ranks
      if (turn != context.group->rank()) continue;
      const int64_t rows = std::min(kKnnBlock, n - begin);
      const at::Tensor guesses =
          vote(unit_rows(test.features.narrow(0, begin, rows)).mm(bank), train.labels, classes);
      right.add_(guesses.eq(test.labels.narrow(0, begin, rows)).sum(1));
    }
    sum_over_ranks(*context.group, right);
    for (size_t i = 0; i < ks_.size(); ++i) {
      const auto count = right[static_cast<int64_t>(i)].item<int64_t>();
      emit(metric_name(ks_[i]), static_cast<double>(count) / static_cast<double>(n));
    }
  }

 private:
  static std::string metric_name(int64_t k) { return fmt::format("prec@1_k={}", k); }

  // The data sets need not have the model's classes.
  static DataEnv unlabelled(DataEnv env) {
    env.source.num_classes = 0;
    env.classes.reset();
    return env;
  }

  // similarities: (rows, m) float64; labels: (m). Returns (ks, rows) int64.
  at::Tensor vote(const at::Tensor& similarities, const at::Tensor& labels, int64_t classes) const {
    const int64_t rows = similarities.size(0), m = similarities.size(1);
    const at::Tensor guesses = at::empty({std::ssize(ks_), rows}, at::kLong);
    const auto* all = similarities.const_data_ptr<double>();
    const auto* label = labels.const_data_ptr<int64_t>();
    auto* out = guesses.mutable_data_ptr<int64_t>();
    const int64_t most = std::min(*std::max_element(ks_.begin(), ks_.end()), m);
    at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> order(m);
      std::vector<double> votes(classes);
      for (int64_t row = begin; row < end; ++row) {
        const double* near = all + row * m;
        const auto key = [&](int64_t i) { return std::pair(-near[i], i); };
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + most, order.end(),
                          [&](int64_t a, int64_t b) { return key(a) < key(b); });
        for (size_t i = 0; i < ks_.size(); ++i) {
          std::fill(votes.begin(), votes.end(), 0.0);
          for (int64_t j = 0; j < std::min(ks_[i], m); ++j) {
            // Subtracting the nearest one's cosine scales all votes by the same factor.
            const double behind = near[order[j]] - near[order[0]];
            votes[label[order[j]]] += by_similarity_ ? std::exp(behind / temperature_) : 1.0;
          }
          out[static_cast<int64_t>(i) * rows + row] =
              std::max_element(votes.begin(), votes.end()) - votes.begin();
        }
      }
    });
    return guesses;
  }

  const std::string name_;
  const RepresentationKeys keys_;
  const std::vector<int64_t> ks_;
  const bool by_similarity_;
  const double temperature_;
  const EvalLoaderOptions options_;
  const std::shared_ptr<const Pipeline> pp_;
  EvalInput test_, train_;
};

const Register<Evaluator, Knn> registered_knn("knn");

}  // namespace
}  // namespace bv

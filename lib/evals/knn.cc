// knn: accuracy of a vote of the k nearest neighbours in a training set, by the cosine similarity
// of representations. big_vision has no such evaluator.
//
// Metrics: "prec@1_k=<k>" for each k. Of equally near neighbours the ones that come first in the
// data count; of classes with equal votes the lowest wins.
//
// Keys, besides batch_size, prefetch, threads and skip_errors (lib/evals/common/eval_input.h):
//   key                   default     meaning
//   data                  required    {name, split, ...}, the examples to classify
//   train                 required    {name, split, ...}, the neighbours
//   pp_fn                 no ops      preprocessing; must leave "image" and the label
//   pp_train              pp_fn       preprocessing of the neighbours
//   k                     20          number of neighbours, or a list
//   vote                  similarity  similarity: a neighbour counts exp(cosine / temperature) (Wu
//                                     et al., arXiv:1805.01978); majority: each counts 1
//   temperature           0.07        only with vote: similarity
//   representation_layer  logits      an activation of the model; without the key the "logits" of
//                                     the prediction function
//   label_key             label       name of the feature that holds the class number
//   mask_key              _mask       examples whose value is 0 are left out
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/labels.h"
#include "lib/evals/common/representation.h"
#include "lib/evals/evaluator.h"

namespace bv {
namespace {

constexpr int64_t kBlock = 256;  // examples whose similarities are computed together

// Returns the rows of `features` (n, d) with length 1, float64.
at::Tensor unit_rows(const at::Tensor& features) {
  const at::Tensor wide = features.to(at::kDouble);
  return wide / wide.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12);
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
        options_(read_eval_loader(config, env)),
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
    class_labels(train_.probe(1), keys_.label_key, name_);
    Batch batch = test_.probe(n);
    class_labels(batch, keys_.label_key, name_);
    return batch;
  }
  int64_t examples() const override { return train_.examples() + test_.examples(); }
  std::vector<std::string> activations() const override { return keys_.activations(); }

  void run(const EvalContext& context, const Measure& emit) override {
    const LabelledFeatures train = keys_.represent(train_, context);
    const LabelledFeatures test = keys_.represent(test_, context);
    train_.release();
    test_.release();
    const int64_t classes = std::max(count_classes(train_.data(), train.labels, name_),
                                     count_classes(test_.data(), test.labels, name_));
    const at::Tensor bank = unit_rows(train.features).t().contiguous();  // (d, m)
    std::vector<int64_t> right(ks_.size(), 0);
    const int64_t n = test.features.size(0);
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      if (context.poll) context.poll();
      const int64_t rows = std::min(kBlock, n - begin);
      const at::Tensor guesses =
          vote(unit_rows(test.features.narrow(0, begin, rows)).mm(bank), train.labels, classes);
      const at::Tensor hits = guesses.eq(test.labels.narrow(0, begin, rows)).sum(1);  // (ks)
      for (size_t i = 0; i < ks_.size(); ++i) right[i] += hits[i].item<int64_t>();
    }
    for (size_t i = 0; i < ks_.size(); ++i) {
      emit(fmt::format("prec@1_k={}", ks_[i]),
           static_cast<double>(right[i]) / static_cast<double>(n));
    }
  }

 private:
  // The data sets need not have the classes of the model.
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
        // A NaN counts as farthest: comparing NaNs would not give an order.
        const auto key = [&](int64_t i) {
          return std::pair(std::isnan(near[i]) ? HUGE_VAL : -near[i], i);
        };
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
  const LoaderOptions options_;
  const std::shared_ptr<const Pipeline> pp_;
  EvalInput test_, train_;
};

const Register<Evaluator, Knn> registered("knn");

}  // namespace
}  // namespace bv

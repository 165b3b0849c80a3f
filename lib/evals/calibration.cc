// calibration: how far a classifier's confidence is from its accuracy (Guo et al., "On calibration
// of modern neural networks", ICML 2017). Examples are grouped into equal-width bins (lo, hi] by
// the probability of the highest logit. A class with the largest label is the right one, so soft
// labels count as in `class_metrics`, except that in a tie each of the classes is right. big_vision
// has no such evaluator.
#include <ATen/Functions.h>

#include <cmath>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/labels.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/evaluator.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable calibration_keys(
    "evals.*: calibration",
    {"Measures how well the confidence of a classifier matches its accuracy: of the predictions "
     "with a probability of 0.8, 80 % should be right. Predictions are binned by their "
     "probability; the report shows the bins. The metric `ece` is the mean of |accuracy - "
     "confidence| over bins, weighted by their predictions. `mce` is the maximum over bins, "
     "`confidence` the mean probability of the predictions, and `prec@1` the fraction of correct "
     "ones.",
     "type: calibration\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")"},
    {{"label_key", "string", "labels",
      "Name of the feature with the labels, one number per class, as made by the op `onehot`. The "
      "class with the largest label is the right one, also with soft labels. If several classes "
      "share the largest label, each of them is right. An example whose labels are all equal, "
      "below 1, and do not add up to 1 has no class and does not count."},
     {"bins", "int 1..10000", "15",
      "Number of bins of equal width between probabilities 0 and 1. More bins show more detail but "
      "need more examples: the noise of bins with few examples increases `ece` and `mce`."},
     {"probabilities", "'softmax' | 'sigmoid'", "= sigmoid if loss is sigmoid_xent, else softmax",
      "How to turn the model's outputs into probabilities."}},
    kEvalDataKeys, kEvalLoaderKeys);

constexpr int64_t kMostBins = 10000;

class Calibration : public Evaluator {
 public:
  Calibration(const Config& config, const EvalEnv& env)
      : name_(env.name),
        label_key_(config.get("label_key", "labels")),
        bins_(config.get<int64_t>("bins", 15)),
        follows_loss_(!config.has("probabilities")),
        sigmoid_(config.word("probabilities", env.loss == "sigmoid_xent" ? "sigmoid" : "softmax",
                             {"softmax", "sigmoid"}) == "sigmoid"),
        input_(config, env, label_key_) {
    if (bins_ < 1 || bins_ > kMostBins)
      config.problem("bins", fmt::format("must be within 1 .. {}, got {}", kMostBins, bins_));
  }

  Batch probe(int64_t n) override {
    Batch batch = input_.probe(n);
    refuse_one_class(dense_labels(batch, label_key_, name_).size(1), label_key_, name_);
    return batch;
  }
  int64_t examples() const override { return input_.examples(); }
  uint64_t fingerprint() const override { return input_.fingerprint(); }
  uint64_t content() const override { return input_.content(); }

  bool follows_loss() const override { return follows_loss_; }

  std::optional<std::vector<std::string>> metrics() const override {
    return {{"ece", "mce", "confidence", "prec@1"}};
  }

  void check_outputs(const Batch& batch, const Outputs& outputs) const override {
    labels_of(batch, outputs.at(kLogitsOutput));
  }

  void run(const EvalContext& context, const Measure& emit) override {
    std::vector<EvalDetails::Bin> bins(bins_);  // contain sums until finish() divides them
    int64_t without_class = 0;
    input_.for_each(context, [&](const Batch& batch) {
      const at::Tensor logits = context.predict(batch, {}).at(kLogitsOutput).to(at::kDouble);
      without_class += accumulate(batch.at("_mask"), logits, labels_of(batch, logits), bins);
    });
    without_class_.after_pass(*context.group, without_class, input_.examples(), name_);
    sum_bins(*context.group, bins);
    finish(bins, emit);
    if (context.details) {
      EvalDetails details;
      details.evaluator = name_;
      details.step = context.step;
      details.calibration = std::move(bins);
      context.details(std::move(details));
    }
  }

 private:
  // Returns the labels of a batch, (n, classes) float32. Throws if the logits have another shape.
  at::Tensor labels_of(const Batch& batch, const at::Tensor& logits) const {
    at::Tensor labels = dense_labels(batch, label_key_, name_);
    if (logits.sizes() != labels.sizes()) {
      throw Error(Exit::usage, "",
                  fmt::format("evaluator '{}': logits have shape {} but '{}' has {}", name_,
                              shape_text(logits.sizes()), label_key_, shape_text(labels.sizes())));
    }
    return labels;
  }

  // mask: (n) bool; logits: (n, classes) float64; labels: (n, classes) float32. Returns the number
  // of examples without a class.
  int64_t accumulate(const at::Tensor& mask, const at::Tensor& logits, const at::Tensor& labels,
                     std::vector<EvalDetails::Bin>& bins) const {
    const at::Tensor guess = logits.argmax(1, /*keepdim=*/true);  // (n, 1)
    const at::Tensor sure = (sigmoid_ ? logits.sigmoid() : logits.softmax(1)).gather(1, guess);
    const at::Tensor right = labels.amax(1), guessed = labels.gather(1, guess);
    // An example without a class has equal labels: all 0, or all the same small value after
    // smoothing. Fractions that add up to 1 are a tie of all classes.
    at::Tensor without = right.eq(0);
    if (labels.size(1) > 1) {
      const at::Tensor tie = labels.sum(1).sub(1).abs().le(kShareTolerance);
      without = without.logical_or(
          right.eq(labels.amin(1)).logical_and(right.lt(1)).logical_and(tie.logical_not()));
    }
    int64_t left_out = 0;
    for (int64_t i = 0; i < mask.size(0); ++i) {
      const float most = right.const_data_ptr<float>()[i];
      if (!mask.const_data_ptr<bool>()[i]) continue;
      if (without.const_data_ptr<bool>()[i]) {
        ++left_out;
        continue;
      }
      const double confidence = sure.const_data_ptr<double>()[i];
      const double place = std::ceil(confidence * static_cast<double>(bins_)) - 1;
      // A NaN goes to the first bin and makes its mean NaN.
      const auto at = place > 0 ? std::min(static_cast<int64_t>(place), bins_ - 1) : 0;
      const bool hit = guessed.const_data_ptr<float>()[i] == most;
      bins[at].examples += 1;
      bins[at].confidence += confidence;
      bins[at].accuracy += std::isnan(most) ? most : static_cast<float>(hit);
    }
    return left_out;
  }

  static void sum_bins(Group& group, std::vector<EvalDetails::Bin>& bins) {
    const at::Tensor all = at::zeros({std::ssize(bins), 3}, at::kDouble);
    auto* row = all.mutable_data_ptr<double>();
    for (const auto& bin : bins) {
      *row++ = bin.examples;
      *row++ = bin.confidence;
      *row++ = bin.accuracy;
    }
    sum_over_ranks(group, all);
    row = all.mutable_data_ptr<double>();
    for (auto& bin : bins) {
      bin.examples = *row++;
      bin.confidence = *row++;
      bin.accuracy = *row++;
    }
  }

  static void finish(std::vector<EvalDetails::Bin>& bins, const Measure& emit) {
    double all = 0, confidence = 0, accuracy = 0, distance = 0, worst = 0;
    for (EvalDetails::Bin& bin : bins) {
      if (bin.examples == 0) continue;
      all += bin.examples;
      confidence += bin.confidence;
      accuracy += bin.accuracy;
      distance += std::abs(bin.accuracy - bin.confidence);
      bin.confidence /= bin.examples;
      bin.accuracy /= bin.examples;
      const double gap = std::abs(bin.accuracy - bin.confidence);
      if (gap > worst || std::isnan(gap)) worst = gap;  // a NaN stays
    }
    emit("ece", distance / all);
    emit("mce", all > 0 ? worst : std::nan(""));
    emit("confidence", confidence / all);
    emit("prec@1", accuracy / all);
  }

  const std::string name_, label_key_;
  const int64_t bins_;
  const bool follows_loss_;  // `probabilities` is not set, so it depends on the loss of the run
  const bool sigmoid_;
  EvalInput input_;
  WithoutClassNote without_class_;
};

const Register<Evaluator, Calibration> registered_calibration("calibration");

}  // namespace
}  // namespace bv

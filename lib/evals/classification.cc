// classification: accuracy and loss on dense labels, which may be one-hot, multi-hot or all zero.
// Follows big_vision's evaluators/classification.py, class Evaluator; prec@5 is not in big_vision.
//
// An example's weight is its largest label, so examples without a label do not count. A guess
// counts as much as the label of its class: 1 or 0, unless labels are soft. If two logits are
// equal, the lower class counts.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/labels.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/evaluator.h"
#include "lib/input/image/decode.h"
#include "lib/model/loss.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable classification_keys(
    "evals.*: classification",
    {"Measures the accuracy of a classifier and its loss. The metric `prec@1` is the fraction of "
     "examples whose highest output belongs to a true class, `prec@5` the fraction with a true "
     "class among the five highest (only with more than five classes), and `loss` the mean loss, "
     "in which each image counts as much as its largest label. With soft labels, `mean` with "
     "`pred: loss` gives the mean in which all images count alike. "
     "The report shows the confusion matrix of up to 1000 classes and the most confident mistakes.",
     "type: classification\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")\n"
     "loss_name: softmax_xent\n"
     "log_epochs: 1",
     "evaluators/classification.py Evaluator"},
    {{"loss_name", "string", "required",
      "Loss whose mean is the metric `loss`, usually the same as the key `loss` of the run, such "
      "as `softmax_xent` or `sigmoid_xent`. Labels are not smoothed."},
     {"label_key", "string", "labels",
      "Name of the feature with the labels, one number per class, as made by the op `onehot`. If "
      "an image has several classes, predicting any of them is correct. The weight of an example "
      "is its largest label: 1 for one-hot labels, 0 without any class. With soft or smoothed "
      "labels, such as those of `onehot(..., on=0.9, off=0.01)`, `prec@1` is not a fraction of "
      "examples but the mean label of the predicted classes, here at most 0.9; `class_metrics` "
      "with `soft_labels: true` measures accuracy."}},
    kEvalDataKeys, kEvalLoaderKeys);

constexpr int64_t kMaxConfusionClasses = 1000;
constexpr size_t kWrongImages = 24;
constexpr int64_t kWrongImageSide = 128;  // larger images are subsampled for the report

// Returns the five classes with the largest logits of each row, (n, 5) int64: of equal logits the
// lowest classes, which at::topk() does not promise.
at::Tensor best_five(const at::Tensor& logits) {
  std::vector<at::Tensor> best;
  at::Tensor left = logits.clone();
  for (int i = 0; i < 5; ++i) {
    best.push_back(left.argmax(1, /*keepdim=*/true));
    left.scatter_(1, best.back(), -std::numeric_limits<double>::infinity());
  }
  return at::cat(best, 1);
}

// Sums over a pass. They are tensors, so that no batch waits for a device value.
struct ClassificationSums {
  at::Tensor weight, correct1, correct5, loss;  // scalars, float64
  at::Tensor confusion;                         // (classes * classes) float64, [truth][guess]
  at::Tensor without_class;                     // scalar, float64: examples that do not count

  explicit ClassificationSums(int64_t classes)
      : weight(at::zeros({}, at::kDouble)),
        correct1(weight.clone()),
        correct5(weight.clone()),
        loss(weight.clone()),
        confusion(
            at::zeros({classes <= kMaxConfusionClasses ? classes * classes : 0}, at::kDouble)),
        without_class(weight.clone()) {}
};

// Collects the most confident mistakes of a pass.
class WrongExamples {
 public:
  // truth, guess: (n) int64; confidence: (n) float32; wrong: (n) bool.
  void add(const Batch& batch, const at::Tensor& truth, const at::Tensor& guess,
           const at::Tensor& confidence, const at::Tensor& wrong) {
    const int64_t* ids = batch.at("_id").const_data_ptr<int64_t>();
    for (int64_t i = 0; i < wrong.size(0); ++i) {
      if (!wrong.const_data_ptr<bool>()[i]) continue;
      EvalDetails::Wrong entry;
      entry.index = ids[i];
      entry.truth = truth.const_data_ptr<int64_t>()[i];
      entry.guess = guess.const_data_ptr<int64_t>()[i];
      entry.confidence = confidence.const_data_ptr<float>()[i];
      entries_.push_back(std::move(entry));
    }
    keep_surest();
  }

  // Replaces the examples by the most confident ones of all ranks.
  void gather(Group& group) {
    if (group.size() == 1) return;
    const at::Tensor own = at::zeros({std::ssize(entries_), 4}, at::kDouble);
    const at::Tensor ids = at::zeros({std::ssize(entries_)}, at::kLong);
    for (size_t i = 0; i < entries_.size(); ++i) {
      const EvalDetails::Wrong& entry = entries_[i];
      auto* row = own.mutable_data_ptr<double>() + 4 * i;
      row[0] = static_cast<double>(ids.mutable_data_ptr<int64_t>()[i] = entry.index);
      row[1] = static_cast<double>(entry.truth);
      row[2] = static_cast<double>(entry.guess);
      row[3] = entry.confidence;
    }
    const at::Tensor all = gather_rows(group, own, ids);
    entries_.clear();
    for (int64_t i = 0; i < all.size(0); ++i) {
      const auto* row = all.const_data_ptr<double>() + 4 * i;
      EvalDetails::Wrong entry;
      entry.index = std::llround(row[0]);
      entry.truth = std::llround(row[1]);
      entry.guess = std::llround(row[2]);
      entry.confidence = row[3];
      entries_.push_back(std::move(entry));
    }
    keep_surest();
  }

  // Returns the examples with their names and their images from the data set, before
  // preprocessing. Omits an image that cannot be read or decoded.
  std::vector<EvalDetails::Wrong> with_pictures(const Dataset& data) {
    std::sort(entries_.begin(), entries_.end(), surer);
    for (auto& entry : entries_) {
      entry.name = data.describe(entry.index);
      try {
        add_picture(data.read(entry.index), entry);
      } catch (const Error&) {  // metrics do not need it, and pp may not decode it either
      }
    }
    return std::move(entries_);
  }

 private:
  static void add_picture(const Example& example, EvalDetails::Wrong& entry) {
    const auto found = example.find("image");
    if (found == example.end()) return;
    at::Tensor image = found->second;
    if (image.dim() == 1 && image.scalar_type() == at::kByte) {
      image = decode_image({image.const_data_ptr<uint8_t>(), static_cast<size_t>(image.numel())}, 3,
                           true);
    }
    if (image.dim() != 3 || image.scalar_type() != at::kByte || image.numel() == 0) return;
    const int64_t stride =
        (std::max(image.size(0), image.size(1)) + kWrongImageSide - 1) / kWrongImageSide;
    image =
        image.slice(0, 0, image.size(0), stride).slice(1, 0, image.size(1), stride).contiguous();
    entry.height = image.size(0);
    entry.width = image.size(1);
    entry.channels = image.size(2);
    entry.pixels.assign(image.const_data_ptr<uint8_t>(),
                        image.const_data_ptr<uint8_t>() + image.numel());
  }
  void keep_surest() {
    if (entries_.size() <= kWrongImages) return;
    std::nth_element(entries_.begin(), entries_.begin() + kWrongImages, entries_.end(), surer);
    entries_.resize(kWrongImages);
  }
  static bool surer(const EvalDetails::Wrong& a, const EvalDetails::Wrong& b) {
    return std::pair(-a.confidence, a.index) < std::pair(-b.confidence, b.index);
  }
  std::vector<EvalDetails::Wrong> entries_;
};

class Classification : public Evaluator {
 public:
  Classification(const Config& config, const EvalEnv& env)
      : name_(env.name),
        label_key_(config.get("label_key", "labels")),
        num_classes_(env.data.source.num_classes),
        input_(config, env, label_key_) {
    // An unknown loss is reported together with the problems of other keys.
    attempt(config, [&] {
      const auto name = config.get<std::string>("loss_name");
      loss_ = Loss::Registry::make(name, Config(), config.place("loss_name"));
      sigmoid_ = (env.loss.empty() ? name : env.loss) == "sigmoid_xent";
    });
  }

  Batch probe(int64_t n) override {
    Batch batch = input_.probe(n);
    const int64_t classes = dense_labels(batch, label_key_, name_).size(1);
    if (num_classes_ > 0 && classes != num_classes_) {
      throw Error(Exit::usage, "",
                  fmt::format("evaluator '{}': '{}' has {} classes, but num_classes is {}", name_,
                              label_key_, classes, num_classes_));
    }
    refuse_one_class(classes, label_key_, name_);
    return batch;
  }
  int64_t examples() const override { return input_.examples(); }
  uint64_t fingerprint() const override { return input_.fingerprint(); }
  uint64_t content() const override { return input_.content(); }

  std::optional<std::vector<std::string>> metrics() const override {
    std::vector<std::string> names = {"prec@1", "loss"};
    if (num_classes_ == 0 || num_classes_ > 5) names.emplace_back("prec@5");
    return names;
  }

  void run(const EvalContext& context, const Measure& emit) override {
    std::optional<ClassificationSums> sums;
    WrongExamples wrong;
    int64_t classes = 0;
    input_.for_each(context, [&](const Batch& batch) {
      const at::Tensor logits =
          context.predict(batch, {}).at(kLogitsOutput).to(at::kFloat);  // (n, classes)
      const at::Tensor labels = dense_labels(batch, label_key_, name_);
      if (logits.sizes() != labels.sizes()) {
        throw Error(
            Exit::usage, "",
            fmt::format("evaluator '{}': logits have shape {} but '{}' has {}", name_,
                        shape_text(logits.sizes()), label_key_, shape_text(labels.sizes())));
      }
      classes = logits.size(1);
      if (!sums) sums.emplace(classes);
      accumulate(batch, logits, labels, *sums, context.report ? &wrong : nullptr);
    });
    check(sums.has_value(), "evaluator '{}' saw no batch", name_);
    without_class_.after_pass(*context.group,
                              static_cast<int64_t>(sums->without_class.item<double>()),
                              input_.examples(), name_);
    for (const at::Tensor& sum :
         {sums->weight, sums->correct1, sums->correct5, sums->loss, sums->confusion})
      sum_over_ranks(*context.group, sum);
    if (context.report) wrong.gather(*context.group);
    const double weight = sums->weight.item<double>();
    emit("prec@1", sums->correct1.item<double>() / weight);
    if (classes > 5) emit("prec@5", sums->correct5.item<double>() / weight);
    emit("loss", sums->loss.item<double>() / weight);
    if (context.details) context.details(details(context.step, classes, *sums, wrong));
  }

 private:
  void accumulate(const Batch& batch, const at::Tensor& logits, const at::Tensor& labels,
                  ClassificationSums& sums, WrongExamples* wrong) const {
    const at::Tensor mask = batch.at("_mask");                               // (n) bool
    const at::Tensor most = labels.amax(1);                                  // (n)
    const at::Tensor weight = most.where(mask, 0.0).to(at::kDouble);         // (n)
    const at::Tensor guess = logits.argmax(1);                               // (n)
    const at::Tensor hit = labels.gather(1, guess.unsqueeze(1)).squeeze(1);  // (n)
    // For the report: a guess is right if no class has a larger label, and then it is the truth.
    const at::Tensor right = hit.eq(most);                               // (n) bool
    const at::Tensor truth = at::where(right, guess, labels.argmax(1));  // (n)
    sums.weight += weight.sum();
    sums.without_class += most.eq(0).logical_and(mask).sum().to(at::kDouble);
    sums.correct1 += (hit.to(at::kDouble) * weight).sum();
    sums.loss += (*loss_)(logits, labels).where(mask, 0.0).to(at::kDouble).mul(weight).sum();
    if (logits.size(1) > 5) {
      const at::Tensor best = labels.gather(1, best_five(logits)).amax(1);  // (n)
      sums.correct5 += (best.to(at::kDouble) * weight).sum();
    }
    if (sums.confusion.numel() > 0) {
      sums.confusion += at::bincount(truth * logits.size(1) + guess, (weight > 0).to(at::kDouble),
                                     sums.confusion.numel());
    }
    if (wrong) {
      const at::Tensor confidence = (sigmoid_ ? logits.sigmoid() : logits.softmax(1)).amax(1);
      wrong->add(batch, truth, guess, confidence, (weight > 0).logical_and(right.logical_not()));
    }
  }

  EvalDetails details(int64_t step, int64_t classes, const ClassificationSums& sums,
                      WrongExamples& wrong) {
    EvalDetails result;
    result.evaluator = name_;
    result.step = step;
    result.class_names = input_.class_names(label_key_);
    for (auto c = static_cast<int64_t>(result.class_names.size()); c < classes; ++c) {
      result.class_names.push_back(std::to_string(c));
    }
    if (sums.confusion.numel() > 0) {
      const double* counts = sums.confusion.const_data_ptr<double>();
      for (int64_t truth = 0; truth < classes; ++truth) {
        result.confusion.emplace_back(counts + truth * classes, counts + (truth + 1) * classes);
      }
    }
    result.wrong = wrong.with_pictures(input_.data());
    return result;
  }

  const std::string name_;
  std::unique_ptr<Loss> loss_;
  bool sigmoid_ = false;  // how logits become probabilities: by the loss, as in predict
  const std::string label_key_;
  const int64_t num_classes_;  // of the model; 0 if unknown
  EvalInput input_;
  WithoutClassNote without_class_;
};

const Register<Evaluator, Classification> registered_classification("classification");

}  // namespace
}  // namespace bv

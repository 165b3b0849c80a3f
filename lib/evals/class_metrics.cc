// class_metrics: metrics that are counted or ranked per class: precision, recall, F1, AUROC,
// average precision and others, for single-label and multi-label images. The values equal
// scikit-learn's (scripts/golden/scikit_learn.py). big_vision has no such evaluator.
//
// The outputs of all examples are gathered in data order, and rank 0 computes in float64, so the
// results do not depend on the number of ranks.
#include <ATen/ops/argmax.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/evals/common/class_details.h"
#include "lib/evals/common/class_metric.h"
#include "lib/evals/common/collected.h"
#include "lib/evals/common/labels.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable class_metrics_keys(
    "evals.*: class_metrics",
    {"Measures a classifier class by class, on images with one class or, with `multilabel`, with "
     "any number: precision, recall, F1, area under the ROC curve (AUROC), average precision (AP), "
     "log loss and Brier score, with the values of scikit-learn. `metrics` selects some of them. "
     "Labels may also be soft (`soft_labels`). The report shows a table of the classes, ROC and "
     "precision-recall curves, and the confusion matrix. The outputs of all examples are in memory "
     "at once, 4 bytes per class and example.",
     "type: class_metrics\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")\n"
     "log_epochs: 1"},
    {{"metrics", "list of string", "= those that apply, see below",
      "Metrics to compute, in this order. Averaged: `precision`, `recall` and `f1` with `_macro`, "
      "`_micro`, `_weighted` or `_per_class`; `auroc` with `_macro`, `_weighted` or `_per_class`; "
      "`map` (the mean of the APs), `ap_weighted` and `ap_per_class`. Others: `accuracy`, "
      "`balanced_accuracy`, `top<k>` such as `top5`, `log_loss` and `brier`. `brier` is the mean "
      "over the images of the sum over the classes of (probability - label)^2; for two classes it "
      "is half of that, as in scikit-learn, and with `multilabel` the mean over classes. The "
      "precision of a class that is never predicted is 0, as with zero_division=0 of scikit-learn; "
      "a class that neither occurs nor is predicted does not count in `_macro`, except with "
      "`multilabel`, where it counts as 0. AUROC leaves out classes that no example or every "
      "example has, and AP those that none has. `_per_class` gives one metric per class, such as "
      "`f1@cat`, or `f1@polar_bear` for a class `polar bear`. The default is accuracy, "
      "balanced_accuracy, precision_macro, recall_macro, "
      "f1_macro, auroc_macro, map, log_loss and brier; with `multilabel` f1_micro replaces "
      "balanced_accuracy.",
      "[f1_macro, auroc_macro, top5]"},
     {"label_key", "string", "labels",
      "Name of the feature with the true classes: one number per class, 0 or 1, as made by the op "
      "`onehot`, or the index of the class. An image without any class is left out, but with "
      "`multilabel` it counts."},
     {"multilabel", "bool", "= task_kw.multilabel",
      "Whether an image may have several classes or none. Each class is then treated "
      "independently, with the sigmoid of its output as probability; otherwise probabilities are "
      "the softmax of all outputs. With a single class it must be `true`."},
     {"soft_labels", "bool", "false",
      "Whether labels are fractions of classes (soft labels). `log_loss` and `brier` then use "
      "these fractions. For the other metrics the class with the largest fraction is the true one, "
      "in a tie the lowest class. The fractions of an image must add up to 1; an image with only 0 "
      "is left out. With `multilabel`, each fraction may be anything from 0 to 1, and classes with "
      "at least 0.5 are true."},
     {"threshold", "float 0..1", "0.5",
      "With `multilabel`, the minimum probability of a predicted class."}},
    kEvalDataKeys, kEvalLoaderKeys);

constexpr double kNotComputed = 0;

class ClassMetrics : public Evaluator {
 public:
  ClassMetrics(const Config& config, const EvalEnv& env)
      : name_(env.name),
        label_key_(config.get("label_key", "labels")),
        follows_multilabel_(!config.has("multilabel")),
        multilabel_(config.get<bool>("multilabel", env.multilabel)),
        soft_(config.get<bool>("soft_labels", false)),
        threshold_(config.get<double>("threshold", 0.5)),
        num_classes_(env.data.source.num_classes),
        input_(config, env, label_key_) {
    if (!(threshold_ >= 0 && threshold_ <= 1))
      config.problem("threshold", fmt::format("must be within 0 .. 1, got {}", threshold_));
    else if (threshold_ != 0.5 && !multilabel_)
      config.problem("threshold", "has no effect without multilabel: true");
    if (multilabel_ && env.loss == "softmax_xent") {
      config.warn("multilabel",
                  "takes the sigmoid of each output as its probability, but loss: softmax_xent "
                  "trains the softmax of all outputs");
    }
    read_metrics(config);
  }

  Batch probe(int64_t n) override {
    Batch batch = input_.probe(n);
    const at::Tensor labels = labels_in(batch);
    const int64_t classes = labels.dim() == 2 ? labels.size(1) : num_classes_;
    if (num_classes_ > 0 && classes != num_classes_) {
      refuse(fmt::format("'{}' has {} classes, but num_classes is {}", label_key_, classes,
                         num_classes_));
    }
    for (const ClassMetric& metric : metrics_) {
      if (metric.k > 0 && classes > 1 && metric.k >= classes)
        refuse(fmt::format("the metric {} of {} classes is always 1", metric.name, classes));
    }
    if (!multilabel_) refuse_one_class(classes, label_key_, name_);
    if (labels.dim() == 1 && classes > 0) check_largest_label(classes);
    return batch;
  }
  int64_t examples() const override { return input_.examples(); }
  uint64_t fingerprint() const override { return input_.fingerprint(); }
  uint64_t content() const override { return input_.content(); }

  bool follows_multilabel() const override { return follows_multilabel_; }

  std::optional<std::vector<std::string>> metrics() const override {
    std::vector<std::string> names;
    for (const ClassMetric& metric : metrics_) {
      if (metric.per_class) return std::nullopt;  // the names of the classes are in the data
      names.push_back(metric.name);
    }
    return names;
  }

  void run(const EvalContext& context, const Measure& emit) override {
    int64_t classes = 0, without_class = 0;
    const Collected all =
        collect_outputs(input_, context, name_, [&](const Batch& batch, const at::Tensor& outputs) {
          classes = outputs.size(1);
          return rows_of(batch, classes, without_class);
        });
    without_class_.after_pass(*context.group, without_class, input_.examples(), name_);
    at::Tensor right;
    std::unique_ptr<ClassScores> scores;
    if (context.group->rank() == 0) {
      right = right_classes(all.labels);
      scores = std::make_unique<ClassScores>(examples_of(all, right));
    }
    emit_metrics(context, classes, scores.get(), emit);
    if (context.details && scores) {
      EvalDetails details = class_details(*scores, class_names(classes));
      details.evaluator = name_;
      details.step = context.step;
      context.details(std::move(details));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Exit::usage, "", fmt::format("evaluator '{}': {}", name_, why));
  }

  void read_metrics(const Config& config) {
    const auto asked = config.maybe<std::vector<std::string>>("metrics");
    std::set<std::string> seen;
    for (const std::string& name : asked.value_or(default_class_metrics(multilabel_))) {
      const std::optional<ClassMetric> metric = find_class_metric(name);
      if (!metric) {
        std::vector<std::string> known = {"top<k>"};
        for (const ClassMetric& each : known_class_metrics()) known.push_back(each.name);
        config.problem("metrics", unknown_name_message("metric", name, known));
        continue;
      }
      using Figure = ClassMetric::Figure;
      const bool needs_one =
          metric->figure == Figure::top || metric->figure == Figure::balanced_accuracy;
      if (multilabel_ && needs_one)
        config.problem(
            "metrics",
            fmt::format(
                "{} needs exactly one class per image; it does not work with multilabel: true",
                name));
      if (!seen.insert(name).second) config.problem("metrics", fmt::format("has {} twice", name));
      metrics_.push_back(*metric);
    }
    if (metrics_.empty() && asked && asked->empty()) config.problem("metrics", "is empty");
  }

  static std::string outside(int64_t classes) {
    return fmt::format("is not within 0 .. {}", classes - 1);
  }

  // Refuses data with a label of a class that the model does not have, before the run.
  void check_largest_label(int64_t classes) {
    const auto largest = input_.largest_label(label_key_);
    if (!largest || largest->second < classes) return;
    refuse(fmt::format("'{}' of {} {}", label_key_, input_.data().describe(largest->first),
                       outside(classes)));
  }

  // Returns the labels of a batch: (n, classes) float32, or (n) int64.
  at::Tensor labels_in(const Batch& batch) const {
    const auto found = batch.find(label_key_);
    const bool numbers = found != batch.end() && found->second.dim() == 1;
    if (numbers && (multilabel_ || soft_)) {
      refuse(fmt::format("{} needs a number per class, but '{}' is one number per example",
                         soft_ ? "soft_labels" : "multilabel", label_key_));
    }
    return numbers ? class_labels(batch, label_key_, name_)
                   : dense_labels(batch, label_key_, name_);
  }

  // Returns the rows of a batch that count, and the labels of these m rows: the class, (m) int64;
  // with `multilabel` 0 or 1 for each class, (m, classes) uint8; with `soft_labels` each class's
  // share, (m, classes) float32. Adds the number of examples without a class, which do not count,
  // to `without_class`.
  CollectedRows rows_of(const Batch& batch, int64_t classes, int64_t& without_class) const {
    const at::Tensor labels = labels_in(batch);
    at::Tensor keep = batch.at("_mask");  // (n) bool
    if (labels.dim() == 1) {
      const at::Tensor wrong = labels.lt(0).logical_or(labels.ge(classes)).logical_and(keep);
      check_rows(batch, wrong, outside(classes));
      const at::Tensor rows = keep.nonzero().squeeze(1);
      return {rows, labels.index_select(0, rows)};
    }
    if (labels.size(1) != classes) {
      refuse(fmt::format("the model has {} outputs but '{}' {} classes", classes, label_key_,
                         labels.size(1)));
    }
    if (soft_) return soft_rows_of(batch, labels, keep, without_class);
    const at::Tensor neither = labels.ne(0).logical_and(labels.ne(1)).any(1).logical_and(keep);
    check_rows(batch, neither,
               "has values that are neither 0 nor 1; if they are fractions of classes, add "
               "soft_labels: true");
    if (multilabel_) {
      const at::Tensor rows = keep.nonzero().squeeze(1);
      return {rows, labels.index_select(0, rows).to(at::kByte)};
    }
    const at::Tensor count = labels.sum(1);
    check_rows(batch, count.gt(1).logical_and(keep), "has several classes; add multilabel: true");
    const at::Tensor rows = keep.logical_and(count.gt(0)).nonzero().squeeze(1);
    without_class += keep.sum().item<int64_t>() - rows.size(0);
    return {rows, labels.argmax(1).index_select(0, rows)};
  }

  // rows_of() for soft labels. labels (n, classes) float32: the shares; keep (n) bool: false for
  // padding rows.
  CollectedRows soft_rows_of(const Batch& batch, const at::Tensor& labels, at::Tensor keep,
                             int64_t& without_class) const {
    const at::Tensor within = labels.ge(0).logical_and(labels.le(1)).all(1);
    check_rows(batch, within.logical_not().logical_and(keep), "has fractions outside 0 .. 1");
    if (!multilabel_) {
      without_class += labels.eq(0).all(1).logical_and(keep).sum().item<int64_t>();
      keep = keep.logical_and(labels.ne(0).any(1));
      const at::Tensor off = labels.sum(1).sub(1).abs().gt(kShareTolerance).logical_and(keep);
      check_rows(batch, off, "has fractions that do not add up to 1");
    }
    const at::Tensor rows = keep.nonzero().squeeze(1);
    return {rows, labels.index_select(0, rows).contiguous()};
  }

  // Throws if a row is marked in `wrong`, (n) bool.
  void check_rows(const Batch& batch, const at::Tensor& wrong, const std::string& why) const {
    if (!wrong.any().item<bool>()) return;
    const int64_t row = wrong.nonzero()[0].item<int64_t>();
    throw Error(Exit::data, "",
                fmt::format("evaluator '{}': '{}' of {} {}", name_, label_key_,
                            input_.data().describe(batch.at("_id")[row].item<int64_t>()), why));
  }

  // Returns the correct classes, given the labels from rows_of(): (n) int64, or with `multilabel`
  // (n, classes) uint8.
  at::Tensor right_classes(const at::Tensor& labels) const {
    if (!soft_) return labels;
    return multilabel_ ? labels.ge(0.5).to(at::kByte) : labels.argmax(1);
  }

  // `classes`: what right_classes(all.labels) returned. Both arguments must outlive the result,
  // which points into them.
  ScoredExamples examples_of(const Collected& all, const at::Tensor& classes) const {
    const auto n = static_cast<size_t>(all.size);
    ScoredExamples examples;
    examples.classes = all.outputs.size(1);
    const size_t values = n * static_cast<size_t>(examples.classes);
    examples.logits = {all.outputs.const_data_ptr<float>(), values};
    examples.threshold = threshold_;
    if (multilabel_)
      examples.labels = {classes.const_data_ptr<uint8_t>(), values};
    else
      examples.truth = {classes.const_data_ptr<int64_t>(), n};
    if (soft_) examples.soft = {all.labels.const_data_ptr<float>(), values};
    return examples;
  }

  std::vector<std::string> class_names(int64_t classes) const {
    std::vector<std::string> names = input_.class_names(label_key_);
    for (int64_t c = std::ssize(names); c < classes; ++c) names.push_back(std::to_string(c));
    names.resize(static_cast<size_t>(classes));
    return names;
  }

  // `scores` is null on all ranks except rank 0.
  void emit_metrics(const EvalContext& context, int64_t classes, const ClassScores* scores,
                    const Measure& emit) const {
    const std::vector<std::string> ends = class_name_ends(class_names(classes));
    std::vector<std::string> names;
    std::vector<double> values;
    for (const ClassMetric& metric : metrics_) {
      if (!metric.per_class) {
        names.push_back(metric.name);
        values.push_back(scores ? metric.value(*scores) : kNotComputed);
        continue;
      }
      const std::string stem = metric.name.substr(0, metric.name.find('_'));
      for (int64_t c = 0; c < classes; ++c) {
        names.push_back(stem + "@" + ends[c]);
        values.push_back(scores ? metric.value_of_class(*scores, c) : kNotComputed);
      }
    }
    share_values(*context.group, values);
    for (size_t i = 0; i < names.size(); ++i) emit(names[i], values[i]);
  }

  const std::string name_, label_key_;
  const bool follows_multilabel_;  // `multilabel` is not set, so it is the task's
  const bool multilabel_, soft_;
  const double threshold_;
  const int64_t num_classes_;  // of the model; 0 if unknown
  std::vector<ClassMetric> metrics_;
  mutable EvalInput input_;  // opens its data on first use
  WithoutClassNote without_class_;
};

const Register<Evaluator, ClassMetrics> registered_class_metrics("class_metrics");

}  // namespace
}  // namespace bv

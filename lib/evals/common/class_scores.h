// Metrics of a classifier from its logits and the right classes of all examples, in float64 and in
// the order of the examples. They are scikit-learn's, with zero_division=0. scikit-learn has none
// for soft labels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/evals/common/binary_ranking.h"

namespace bv {

// The logits of a classifier for n examples, and their true classes, in either `truth` or `labels`.
struct ScoredExamples {
  int64_t classes = 0;
  std::span<const float> logits;    // (n, classes), finite
  std::span<const int64_t> truth;   // (n): each example has one class; probabilities by softmax
  std::span<const uint8_t> labels;  // (n, classes), 0 or 1: multilabel; probabilities by sigmoid
  std::span<const float> soft;      // (n, classes), 0..1, or empty: what log_loss and brier use
  double threshold = 0.5;           // with `labels`, the minimum probability of a predicted class
};

// How often a class occurs, is predicted, and is predicted correctly.
struct ClassCounts {
  int64_t truth = 0, guessed = 0, right = 0;
  double precision() const;  // 0 if it was never predicted
  double recall() const;     // 0 if it did not occur
  double f1() const;         // 0 if it neither occurred nor was predicted
};

enum class Averaging { macro, micro, weighted };

class ClassScores {
 public:
  // The arrays of `examples` must outlive this. There is at least one example.
  explicit ClassScores(const ScoredExamples& examples);

  int64_t size() const { return size_; }  // of the examples
  bool multilabel() const { return examples_.truth.empty(); }
  const std::vector<ClassCounts>& counts() const { return counts_; }
  // Returns the fraction of examples whose prediction is entirely correct. If two logits are equal,
  // the lower class is predicted.
  double accuracy() const;
  // Returns the share of examples whose class is among the k highest logits. Not with `labels`.
  double top(int64_t k) const;
  // Returns the mean recall of the classes that occur. Not with `labels`.
  double balanced_accuracy() const;
  // Return means over the classes. `macro` leaves out a class that neither occurs nor is predicted,
  // except with `labels`.
  double precision(Averaging averaging) const;
  double recall(Averaging averaging) const;
  double f1(Averaging averaging) const;
  // Returns the mean over the examples of -log(p) of the right class; with soft labels y, of
  // -sum(y log(p)). With `labels` it returns the mean over examples and classes of the binary log
  // loss. Probabilities are not clipped.
  double log_loss() const;
  // Returns the mean over the examples of sum((p - y)^2). With two classes, also with soft labels,
  // it returns half of that: (p - y)^2 of either class. With `labels` it returns the mean over
  // examples and classes of (p - y)^2.
  double brier() const;

  // Returns the examples ranked by the probability of a class. Ranks by log probabilities, which
  // still differ where probabilities round to 1.
  BinaryRanking ranking(int64_t label) const;
  // Return the AUROC, or the average precision, of each class; NaN where it is undefined. Computed
  // on the first call.
  const std::vector<double>& aurocs() const;
  const std::vector<double>& average_precisions() const;
  // Returns the mean of the values that are not NaN, or their mean weighted by how often each class
  // occurs. NaN if all are.
  double mean_over_classes(const std::vector<double>& values, bool weighted) const;

  // Returns how often class t was predicted as class g, at [t * classes + g]. Not with `labels`.
  std::vector<int64_t> confusion() const;

 private:
  const float* row(int64_t i) const { return examples_.logits.data() + i * examples_.classes; }
  bool is_positive(int64_t i, int64_t label) const;
  // Returns what the probability of class `label` should be: its share, or 0 or 1.
  double target(int64_t i, int64_t label) const;
  double log_probability(int64_t i, int64_t label) const;
  double average(Averaging averaging, double (ClassCounts::*value)() const) const;
  void rank_classes() const;

  const ScoredExamples examples_;
  const int64_t size_;
  std::vector<int64_t> guess_;    // (n) without `labels`
  std::vector<double> log_sums_;  // (n) without `labels`: log(sum(exp(logits - max)))
  std::vector<ClassCounts> counts_;
  int64_t whole_right_ = 0;
  mutable std::vector<double> aurocs_, average_precisions_;
};

}  // namespace bv

#include "lib/evals/common/class_scores.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace bv {
namespace {

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

double sigmoid(double z) {
  return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z));
}

// log(1 + exp(z)), without overflow.
double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

}  // namespace

double ClassCounts::precision() const { return share(right, guessed); }
double ClassCounts::recall() const { return share(right, truth); }
double ClassCounts::f1() const { return share(2 * right, truth + guessed); }

ClassScores::ClassScores(const ScoredExamples& examples)
    : examples_(examples),
      size_(std::ssize(examples.logits) / examples.classes),
      counts_(static_cast<size_t>(examples.classes)) {
  const int64_t classes = examples_.classes;
  for (int64_t i = 0; i < size_; ++i) {
    const float* z = row(i);
    if (multilabel()) {
      bool whole = true;
      for (int64_t c = 0; c < classes; ++c) {
        const bool truth = is_positive(i, c), guessed = sigmoid(z[c]) >= examples_.threshold;
        counts_[c].truth += truth;
        counts_[c].guessed += guessed;
        counts_[c].right += truth && guessed;
        whole &= truth == guessed;
      }
      whole_right_ += whole;
      continue;
    }
    const int64_t guess = std::max_element(z, z + classes) - z;  // the first of equal ones
    double others = 0;
    for (int64_t c = 0; c < classes; ++c)
      if (c != guess) others += std::exp(static_cast<double>(z[c]) - z[guess]);
    log_sums_.push_back(std::log1p(others));
    guess_.push_back(guess);
    const bool right = guess == examples_.truth[i];
    ++counts_[examples_.truth[i]].truth;
    ++counts_[guess].guessed;
    counts_[guess].right += right;
    whole_right_ += right;
  }
}

bool ClassScores::is_positive(int64_t i, int64_t label) const {
  return multilabel() ? examples_.labels[i * examples_.classes + label] != 0
                      : examples_.truth[i] == label;
}

double ClassScores::target(int64_t i, int64_t label) const {
  if (!examples_.soft.empty()) return examples_.soft[i * examples_.classes + label];
  return is_positive(i, label) ? 1 : 0;
}

double ClassScores::log_probability(int64_t i, int64_t label) const {
  return static_cast<double>(row(i)[label]) - row(i)[guess_[i]] - log_sums_[i];
}

double ClassScores::accuracy() const { return share(whole_right_, size_); }

double ClassScores::top(int64_t k) const {
  int64_t found = 0;
  for (int64_t i = 0; i < size_; ++i) {
    const float* z = row(i);
    const int64_t truth = examples_.truth[i];
    int64_t better = 0;
    for (int64_t c = 0; c < examples_.classes; ++c)
      better += z[c] > z[truth] || (z[c] == z[truth] && c < truth);
    found += better < k;
  }
  return share(found, size_);
}

double ClassScores::balanced_accuracy() const {
  double sum = 0;
  int64_t present = 0;
  for (const ClassCounts& one : counts_) {
    if (one.truth == 0) continue;
    sum += one.recall();
    ++present;
  }
  return sum / static_cast<double>(present);
}

double ClassScores::average(Averaging averaging, double (ClassCounts::*value)() const) const {
  ClassCounts all;
  double sum = 0, weights = 0;
  for (const ClassCounts& one : counts_) {
    all.truth += one.truth;
    all.guessed += one.guessed;
    all.right += one.right;
    const bool counts = multilabel() || one.truth > 0 || one.guessed > 0;
    const double weight =
        averaging == Averaging::weighted ? static_cast<double>(one.truth) : (counts ? 1.0 : 0.0);
    sum += weight * (one.*value)();
    weights += weight;
  }
  if (averaging == Averaging::micro) return (all.*value)();
  return weights > 0 ? sum / weights : 0;
}

double ClassScores::precision(Averaging averaging) const {
  return average(averaging, &ClassCounts::precision);
}
double ClassScores::recall(Averaging averaging) const {
  return average(averaging, &ClassCounts::recall);
}
double ClassScores::f1(Averaging averaging) const { return average(averaging, &ClassCounts::f1); }

double ClassScores::log_loss() const {
  double sum = 0;
  for (int64_t i = 0; i < size_; ++i) {
    for (int64_t c = 0; c < examples_.classes; ++c) {
      const double y = target(i, c);
      if (multilabel())
        sum += y * softplus(-row(i)[c]) + (1 - y) * softplus(row(i)[c]);
      else if (y > 0)
        sum -= y * log_probability(i, c);
    }
  }
  return sum / static_cast<double>(multilabel() ? size_ * examples_.classes : size_);
}

double ClassScores::brier() const {
  double sum = 0;
  for (int64_t i = 0; i < size_; ++i) {
    for (int64_t c = 0; c < examples_.classes; ++c) {
      const double p = multilabel() ? sigmoid(row(i)[c]) : std::exp(log_probability(i, c));
      const double distance = p - target(i, c);
      sum += distance * distance;
    }
  }
  // With two classes, both terms are equal; scikit-learn counts one (scale_by_half="auto").
  const bool mean_of_classes = multilabel() || examples_.classes == 2;
  return sum / static_cast<double>(mean_of_classes ? size_ * examples_.classes : size_);
}

BinaryRanking ClassScores::ranking(int64_t label) const {
  std::vector<double> scores;
  std::vector<uint8_t> positive;
  scores.reserve(size_);
  positive.reserve(size_);
  for (int64_t i = 0; i < size_; ++i) {
    scores.push_back(multilabel() ? row(i)[label] : log_probability(i, label));
    positive.push_back(is_positive(i, label) ? 1 : 0);
  }
  return rank_scores(scores, positive);
}

void ClassScores::rank_classes() const {
  if (!aurocs_.empty()) return;
  aurocs_.resize(counts_.size());
  average_precisions_.resize(counts_.size());
  at::parallel_for(0, examples_.classes, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const BinaryRanking ranked = ranking(c);
      aurocs_[c] = auroc(ranked);
      average_precisions_[c] = average_precision(ranked);
    }
  });
}

const std::vector<double>& ClassScores::aurocs() const {
  rank_classes();
  return aurocs_;
}

const std::vector<double>& ClassScores::average_precisions() const {
  rank_classes();
  return average_precisions_;
}

double ClassScores::mean_over_classes(const std::vector<double>& values, bool weighted) const {
  double sum = 0, weights = 0;
  for (size_t c = 0; c < values.size(); ++c) {
    if (std::isnan(values[c])) continue;
    const double weight = weighted ? static_cast<double>(counts_[c].truth) : 1;
    sum += weight * values[c];
    weights += weight;
  }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

std::vector<int64_t> ClassScores::confusion() const {
  std::vector<int64_t> matrix(static_cast<size_t>(examples_.classes * examples_.classes));
  for (int64_t i = 0; i < size_; ++i) ++matrix[examples_.truth[i] * examples_.classes + guess_[i]];
  return matrix;
}

}  // namespace bv

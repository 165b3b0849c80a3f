#include "lib/evals/common/class_details.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace bv {
namespace {

constexpr int64_t kMostConfused = 1000;  // classes of a confusion matrix
constexpr size_t kWorstClasses = 10;
constexpr size_t kCurvePoints = 200;
constexpr size_t kMeanPoints = 101;

// Returns the points (i / (n - 1), mean over the curves at i).
EvalDetails::Points mean_curve(const std::vector<std::vector<double>>& curves) {
  EvalDetails::Points points;
  for (size_t i = 0; !curves.empty() && i < kMeanPoints; ++i) {
    double sum = 0;
    for (const std::vector<double>& curve : curves) sum += curve[i];
    points.emplace_back(static_cast<double>(i) / (kMeanPoints - 1),
                        sum / static_cast<double>(curves.size()));
  }
  return points;
}

// Returns the UTF-8 name with an underscore for each character other than letters, digits and
// _ - . Returns "" if it has no letter and no digit, unless it has only such characters.
std::string plain_name(const std::string& name) {
  std::string plain;
  bool any = false, changed = false;
  for (const unsigned char c : name) {
    if ((c & 0xC0) == 0x80) continue;  // not the first byte of a character
    const bool alphanumeric = c < 0x80 && std::isalnum(c) != 0;
    const bool stays = alphanumeric || c == '_' || c == '-' || c == '.';
    plain += stays ? static_cast<char>(c) : '_';
    any |= alphanumeric;
    changed |= !stays;
  }
  return any || !changed ? plain : "";
}

// Returns the classes with the lowest average precision, the worst first.
std::vector<int64_t> worst_classes(const std::vector<double>& average_precisions) {
  std::vector<int64_t> order;
  for (int64_t c = 0; c < std::ssize(average_precisions); ++c)
    if (!std::isnan(average_precisions[c])) order.push_back(c);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return average_precisions[a] < average_precisions[b];
  });
  if (order.size() > kWorstClasses) order.resize(kWorstClasses);
  return order;
}

std::vector<EvalDetails::Curves> class_curves(const ClassScores& scores,
                                              const std::vector<std::string>& names) {
  const std::vector<double>& average_precisions = scores.average_precisions();
  const std::vector<int64_t> worst = worst_classes(average_precisions);
  std::vector<std::vector<double>> rates, precision;
  std::vector<EvalDetails::Curves> curves(1 + worst.size());
  for (int64_t c = 0; c < std::ssize(average_precisions); ++c) {
    const BinaryRanking ranking = scores.ranking(c);
    if (auto of_class = true_positive_rates(ranking, kMeanPoints); !of_class.empty())
      rates.push_back(std::move(of_class));
    if (auto of_class = precisions(ranking, kMeanPoints); !of_class.empty())
      precision.push_back(std::move(of_class));
    const auto place = std::find(worst.begin(), worst.end(), c) - worst.begin();
    if (place == std::ssize(worst)) continue;
    curves[1 + place] = {names[c], roc_curve(ranking, kCurvePoints),
                         precision_recall_curve(ranking, kCurvePoints)};
  }
  curves[0] = {"mean", mean_curve(rates), mean_curve(precision)};
  return curves;
}

}  // namespace

EvalDetails class_details(const ClassScores& scores, const std::vector<std::string>& names) {
  EvalDetails details;
  details.class_names = names;
  const int64_t classes = std::ssize(scores.counts());
  for (int64_t c = 0; c < classes; ++c) {
    const ClassCounts& counts = scores.counts()[c];
    details.classes.push_back({counts.truth, counts.precision(), counts.recall(), counts.f1(),
                               scores.average_precisions()[c], scores.aurocs()[c]});
  }
  details.curves = class_curves(scores, names);
  if (scores.multilabel() || classes > kMostConfused) return details;
  const std::vector<int64_t> matrix = scores.confusion();
  for (int64_t t = 0; t < classes; ++t) {
    const auto row = matrix.begin() + t * classes;
    details.confusion.emplace_back(row, row + classes);
  }
  return details;
}

std::vector<std::string> class_name_ends(const std::vector<std::string>& names) {
  std::map<std::string, int> plain, all;  // how many classes have the name
  std::vector<std::string> ends, numbers;
  for (const std::string& name : names) {
    ends.push_back(plain_name(name));
    ++all[ends.back()];
    if (ends.back() == name) ++plain[name];
  }
  for (size_t c = 0; c < names.size(); ++c) {
    numbers.push_back(std::to_string(c));
    // A name that needed no change goes before one that did.
    const int others = (ends[c] == names[c] ? plain : all)[ends[c]];
    if (ends[c].empty() || others > 1) ends[c] = numbers.back();
  }
  // A class may be called like the number of another one.
  const std::set<std::string> distinct(ends.begin(), ends.end());
  return distinct.size() == ends.size() ? ends : numbers;
}

}  // namespace bv

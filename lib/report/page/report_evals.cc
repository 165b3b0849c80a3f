#include "lib/report/page/report_evals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "lib/report/page/class_labels.h"
#include "lib/report/page/html.h"
#include "lib/report/page/report_curves.h"
#include "lib/report/page/report_mistakes.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostMatrixClasses = 30;
constexpr size_t kMostPairs = 30;
constexpr size_t kMostBars = 30;
constexpr size_t kMostBins = 20;
constexpr size_t kLongestEvaluatorName = 120;

using Matrix = std::vector<std::vector<int64_t>>;

int64_t sum(const std::vector<int64_t>& row) {
  return std::accumulate(row.begin(), row.end(), int64_t{0});
}

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

bool is_square(const Matrix& matrix) {
  return std::all_of(matrix.begin(), matrix.end(),
                     [&](const auto& row) { return row.size() == matrix.size(); });
}

std::string matrix_table(const Matrix& matrix, const ClassLabels& names) {
  std::string out =
      "<div class=\"scroll\"><table class=\"confusion\"><thead><tr><th class=\"corner\">truth "
      "&#8595; prediction &#8594;</th>";
  for (size_t c = 0; c < matrix.size(); ++c) {
    out += fmt::format("<th class=\"guess\"><span>{}</span></th>", names(static_cast<int64_t>(c)));
  }
  out += "</tr></thead><tbody>\n";
  for (size_t t = 0; t < matrix.size(); ++t) {
    const int64_t total = sum(matrix[t]);
    out += fmt::format("<tr><th class=\"truth\">{}</th>", names(static_cast<int64_t>(t)));
    for (size_t g = 0; g < matrix.size(); ++g) {
      const int64_t n = matrix[t][g];
      if (n == 0) {
        out += "<td></td>";
        continue;
      }
      // The square root keeps single mistakes visible next to hundreds of correct examples. Colours
      // stay pale, so that the number is readable on all of them.
      const double strength = 0.06 + 0.56 * std::sqrt(share(n, total));
      out += fmt::format(
          "<td class=\"{}\" style=\"--a:{:.2f}\" title=\"truth {}, predicted {}: {} of "
          "{}\">{}</td>",
          t == g ? "right" : "wrong", strength, names(static_cast<int64_t>(t)),
          names(static_cast<int64_t>(g)), n, total, n);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

struct ConfusedPair {
  int64_t count = 0, truth = 0, guess = 0;
};

std::string pairs_table(const Matrix& matrix, const ClassLabels& names) {
  std::vector<ConfusedPair> pairs;
  for (size_t t = 0; t < matrix.size(); ++t) {
    for (size_t g = 0; g < matrix.size(); ++g) {
      if (t == g || matrix[t][g] == 0) continue;
      pairs.push_back({matrix[t][g], static_cast<int64_t>(t), static_cast<int64_t>(g)});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const ConfusedPair& a, const ConfusedPair& b) { return a.count > b.count; });
  if (pairs.size() > kMostPairs) pairs.resize(kMostPairs);
  if (pairs.empty()) return "<p>No mistakes.</p>\n";
  std::string out =
      "<div class=\"scroll\"><table "
      "class=\"pairs\"><thead><tr><th>truth</th><th>prediction</th><th>count</th>"
      "<th>share of the class</th></tr></thead><tbody>\n";
  for (const ConfusedPair& pair : pairs) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td></tr>\n",
                       names(pair.truth), names(pair.guess), pair.count,
                       100 * share(pair.count, sum(matrix[static_cast<size_t>(pair.truth)])));
  }
  return out + "</tbody></table></div>\n";
}

std::string accuracy_bars(const Matrix& matrix, const ClassLabels& names) {
  struct Class {
    int64_t label = 0, right = 0, total = 0;
  };
  std::vector<Class> classes;
  for (size_t t = 0; t < matrix.size(); ++t) {
    const int64_t total = sum(matrix[t]);
    if (total > 0) classes.push_back({static_cast<int64_t>(t), matrix[t][t], total});
  }
  const size_t all = classes.size();
  std::string out = "<h3>Accuracy per class</h3>\n";
  if (all > kMostBars) {
    std::stable_sort(classes.begin(), classes.end(), [](const Class& a, const Class& b) {
      return share(a.right, a.total) < share(b.right, b.total);
    });
    classes.resize(kMostBars);
    out += fmt::format("<p class=\"hint\">The {} worst of {} classes.</p>\n", kMostBars, all);
  }
  out += "<div class=\"bars\">\n";
  for (const Class& one : classes) {
    const double accuracy = 100 * share(one.right, one.total);
    out += fmt::format(
        "<span class=\"name\">{}</span><span class=\"track\"><span class=\"bar\" "
        "style=\"width:{:.1f}%\"></span></span><span class=\"value\">{:.1f} % <small>{} of {}"
        "</small></span>\n",
        names(one.label), accuracy, accuracy, one.right, one.total);
  }
  return out + "</div>\n";
}

// Returns one bin with the examples of all these bins.
EvalDetails::Bin joined(std::span<const EvalDetails::Bin> bins) {
  EvalDetails::Bin all;
  for (const EvalDetails::Bin& bin : bins) {
    all.examples += bin.examples;
    all.confidence += bin.examples * bin.confidence;
    all.accuracy += bin.examples * bin.accuracy;
  }
  if (all.examples > 0) {
    all.confidence /= all.examples;
    all.accuracy /= all.examples;
  }
  return all;
}

// For each confidence interval: a bar for its share of the examples, and their accuracy. Adjacent
// intervals are joined if there are many.
std::string calibration_bars(std::span<const EvalDetails::Bin> bins) {
  const double all = joined(bins).examples;
  if (!(all > 0)) return "";
  std::string out =
      "<h3>Confidence</h3>\n<p class=\"hint\">Examples by the probability of the prediction. A "
      "calibrated model is right in 80 % of the cases to which it gives a probability of 80 %."
      "</p>\n<div class=\"bars\">\n";
  const auto count = static_cast<double>(bins.size());
  const size_t each = (bins.size() + kMostBins - 1) / kMostBins;
  for (size_t low = 0; low < bins.size(); low += each) {
    const size_t high = std::min(low + each, bins.size());
    const EvalDetails::Bin bin = joined(bins.subspan(low, high - low));
    out += fmt::format(
        "<span class=\"name\">{:.3g} &#8211; {:.3g}</span><span class=\"track\"><span "
        "class=\"bar\" style=\"width:{:.1f}%\"></span></span><span class=\"value\">{}</span>\n",
        static_cast<double>(low) / count, static_cast<double>(high) / count,
        100 * bin.examples / all,
        bin.examples > 0
            ? fmt::format("{:.1f} % right, {:.1f} % sure <small>{:.6g} examples</small>",
                          100 * bin.accuracy, 100 * bin.confidence, bin.examples)
            : "<small>none</small>");
  }
  return out + "</div>\n";
}

// Returns the matrix, or the most confused pairs if it would have too many classes or bytes.
std::string confusion(const Matrix& matrix, const ClassLabels& names, size_t most_bytes) {
  if (matrix.size() <= kMostMatrixClasses) {
    const std::string table = matrix_table(matrix, names);
    if (table.size() <= most_bytes) return "<h3>Confusion matrix</h3>\n" + table;
  }
  return "<h3>Most confused pairs</h3>\n" + pairs_table(matrix, names);
}

}  // namespace

std::string render_details(const EvalDetails& details, size_t most_bytes) {
  const ClassLabels names(details);
  const Matrix& matrix = details.confusion;
  std::string out =
      fmt::format("<section><h2>{} <small>at step {}</small></h2>\n",
                  escape_html(clipped_bytes(details.evaluator, kLongestEvaluatorName)),
                  human_count(details.step));
  if (!matrix.empty() && is_square(matrix)) {
    out += "<div class=\"beside\"><div>\n" + confusion(matrix, names, most_bytes / 2) +
           "</div><div class=\"wide\">\n" + accuracy_bars(matrix, names) + "</div></div>\n";
  }
  out += calibration_bars(details.calibration);
  for (const std::string& part :
       {render_class_table(details), render_curves(details), render_residuals(details)}) {
    if (out.size() + part.size() < most_bytes) out += part;
  }
  if (out.size() < most_bytes) out += render_mistakes(details, most_bytes - out.size());
  return out + "</section>\n";
}

}  // namespace bv

#include "lib/report/report_evals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/report/html.h"
#include "lib/report/png.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostMatrixClasses = 30;
constexpr size_t kMostPairs = 30;
constexpr size_t kMostBars = 30;
constexpr size_t kMostWrong = 48;

using Matrix = std::vector<std::vector<int64_t>>;

int64_t sum(const std::vector<int64_t>& row) {
  return std::accumulate(row.begin(), row.end(), int64_t{0});
}

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

class Names {
 public:
  explicit Names(const EvalDetails& details) : details_(details) {}
  // Returns the escaped name of a class.
  std::string operator()(int64_t label) const {
    const auto i = static_cast<size_t>(label);
    return label >= 0 && i < details_.class_names.size() ? escape_html(details_.class_names[i])
                                                         : fmt::format("class {}", label);
  }

 private:
  const EvalDetails& details_;
};

bool is_square(const Matrix& matrix) {
  return std::all_of(matrix.begin(), matrix.end(),
                     [&](const auto& row) { return row.size() == matrix.size(); });
}

std::string matrix_table(const Matrix& matrix, const Names& names) {
  std::string out =
      "<div class=\"scroll\"><table class=\"confusion\"><thead><tr><th class=\"corner\">truth "
      "&#8595; guess &#8594;</th>";
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
      // The square root keeps single mistakes visible next to hundreds of right guesses.
      const double strength = 0.08 + 0.92 * std::sqrt(share(n, total));
      out += fmt::format(
          "<td class=\"{}{}\" style=\"--a:{:.2f}\" title=\"truth {}, guess {}: {} of {}\">{}</td>",
          t == g ? "right" : "wrong", strength > 0.6 ? " strong" : "", strength,
          names(static_cast<int64_t>(t)), names(static_cast<int64_t>(g)), n, total, n);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

struct ConfusedPair {
  int64_t count = 0, truth = 0, guess = 0;
};

std::string pairs_table(const Matrix& matrix, const Names& names) {
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
      "<table class=\"pairs\"><thead><tr><th>truth</th><th>guess</th><th>count</th>"
      "<th>share of the class</th></tr></thead><tbody>\n";
  for (const ConfusedPair& pair : pairs) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td></tr>\n",
                       names(pair.truth), names(pair.guess), pair.count,
                       100 * share(pair.count, sum(matrix[static_cast<size_t>(pair.truth)])));
  }
  return out + "</tbody></table>\n";
}

std::string accuracy_bars(const Matrix& matrix, const Names& names) {
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

// For each interval of confidence: a bar for its share of the examples, and their accuracy.
std::string calibration_bars(const std::vector<EvalDetails::Bin>& bins) {
  double all = 0;
  for (const EvalDetails::Bin& bin : bins) all += bin.examples;
  if (!(all > 0)) return "";
  std::string out =
      "<h3>Confidence</h3>\n<p class=\"hint\">Examples by the probability of the guess. A "
      "calibrated model is right in 80 % of the cases to which it gives a probability of 80 %."
      "</p>\n<div class=\"bars\">\n";
  const auto count = static_cast<double>(bins.size());
  for (size_t b = 0; b < bins.size(); ++b) {
    const auto low = static_cast<double>(b);
    const EvalDetails::Bin& bin = bins[b];
    out += fmt::format(
        "<span class=\"name\">{:.3g} &#8211; {:.3g}</span><span class=\"track\"><span "
        "class=\"bar\" style=\"width:{:.1f}%\"></span></span><span class=\"value\">{}</span>\n",
        low / count, (low + 1) / count, 100 * bin.examples / all,
        bin.examples > 0
            ? fmt::format("{:.1f} % right, {:.1f} % sure <small>{:.6g} examples</small>",
                          100 * bin.accuracy, 100 * bin.confidence, bin.examples)
            : "<small>none</small>");
  }
  return out + "</div>\n";
}

std::string wrong_images(const EvalDetails& details, const Names& names) {
  std::string out;
  size_t shown = 0;
  for (const EvalDetails::Wrong& wrong : details.wrong) {
    const std::string uri = png_data_uri(wrong.pixels, wrong.height, wrong.width, wrong.channels);
    if (uri.empty()) continue;
    if (shown++ == kMostWrong) break;
    out += fmt::format(
        "<figure><img src=\"{}\" width=\"{}\" height=\"{}\" alt=\"example {}\"><figcaption>{} "
        "&#8594; <b>{}</b><small>{:.0f} % sure, example {}</small></figcaption></figure>\n",
        uri, wrong.width, wrong.height, wrong.index, names(wrong.truth), names(wrong.guess),
        100 * wrong.confidence, wrong.index);
  }
  if (out.empty()) return out;
  return "<h3>Wrongly classified</h3>\n<p class=\"hint\">truth &#8594; guess</p>\n"
         "<div class=\"gallery\">\n" +
         out + "</div>\n";
}

}  // namespace

std::string render_details(const EvalDetails& details) {
  const Names names(details);
  const Matrix& matrix = details.confusion;
  std::string out = fmt::format("<section><h2>{} <small>at step {}</small></h2>\n",
                                escape_html(details.evaluator), human_count(details.step));
  if (!matrix.empty() && is_square(matrix)) {
    if (matrix.size() <= kMostMatrixClasses) {
      out +=
          "<div class=\"beside\"><div>\n<h3>Confusion matrix</h3>\n" + matrix_table(matrix, names);
    } else {
      out += "<div class=\"beside\"><div>\n<h3>Most confused pairs</h3>\n" +
             pairs_table(matrix, names);
    }
    out += "</div><div class=\"wide\">\n" + accuracy_bars(matrix, names) + "</div></div>\n";
  }
  out += calibration_bars(details.calibration);
  return out + wrong_images(details, names) + "</section>\n";
}

}  // namespace bv

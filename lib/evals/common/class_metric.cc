#include "lib/evals/common/class_metric.h"

#include <charconv>
#include <system_error>

#include "lib/util/error.h"

namespace bv {
namespace {

using Figure = ClassMetric::Figure;

}  // namespace

double ClassMetric::value(const ClassScores& scores) const {
  const bool weighted = averaging == Averaging::weighted;
  switch (figure) {
    case Figure::accuracy:
      return scores.accuracy();
    case Figure::balanced_accuracy:
      return scores.balanced_accuracy();
    case Figure::top:
      return scores.top(k);
    case Figure::precision:
      return scores.precision(averaging);
    case Figure::recall:
      return scores.recall(averaging);
    case Figure::f1:
      return scores.f1(averaging);
    case Figure::auroc:
      return scores.mean_over_classes(scores.aurocs(), weighted);
    case Figure::average_precision:
      return scores.mean_over_classes(scores.average_precisions(), weighted);
    case Figure::log_loss:
      return scores.log_loss();
    case Figure::brier:
      return scores.brier();
  }
  throw Error(Exit::internal, "internal", "a metric without a value");
}

double ClassMetric::value_of_class(const ClassScores& scores, int64_t label) const {
  const ClassCounts& counts = scores.counts()[label];
  switch (figure) {
    case Figure::precision:
      return counts.precision();
    case Figure::recall:
      return counts.recall();
    case Figure::f1:
      return counts.f1();
    case Figure::auroc:
      return scores.aurocs()[label];
    case Figure::average_precision:
      return scores.average_precisions()[label];
    default:
      throw Error(Exit::internal, "internal", "a metric without values per class");
  }
}

std::vector<ClassMetric> known_class_metrics() {
  std::vector<ClassMetric> all = {{"accuracy", Figure::accuracy},
                                  {"balanced_accuracy", Figure::balanced_accuracy}};
  const auto add = [&](const std::string& name, Figure figure, bool micro) {
    all.push_back({name + "_macro", figure, Averaging::macro});
    if (micro) all.push_back({name + "_micro", figure, Averaging::micro});
    all.push_back({name + "_weighted", figure, Averaging::weighted});
    all.push_back({name + "_per_class", figure, Averaging::macro, /*per_class=*/true});
  };
  add("precision", Figure::precision, true);
  add("recall", Figure::recall, true);
  add("f1", Figure::f1, true);
  add("auroc", Figure::auroc, false);
  add("ap", Figure::average_precision, false);
  for (ClassMetric& metric : all)
    if (metric.name == "ap_macro") metric.name = "map";
  all.push_back({"log_loss", Figure::log_loss});
  all.push_back({"brier", Figure::brier});
  return all;
}

std::optional<ClassMetric> find_class_metric(const std::string& name) {
  for (const ClassMetric& metric : known_class_metrics())
    if (metric.name == name) return metric;
  if (!name.starts_with("top")) return std::nullopt;
  ClassMetric top = {name, Figure::top};
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), top.k);
  const bool number = error == std::errc() && end == name.data() + name.size() && name[3] != '0';
  return number && top.k > 0 ? std::optional(top) : std::nullopt;
}

std::vector<std::string> default_class_metrics(bool multilabel) {
  return {"accuracy",
          multilabel ? "f1_micro" : "balanced_accuracy",
          "precision_macro",
          "recall_macro",
          "f1_macro",
          "auroc_macro",
          "map",
          "log_loss",
          "brier"};
}

}  // namespace bv

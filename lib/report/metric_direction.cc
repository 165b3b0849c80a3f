#include "lib/report/metric_direction.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>
#include <vector>

namespace bv {
namespace {

using Words = std::span<const std::string_view>;
constexpr std::string_view kAccuracies[] = {"prec", "precision", "acc",     "accuracy", "top",
                                            "hits", "recall",    "correct", "ncorrect", "shot"};
constexpr std::string_view kOthersUp[] = {"f1",   "auc",  "auroc", "map",  "ap",   "r2",
                                          "miou", "dice", "psnr",  "ssim", "bleu", "iou"};
constexpr std::string_view kDown[] = {"losses",     "errors", "err", "ece", "mce",
                                      "nll",        "xent",   "mse", "mae", "rmse",
                                      "perplexity", "brier",  "ppl", "fid", "wer"};
// A name with one of these means something else: "loss_scale", "recall_seconds".
constexpr std::string_view kNeither[] = {"scale", "weight", "seconds", "secs", "time", "lr"};

// Returns the words of the last part of `name` in lower case, up to an '@', which a class name may
// follow: {"f1"} for "val/f1@bone_loss".
std::vector<std::string> words_of(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  std::vector<std::string> words{""};
  for (const char c : name.substr(0, name.find('@'))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      words.emplace_back();
  }
  return words;
}

// "top" for "top5", "shot" for "10shot".
std::string without_digits(const std::string& word) {
  const size_t first = word.find_first_not_of("0123456789");
  if (first == std::string::npos) return "";
  return word.substr(first, word.find_last_not_of("0123456789") + 1 - first);
}

enum class MetricKind { unknown, neither, down, accuracy, other_up };

MetricKind kind_of_word(const std::string& word) {
  const std::string bare = without_digits(word);
  const auto is_one_of = [&](Words known) {
    return std::any_of(known.begin(), known.end(),
                       [&](std::string_view each) { return each == word || each == bare; });
  };
  if (is_one_of(kNeither)) return MetricKind::neither;
  if (is_one_of(kDown) || word.ends_with("loss") || word.ends_with("error"))
    return MetricKind::down;
  if (is_one_of(kAccuracies)) return MetricKind::accuracy;
  return is_one_of(kOthersUp) ? MetricKind::other_up : MetricKind::unknown;
}

// Returns the kind of the last word that has one: "top1_error" is an error.
MetricKind kind_of(std::string_view name) {
  MetricKind kind = MetricKind::unknown;
  for (const std::string& word : words_of(name)) {
    if (const MetricKind known = kind_of_word(word); known != MetricKind::unknown) kind = known;
  }
  return kind;
}

}  // namespace

Direction metric_direction(std::string_view name) {
  const MetricKind kind = kind_of(name);
  if (kind == MetricKind::down) return Direction::down;
  return kind == MetricKind::accuracy || kind == MetricKind::other_up ? Direction::up
                                                                      : Direction::none;
}

bool is_better(double a, double b, bool higher_is_better) {
  return higher_is_better ? a > b : a < b;
}

bool is_accuracy(std::string_view name) { return kind_of(name) == MetricKind::accuracy; }

bool is_of_class(std::string_view name) {
  const std::string_view metric = name.substr(name.rfind('/') + 1);
  return metric.find('@') != std::string_view::npos &&
         metric.find("prec@") == std::string_view::npos;
}

}  // namespace bv

#include "lib/report/metric_direction.h"

#include <algorithm>
#include <cctype>
#include <iterator>
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
constexpr std::string_view kDown[] = {
    "losses", "errors",     "err",   "ece", "mce", "nll", "xent", "mse", "mae",
    "rmse",   "perplexity", "brier", "ppl", "fid", "wer", "kl",   "kld", "divergence"};
// The kinds of the evaluator `distance`, except `agree`, which is better if it is higher.
constexpr std::string_view kDistances[] = {"kl", "hard", "l2", "euclidean", "logsoftmax_euclidean"};
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

// Returns the kind of a metric of the evaluator `distance`, such as "val/kind=kl_t=2/avg". Any
// other name is `unknown`.
MetricKind kind_of_distance(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return MetricKind::unknown;
  const std::string_view what = name.substr(slash + 1);
  if (what != "avg" && what != "min" && what != "max") return MetricKind::unknown;
  constexpr std::string_view kKind = "kind=";
  const std::string_view entry = name.substr(0, slash);
  const size_t at = entry.rfind(kKind);
  if (at == std::string_view::npos) return MetricKind::unknown;
  const std::string_view kind = entry.substr(at + kKind.size());
  const auto is = [&](std::string_view known) {  // an argument may follow: "kl_t=2"
    return kind == known || (kind.starts_with(known) && kind[known.size()] == '_');
  };
  if (is("agree")) return MetricKind::other_up;
  return std::any_of(std::begin(kDistances), std::end(kDistances), is) ? MetricKind::down
                                                                       : MetricKind::unknown;
}

// Returns the kind of the last word that has one: "top1_error" is an error.
MetricKind kind_of(std::string_view name) {
  MetricKind kind = kind_of_distance(name);
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

bool names_training(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view word : {"train", "minitrain"}) {
    for (size_t at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1)) {
      if (at == 0 || std::isalpha(static_cast<unsigned char>(lower[at - 1])) == 0) return true;
    }
  }
  return false;
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

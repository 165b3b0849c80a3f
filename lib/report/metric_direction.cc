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

bool any_of(const std::vector<std::string>& words, Words known) {
  const auto is_known = [&](const std::string& word) {
    return std::find(known.begin(), known.end(), word) != known.end();
  };
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return is_known(word) || is_known(without_digits(word));
  });
}

bool is_down(const std::vector<std::string>& words) {
  return any_of(words, kDown) ||
         std::any_of(words.begin(), words.end(), [](const std::string& word) {
           return word.ends_with("loss") || word.ends_with("error");
         });
}

}  // namespace

Direction metric_direction(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  if (any_of(words, kNeither)) return Direction::none;
  if (is_down(words)) return Direction::down;  // also "top1_error"
  return any_of(words, kAccuracies) || any_of(words, kOthersUp) ? Direction::up : Direction::none;
}

bool is_better(double a, double b, bool higher_is_better) {
  return higher_is_better ? a > b : a < b;
}

bool is_accuracy(std::string_view name) {
  return metric_direction(name) == Direction::up && any_of(words_of(name), kAccuracies);
}

}  // namespace bv

#include "lib/predict/prediction_text.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "lib/util/error.h"
#include "lib/util/json_text.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// A class with its probability, or a target's index with its value.
struct Guess {
  int64_t index = 0;
  float probability = 0;
  bool predicted = true;  // false with `multilabel` if the probability is below the threshold
};

// Returns the `top` most probable classes of each row that has no error, the best first. For
// regression it returns all values, in order.
std::vector<std::vector<Guess>> best_classes(const PredictedBatch& batch, int64_t top) {
  std::vector<std::vector<Guess>> best;
  if (batch.arrays.empty()) return best;
  const at::Tensor& logits = batch.arrays.at("logits");
  if (logits.dim() != 2)
    throw Error(Exit::usage, "--output",
                "classes need logits (n, classes); write the outputs to an *.npz");
  if (batch.numbers) {
    const at::Tensor numbers = logits.contiguous();
    const float* number = numbers.const_data_ptr<float>();
    for (int64_t i = 0; i < numbers.size(0); ++i) {
      std::vector<Guess>& row = best.emplace_back();
      for (int64_t k = 0; k < numbers.size(1); ++k) row.push_back({k, *number++});
    }
    return best;
  }
  // Logits decide, because different ones may have equal probabilities, such as 1. Classes with
  // equal logits are in the order of their numbers, as in evaluators.
  const at::Tensor classes = at::argsort(logits, /*stable=*/true, /*dim=*/1, /*descending=*/true)
                                 .slice(1, 0, std::min(top, logits.size(1)))
                                 .contiguous();
  const at::Tensor probabilities = batch.sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
  const at::Tensor values = probabilities.gather(1, classes).contiguous();
  at::Tensor predicted;  // (n, classes) bool; in float64, as evaluators compare
  if (batch.multilabel)
    predicted = at::sigmoid(logits.to(at::kDouble)).ge(batch.threshold).contiguous();
  const int64_t* index = classes.const_data_ptr<int64_t>();
  const float* value = values.const_data_ptr<float>();
  const bool* flags = batch.multilabel ? predicted.const_data_ptr<bool>() : nullptr;
  for (int64_t i = 0; i < values.size(0); ++i) {
    std::vector<Guess>& row = best.emplace_back();
    for (int64_t k = 0; k < values.size(1); ++k, ++index)
      row.push_back({*index, *value++, !flags || flags[i * logits.size(1) + *index]});
  }
  return best;
}

// Returns the name of a class, or "" if it is unknown.
std::string class_name(const PredictedBatch& batch, int64_t index) {
  const bool known = index >= 0 && index < std::ssize(batch.class_names);
  return known ? batch.class_names[static_cast<size_t>(index)] : "";
}

// Calls `use` with each row and its best classes, of which a row with an error has none.
template <class Use>
void each_row(const PredictedBatch& batch, int64_t top, const Use& use) {
  const auto best = best_classes(batch, top);
  size_t read = 0;
  for (const PredictedRow& row : batch.rows)
    use(row, row.error.empty() ? best.at(read++) : std::vector<Guess>{});
}

// Returns the true value of a target; nullopt if unknown.
std::optional<float> right_value(const PredictedRow& row, int64_t target) {
  if (!row.label || target >= std::ssize(row.label->values)) return std::nullopt;
  return row.label->values[static_cast<size_t>(target)];
}

class JsonLines : public PredictionText {
 public:
  explicit JsonLines(int64_t top) : top_(top) {}

  std::string add(const PredictedBatch& batch) override {
    std::string text;
    each_row(batch, top_, [&](const PredictedRow& row, const std::vector<Guess>& guesses) {
      Json line = {{"file", row.name}};
      if (row.label) add_label(batch, *row.label, line);
      if (row.error.empty() && batch.numbers) {
        line["values"] = Json::array();
        for (const Guess& guess : guesses) line["values"].push_back(json_value(guess.probability));
      } else if (row.error.empty()) {
        line["top"] = Json::array();
        for (const Guess& guess : guesses) {
          Json entry = class_entry(batch, guess.index);
          entry["probability"] = json_value(guess.probability);
          line["top"].push_back(entry);
        }
      } else {
        line["error"] = row.error;
      }
      text += json_text(line) + "\n";
    });
    return text;
  }

 private:
  using Json = nlohmann::ordered_json;

  // {"index": 9, "class": "Ankle boot"}
  static Json class_entry(const PredictedBatch& batch, int64_t index) {
    Json entry = {{"index", index}};
    if (const std::string name = class_name(batch, index); !name.empty()) entry["class"] = name;
    return entry;
  }

  static void add_label(const PredictedBatch& batch, const RightLabel& label, Json& line) {
    if (!batch.numbers && !batch.multilabel && label.classes.size() == 1) {
      line["label"] = class_entry(batch, label.classes[0]);
      return;
    }
    Json& labels = line["labels"] = Json::array();
    for (const float value : label.values) labels.push_back(json_value(value));
    for (const int64_t index : label.classes) labels.push_back(class_entry(batch, index));
  }

  const int64_t top_;
};

class Csv : public PredictionText {
 public:
  explicit Csv(int64_t top) : top_(top) {}

  std::string add(const PredictedBatch& batch) override {
    if (columns_ == 0) {
      // The first batch with a readable image determines the number of columns.
      if (batch.arrays.empty()) {
        unread_.insert(unread_.end(), batch.rows.begin(), batch.rows.end());
        return "";
      }
      columns_ = best_classes(batch, top_).at(0).size();
    }
    std::string text = started_ ? "" : header(batch);
    started_ = true;
    for (const PredictedRow& row : unread_) text += line(batch, row, {});
    unread_.clear();
    each_row(batch, top_, [&](const PredictedRow& row, const std::vector<Guess>& guesses) {
      text += line(batch, row, guesses);
    });
    return text;
  }

 private:
  std::string header(const PredictedBatch& batch) const {
    std::vector<std::string> names = {"file"};
    if (batch.labelled && !batch.numbers) names.insert(names.end(), {"label", "label_name"});
    for (size_t k = 1; k <= columns_; ++k) {
      const std::string target = class_name(batch, static_cast<int64_t>(k) - 1);
      const std::string end = target.empty() ? fmt::format("{}", k) : target;
      if (batch.numbers && batch.labelled) names.push_back(csv_field("label_" + end));
      if (batch.numbers) names.push_back(csv_field("value_" + end));
      for (const char* name : {"class", "name", "probability"})
        if (!batch.numbers) names.push_back(fmt::format("{}_{}", name, k));
    }
    names.push_back("error");
    return join(names, ",") + "\n";
  }

  std::string line(const PredictedBatch& batch, const PredictedRow& row,
                   const std::vector<Guess>& guesses) const {
    std::vector<std::string> fields = {csv_field(row.name)};
    if (batch.labelled && !batch.numbers) add_classes(batch, row, fields);
    for (const Guess& guess : guesses) {
      if (batch.numbers && batch.labelled) {
        const auto right = right_value(row, guess.index);
        fields.push_back(right ? fmt::format("{}", *right) : "");
      }
      if (!batch.numbers) fields.push_back(fmt::format("{}", guess.index));
      if (!batch.numbers) fields.push_back(csv_field(class_name(batch, guess.index)));
      fields.push_back(fmt::format("{}", guess.probability));
    }
    const size_t each = !batch.numbers ? 3 : batch.labelled ? 2 : 1;
    fields.resize(fields.size() + each * (columns_ - guesses.size()));
    fields.push_back(csv_field(row.error));
    return join(fields, ",") + "\n";
  }

  // Adds the numbers and names of the true classes.
  static void add_classes(const PredictedBatch& batch, const PredictedRow& row,
                          std::vector<std::string>& fields) {
    std::vector<std::string> numbers, names;
    if (row.label) {
      for (const int64_t index : row.label->classes) {
        numbers.push_back(std::to_string(index));
        names.push_back(class_name(batch, index));
      }
    }
    const bool named = !batch.class_names.empty();
    fields.push_back(join(numbers, ";"));
    fields.push_back(named ? csv_field(join(names, ";")) : "");
  }

  const int64_t top_;
  bool started_ = false;              // the header is written
  size_t columns_ = 0;                // classes or values per line
  std::vector<PredictedRow> unread_;  // rows before the header
};

// Columns are as wide as their longest cell, so nothing can be written before the end.
class Table : public PredictionText {
 public:
  explicit Table(int64_t top) : top_(top) {}

  std::string add(const PredictedBatch& batch) override {
    // Exact matches need all classes.
    const int64_t top = batch.multilabel ? std::numeric_limits<int64_t>::max()
                        : top_ > 0       ? top_
                                         : 1;
    each_row(batch, top, [&](const PredictedRow& row, const std::vector<Guess>& guesses) {
      if (!row.error.empty()) return;
      Line line = {.file = printable(row.name, std::string::npos)};
      if (batch.numbers)
        add_values(row, guesses, line);
      else
        add_classes(batch, row, guesses, line);
      lines_.push_back(std::move(line));
    });
    multilabel_ = batch.multilabel;
    return "";
  }

  std::string end() override {
    size_t file_width = 0, label_width = 0, guess_width = 0;
    for (const Line& line : lines_) {
      file_width = std::max(file_width, line.file.size());
      for (const Shown& shown : line.shown) {
        label_width = std::max(label_width, shown.label.size());
        guess_width = std::max(guess_width, shown.guess.size());
      }
    }
    std::string text;
    for (const Line& line : lines_) {
      text += fmt::format("{:{}}", line.file, file_width);
      const char* before = "   predicted ";
      for (const Shown& shown : line.shown) {
        if (shown.labelled) {
          text += fmt::format("   {} {:{}}", multilabel_ ? "labels" : "label", shown.label,
                              label_width);
          before = "   predicted ";
        }
        const bool more = shown.labelled && &shown != &line.shown.back();
        const bool padded = more || !shown.probability.empty();
        text += fmt::format("{}{:{}}", before, shown.guess, padded ? guess_width : 0);
        if (!shown.probability.empty()) text += "   " + shown.probability;
        before = "   ";
      }
      text += "\n";
    }
    if (labelled_ > 0) {
      text += fmt::format("{} of {} are {}\n", right_, labelled_,
                          multilabel_ ? "exact matches" : "right");
    }
    return text;
  }

 private:
  // A predicted class or value, after the true one.
  struct Shown {
    std::string guess, probability = {};
    bool labelled = false;  // the label precedes it
    std::string label = {};
  };
  struct Line {
    std::string file;
    std::vector<Shown> shown = {};
  };

  static std::string shown_name(const PredictedBatch& batch, int64_t index) {
    const std::string text = class_name(batch, index);
    return fmt::format("{}{}{}", index, text.empty() ? "" : " ",
                       printable(text, std::string::npos));
  }

  static void add_values(const PredictedRow& row, const std::vector<Guess>& guesses, Line& line) {
    for (const Guess& guess : guesses) {
      Shown& shown = line.shown.emplace_back();
      shown.guess = fmt::format("{:.6g}", guess.probability);
      const auto right = right_value(row, guess.index);
      shown.labelled = right.has_value();
      if (right) shown.label = fmt::format("{:.6g}", *right);
    }
  }

  void add_classes(const PredictedBatch& batch, const PredictedRow& row,
                   const std::vector<Guess>& guesses, Line& line) {
    for (const Guess& guess : guesses) {
      const bool wanted = top_ > 0 ? std::ssize(line.shown) < top_ : guess.predicted;
      if (!wanted) break;
      line.shown.push_back(
          {shown_name(batch, guess.index), fmt::format("{:.3f}", guess.probability)});
    }
    if (line.shown.empty()) line.shown.push_back({"none"});
    if (!row.label) return;
    std::vector<std::string> names;
    for (const int64_t index : row.label->classes) names.push_back(shown_name(batch, index));
    line.shown[0].labelled = true;
    line.shown[0].label = names.empty() ? "none" : join(names, ", ");
    if (names.empty() && !batch.multilabel) return;  // as in evaluators, no prediction is right
    ++labelled_;
    right_ += is_right(batch, *row.label, guesses);
  }

  static bool is_right(const PredictedBatch& batch, const RightLabel& label,
                       const std::vector<Guess>& guesses) {
    const std::set<int64_t> classes(label.classes.begin(), label.classes.end());
    if (!batch.multilabel) return classes.contains(guesses.at(0).index);
    std::set<int64_t> predicted;
    for (const Guess& guess : guesses)
      if (guess.predicted) predicted.insert(guess.index);
    return predicted == classes;
  }

  const int64_t top_;  // 0: the default
  std::vector<Line> lines_;
  int64_t labelled_ = 0, right_ = 0;  // numbers of lines
  bool multilabel_ = false;
};

}  // namespace

std::unique_ptr<PredictionText> json_lines(int64_t top) { return std::make_unique<JsonLines>(top); }
std::unique_ptr<PredictionText> csv(int64_t top) { return std::make_unique<Csv>(top); }
std::unique_ptr<PredictionText> prediction_table(int64_t top) {
  return std::make_unique<Table>(top);
}

}  // namespace bv

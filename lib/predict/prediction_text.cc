#include "lib/predict/prediction_text.h"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/util/error.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// A class with its probability, or the number of a target with its value.
struct Guess {
  int64_t index = 0;
  float probability = 0;
};

// Returns the `top` most probable classes of each row that has no error, the best first. Of numbers
// it returns all, in their order.
std::vector<std::vector<Guess>> best_classes(const PredictedBatch& batch, int64_t top) {
  std::vector<std::vector<Guess>> best;
  if (batch.arrays.empty()) return best;
  const at::Tensor& logits = batch.arrays.at("logits");
  if (logits.dim() != 2)
    throw Error(Exit::usage, "--output",
                "classes need logits (n, classes); write the outputs to an *.npz");
  if (batch.numbers) {
    for (int64_t i = 0; i < logits.size(0); ++i) {
      std::vector<Guess>& row = best.emplace_back();
      for (int64_t k = 0; k < logits.size(1); ++k) row.push_back({k, logits[i][k].item<float>()});
    }
    return best;
  }
  const at::Tensor probabilities = batch.sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
  const auto [values, classes] = at::topk(probabilities, std::min(top, logits.size(1)));
  for (int64_t i = 0; i < values.size(0); ++i) {
    std::vector<Guess>& row = best.emplace_back();
    for (int64_t k = 0; k < values.size(1); ++k)
      row.push_back({classes[i][k].item<int64_t>(), values[i][k].item<float>()});
  }
  return best;
}

// Returns the name of a class, or "" if it is unknown.
std::string class_name(const PredictedBatch& batch, int64_t index) {
  const bool known = index >= 0 && index < std::ssize(batch.class_names);
  return known ? batch.class_names[static_cast<size_t>(index)] : "";
}

// Calls `use` with each row and its best classes, which are empty for a row with an error.
template <class Use>
void each_row(const PredictedBatch& batch, int64_t top, const Use& use) {
  const auto best = best_classes(batch, top);
  size_t read = 0;
  for (const PredictedRow& row : batch.rows)
    use(row, row.error.empty() ? best.at(read++) : std::vector<Guess>{});
}

class JsonLines : public PredictionText {
 public:
  explicit JsonLines(int64_t top) : top_(top) {}

  std::string add(const PredictedBatch& batch) override {
    // {"index": 9, "class": "Ankle boot"}
    const auto class_entry = [&](int64_t index) {
      Json entry = {{"index", index}};
      if (const std::string name = class_name(batch, index); !name.empty()) entry["class"] = name;
      return entry;
    };
    std::string text;
    each_row(batch, top_, [&](const PredictedRow& row, const std::vector<Guess>& guesses) {
      Json line = {{"file", row.name}};
      if (row.label) line["label"] = class_entry(*row.label);
      if (row.error.empty() && batch.numbers) {
        line["values"] = Json::array();
        for (const Guess& guess : guesses) line["values"].push_back(guess.probability);
      } else if (row.error.empty()) {
        line["top"] = Json::array();
        for (const Guess& guess : guesses) {
          Json entry = class_entry(guess.index);
          entry["probability"] = guess.probability;
          line["top"].push_back(entry);
        }
      } else {
        line["error"] = row.error;
      }
      text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    });
    return text;
  }

 private:
  using Json = nlohmann::ordered_json;
  const int64_t top_;
};

class Csv : public PredictionText {
 public:
  explicit Csv(int64_t top) : top_(top) {}

  std::string add(const PredictedBatch& batch) override {
    if (columns_ == 0) {
      // How many columns there are is known from the first batch with an image that could be read.
      if (batch.arrays.empty()) {
        unread_.insert(unread_.end(), batch.rows.begin(), batch.rows.end());
        return "";
      }
      columns_ = best_classes(batch, top_).at(0).size();
      numbers_ = batch.numbers;
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
    if (batch.labelled) names.insert(names.end(), {"label", "label_name"});
    for (size_t k = 1; k <= columns_; ++k) {
      if (numbers_) names.push_back(fmt::format("value_{}", k));
      for (const char* name : {"class", "name", "probability"})
        if (!numbers_) names.push_back(fmt::format("{}_{}", name, k));
    }
    names.push_back("error");
    return join(names, ",") + "\n";
  }

  std::string line(const PredictedBatch& batch, const PredictedRow& row,
                   const std::vector<Guess>& guesses) const {
    std::vector<std::string> fields = {field(row.name)};
    if (batch.labelled) {
      fields.push_back(row.label ? fmt::format("{}", *row.label) : "");
      fields.push_back(row.label ? field(class_name(batch, *row.label)) : "");
    }
    for (const Guess& guess : guesses) {
      if (!numbers_) fields.push_back(fmt::format("{}", guess.index));
      if (!numbers_) fields.push_back(field(class_name(batch, guess.index)));
      fields.push_back(fmt::format("{}", guess.probability));
    }
    fields.resize(fields.size() + (numbers_ ? 1 : 3) * (columns_ - guesses.size()));
    fields.push_back(field(row.error));
    return join(fields, ",") + "\n";
  }

  static std::string field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + '"';
  }

  const int64_t top_;
  bool started_ = false;              // the header is written
  bool numbers_ = false;              // the columns are values, not classes
  size_t columns_ = 0;                // classes or values per line
  std::vector<PredictedRow> unread_;  // rows before the header
};

class Table : public PredictionText {
 public:
  explicit Table(int64_t top) : top_(top) {}

  // The columns are as wide as the longest text in them, so nothing can be written before the end.
  std::string add(const PredictedBatch& batch) override {
    const auto name = [&](int64_t index) {
      const std::string text = class_name(batch, index);
      return fmt::format("{}{}{}", index, text.empty() ? "" : " ",
                         printable(text, std::string::npos));
    };
    each_row(batch, top_, [&](const PredictedRow& row, const std::vector<Guess>& guesses) {
      if (!row.error.empty()) return;
      Line line = {.file = printable(row.name, std::string::npos)};
      if (batch.numbers) {
        for (const Guess& guess : guesses) line.guesses.emplace_back("", guess.probability);
        numbers_ = true;
      }
      if (row.label && !batch.numbers) {
        line.label = name(*row.label);
        ++labelled_;
        right_ += *row.label == guesses.at(0).index;
      }
      for (const Guess& guess : guesses)
        if (!batch.numbers) line.guesses.emplace_back(name(guess.index), guess.probability);
      lines_.push_back(std::move(line));
    });
    return "";
  }

  std::string end() override {
    size_t file_width = 0, label_width = 0, guess_width = 0;
    for (const Line& line : lines_) {
      file_width = std::max(file_width, line.file.size());
      label_width = std::max(label_width, line.label.size());
      for (const auto& [guess, probability] : line.guesses)
        guess_width = std::max(guess_width, guess.size());
    }
    std::string text;
    for (const Line& line : lines_) {
      text += fmt::format("{:{}}   ", line.file, file_width);
      if (labelled_ > 0) text += fmt::format("label {:{}}   ", line.label, label_width);
      text += "predicted";
      const char* before = " ";
      for (const auto& [guess, probability] : line.guesses) {
        text += numbers_ ? fmt::format("{}{:.6g}", before, probability)
                         : fmt::format("{}{:{}}   {:.3f}", before, guess, guess_width, probability);
        before = "   ";
      }
      text += "\n";
    }
    if (labelled_ > 0) text += fmt::format("{} of {} are right\n", right_, labelled_);
    return text;
  }

 private:
  struct Line {
    std::string file;
    std::string label = {};  // empty if unknown
    std::vector<std::pair<std::string, float>> guesses = {};
  };
  const int64_t top_;
  std::vector<Line> lines_;
  int64_t labelled_ = 0, right_ = 0;  // numbers of lines
  bool numbers_ = false;              // the lines have values, not classes
};

}  // namespace

std::unique_ptr<PredictionText> json_lines(int64_t top) { return std::make_unique<JsonLines>(top); }
std::unique_ptr<PredictionText> csv(int64_t top) { return std::make_unique<Csv>(top); }
std::unique_ptr<PredictionText> prediction_table(int64_t top) {
  return std::make_unique<Table>(top);
}

}  // namespace bv

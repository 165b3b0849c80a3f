#include "lib/report/metric_row.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

namespace bv {
namespace {

class RowCursor {
 public:
  explicit RowCursor(std::string_view line) : rest_(line) {}

  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Returns the string between the quotes, without decoding its escapes.
  std::optional<std::string_view> quoted() {
    if (!take('"')) return std::nullopt;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == '"') {
        const std::string_view text = rest_.substr(0, i);
        rest_.remove_prefix(i + 1);
        return text;
      }
    }
    return std::nullopt;
  }
  template <class Number>
  std::optional<Number> number() {
    skip_blanks();
    const size_t sign = rest_.starts_with('-') ? 1 : 0;
    if (rest_.size() <= sign || rest_[sign] < '0' || rest_[sign] > '9') return std::nullopt;
    Number value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  // JSON has no NaN or infinity: they are written as strings.
  std::optional<double> number_or_word() {
    skip_blanks();
    if (!rest_.starts_with('"')) return number<double>();
    const std::optional<std::string_view> text = quoted();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return std::nullopt;
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' ||
                              rest_.front() == '\r' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
};

}  // namespace

// Returns the number of a metric, given its name as in the file; nullopt if the name is not valid
// JSON.
std::optional<size_t> MetricRowReader::find(std::string_view raw) {
  // Rows usually list the same metrics in the same order, so this tries the expected name first.
  if (expected_ < raw_names_.size() && raw_names_[expected_] == raw) return expected_++;
  auto found = number_.find(std::string(raw));
  if (found == number_.end()) {
    const auto name = nlohmann::json::parse('"' + std::string(raw) + '"', nullptr,
                                            /*allow_exceptions=*/false);
    if (!name.is_string()) return std::nullopt;
    found = number_.emplace(raw, raw_names_.size()).first;
    raw_names_.emplace_back(raw);
    names_.push_back(name.get<std::string>());
  }
  expected_ = found->second + 1;
  return found->second;
}

std::optional<int64_t> MetricRowReader::read(std::string_view line) {
  RowCursor cursor(line);
  values_.clear();
  expected_ = 0;
  std::optional<int64_t> step;
  if (!cursor.take('{')) return std::nullopt;
  do {
    const auto name = cursor.quoted();
    if (!name || !cursor.take(':')) return std::nullopt;
    if (*name == "step") {
      if (step) return std::nullopt;
      step = cursor.number<int64_t>();
      if (!step || *step < 0) return std::nullopt;
    } else {
      const auto value = cursor.number_or_word();
      const auto number = value ? find(*name) : std::nullopt;
      if (!number) return std::nullopt;
      values_.emplace_back(*number, *value);
    }
  } while (cursor.take(','));
  if (!cursor.take('}') || !cursor.at_end()) return std::nullopt;
  return step;
}

const Row& MetricRowReader::row() {
  row_.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    row_[i].first = names_[values_[i].first];  // keeps the memory of an earlier row's name
    row_[i].second = values_[i].second;
  }
  return row_;
}

}  // namespace bv

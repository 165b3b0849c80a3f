// A parser for the rows that metric_file.cc writes. A general JSON parser takes about ten times as
// long, which matters when a hundred runs are compared.
#include "lib/compare/metric_scan.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lib/util/file.h"
#include "lib/util/mapped_file.h"

namespace bv {
namespace {

// Reads one row, an object of numbers: {"step": 12, "training_loss": 0.25, "l2_grads": "nan"}
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
  std::optional<double> number() {
    skip_blanks();
    if (rest_.empty()) return std::nullopt;
    if (rest_.front() == '"') return word();
    if (rest_.front() != '-' && (rest_.front() < '0' || rest_.front() > '9')) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
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
  // JSON has no NaN or infinity: they are written as strings.
  std::optional<double> word() {
    const std::optional<std::string_view> text = quoted();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return std::nullopt;
  }

  std::string_view rest_;
};

void add_point(MetricSeries& series, MetricSeries::StepValue value) {
  // The last point is always the newest value. If its index is not a multiple of the stride, the
  // next value replaces it.
  if (series.count > 1 && (series.count - 2) % series.stride != 0) series.points.pop_back();
  series.points.push_back(value);
  if (series.points.size() <= MetricSeries::kMostPoints) return;
  size_t kept = 0;
  for (size_t i = 0; i < series.points.size(); i += 2) series.points[kept++] = series.points[i];
  series.points.resize(kept);
  series.stride *= 2;
}

// Only values after the step `measured_from` count as minimum or maximum.
void add_value(MetricSeries& series, MetricSeries::StepValue value, int64_t measured_from,
               bool with_curves) {
  series.previous = std::exchange(series.last, value);
  ++series.count;
  if (value.second == value.second && value.first > measured_from) {
    if (!series.has_extremes || value.second < series.min.second) series.min = value;
    if (!series.has_extremes || value.second > series.max.second) series.max = value;
    series.has_extremes = true;
  }
  if (with_curves) add_point(series, value);
}

// Returns the name of a metric without the escapes of JSON; nullopt if they are damaged.
std::optional<std::string> decoded(const std::string& raw) {
  if (raw.find('\\') == std::string::npos) return raw;
  const auto name = nlohmann::json::parse('"' + raw + '"', nullptr, /*allow_exceptions=*/false);
  return name.is_string() ? std::optional(name.get<std::string>()) : std::nullopt;
}

// Assigns numbers to the metrics of a file. A name is looked up in its raw form, as in the file.
class MetricNames {
 public:
  size_t find(std::string_view raw) {
    // Rows usually list the same metrics in the same order, so this tries the expected name first.
    if (expected_ < names_.size() && names_[expected_] == raw) return expected_++;
    const auto [at, added] = index_.try_emplace(std::string(raw), names_.size());
    if (added) names_.emplace_back(raw);
    expected_ = at->second + 1;
    return at->second;
  }
  const std::vector<std::string>& raw() const { return names_; }
  void begin_row() { expected_ = 0; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> index_;
  size_t expected_ = 0;
};

class Scanner {
 public:
  Scanner(bool with_curves, const MeasuredAnew& changed)
      : with_curves_(with_curves), changed_(changed) {}

  // Returns false, and adds nothing, if the line is not a row after the last one.
  bool add(std::string_view line) {
    values_.clear();
    int64_t step = -1;
    if (!read(line, step) || step < 0 || (scan_.rows > 0 && step <= scan_.last_step)) return false;
    scan_.last_step = step;
    ++scan_.rows;
    for (const auto& [index, value] : values_) {
      while (series_.size() <= index) {
        const std::string name = decoded(names_.raw()[series_.size()]).value_or("");
        measured_from_.push_back(last_step_before_change(changed_, name));
        series_.emplace_back();
      }
      add_value(series_[index], {step, value}, measured_from_[index], with_curves_);
    }
    return true;
  }
  void note_damaged(int64_t line) {
    if (scan_.damaged++ == 0) scan_.first_damaged = line;
  }
  void note_cut(int64_t line) { scan_.cut_line = line; }
  MetricScan finish() {
    for (size_t i = 0; i < series_.size(); ++i) {
      auto name = decoded(names_.raw()[i]);
      if (name && series_[i].count > 0)
        scan_.series.emplace(std::move(*name), std::move(series_[i]));
    }
    return std::move(scan_);
  }

 private:
  bool read(std::string_view line, int64_t& step) {
    RowCursor row(line);
    names_.begin_row();
    if (!row.take('{')) return false;
    do {
      const auto name = row.quoted();
      if (!name || !row.take(':')) return false;
      const auto value = row.number();
      if (!value) return false;
      if (*name == "step") {
        constexpr double kLargest = 9007199254740992.0;  // 2^53: beyond it a double skips integers
        if (!(*value >= 0 && *value < kLargest)) return false;
        step = static_cast<int64_t>(*value);
        if (static_cast<double>(step) != *value) return false;
      } else {
        values_.emplace_back(names_.find(*name), *value);
      }
    } while (row.take(','));
    return row.take('}') && row.at_end();
  }

  bool with_curves_;
  const MeasuredAnew& changed_;
  MetricScan scan_;
  MetricNames names_;
  std::vector<MetricSeries> series_;               // by number
  std::vector<int64_t> measured_from_;             // by number: last_step_before_change()
  std::vector<std::pair<size_t, double>> values_;  // of the current row
};

}  // namespace

MetricScan scan_metrics(const std::string& file, bool with_curves, const MeasuredAnew& changed) {
  Scanner scanner(with_curves, changed);
  if (!file_exists(file)) return scanner.finish();
  const MappedFile mapped(file);
  std::string_view rest(reinterpret_cast<const char*>(mapped.bytes().data()),
                        mapped.bytes().size());
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) {
      scanner.note_cut(number);
      break;
    }
    if (!scanner.add(rest.substr(0, end))) scanner.note_damaged(number);
    rest.remove_prefix(end + 1);
  }
  return scanner.finish();
}

}  // namespace bv

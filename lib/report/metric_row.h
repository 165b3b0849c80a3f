// A parser for the rows of metrics.jsonl. A general JSON parser takes about ten times as long. That
// matters for a run with a million rows, and for a comparison of a hundred runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/report/row.h"

namespace bv {

// Reads the rows of one file. Each metric gets a number, by which callers can index their own data.
class MetricRowReader {
 public:
  // Reads a line, with or without its line feed: {"step": 12, "training_loss": 0.25, "lr": "nan"}.
  // Returns the step; nullopt if the line is not such a row.
  std::optional<int64_t> read(std::string_view line);

  // The number of the metric and its value, for each metric of the last row.
  const std::vector<std::pair<size_t, double>>& values() const { return values_; }
  // The names of the metrics of all rows so far, by number.
  const std::vector<std::string>& names() const { return names_; }
  // The last row in another form, valid until the next call of read().
  const Row& row();

 private:
  std::optional<size_t> find(std::string_view raw);

  std::vector<std::string> raw_names_, names_;      // as in the file; without the escapes of JSON
  std::unordered_map<std::string, size_t> number_;  // by raw name
  size_t expected_ = 0;                             // probably the number of the next name
  std::vector<std::pair<size_t, double>> values_;
  Row row_;
};

}  // namespace bv

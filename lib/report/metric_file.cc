#include "lib/report/metric_file.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/mapped_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::optional<double> read_number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

struct StepRow {
  int64_t step = 0;
  Row row;
};

std::optional<StepRow> read_row(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_integer()) return std::nullopt;
  StepRow result{step->get<int64_t>(), {}};
  if (result.step < 0) return std::nullopt;  // negative, or too large for 63 bits
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    const std::optional<double> number = read_number(value);
    if (!number) return std::nullopt;
    result.row.emplace_back(name, *number);
  }
  return result;
}

}  // namespace

std::string row_text(int64_t step, const Row& row) {
  std::string line = fmt::format("{{\"step\": {}", step);
  for (const auto& [name, value] : row) {
    line += ", " + json_string(name) + ": " + json_number(value);
  }
  return line + "}\n";
}

std::vector<int64_t> restore_rows(const std::string& file, int64_t last_step, History& history) {
  std::vector<int64_t> steps;
  if (!file_exists(file)) return steps;
  size_t prefix = 0;  // bytes at the start of the file that are kept as they are
  std::string later;  // lines that are kept although an earlier one is dropped
  bool dropped = false;
  int64_t number = 0, damaged = 0, first_damaged = 0;
  const MappedFile mapped(file);
  const std::string_view all(reinterpret_cast<const char*>(mapped.bytes().data()),
                             mapped.bytes().size());
  std::string_view rest = all;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) {  // the last line is incomplete
      dropped = true;
      break;
    }
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    ++number;
    const std::optional<StepRow> row = read_row(line);
    if (!row || (!steps.empty() && row->step <= steps.back() && row->step <= last_step)) {
      if (damaged++ == 0) first_damaged = number;
    } else if (row->step <= last_step) {
      steps.push_back(row->step);
      history.add(row->step, row->row);
      if (dropped) {
        later += line;
      } else {
        prefix += line.size();
      }
      continue;
    }
    dropped = true;
  }
  if (damaged > 0) {
    log::warn("{}:{}: dropped {} line{}: not a metric row, or not in the order of steps", file,
              first_damaged, damaged, damaged == 1 ? "" : "s");
  }
  if (dropped) {
    const std::string_view start = all.substr(0, prefix);
    write_file_atomically(file, later.empty() ? start : std::string_view(later.insert(0, start)));
  }
  return steps;
}

}  // namespace bv

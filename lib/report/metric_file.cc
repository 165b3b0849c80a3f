#include "lib/report/metric_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/regular_file.h"
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

// Calls `each` for every line of a file, with its line feed and its number, from 1. Ignores an
// incomplete last line, which a killed run leaves. Shows the progress in a large file.
void for_each_line(const std::string& file, std::string_view content,
                   const std::function<void(std::string_view line, int64_t number)>& each) {
  constexpr size_t kLarge = size_t{64} << 20;  // takes a few seconds
  constexpr int64_t kLines = 1000;             // between two displays
  const bool large = content.size() >= kLarge;
  const std::string size = human_bytes(static_cast<double>(content.size()));
  int64_t number = 0;
  size_t begin = 0;
  for (size_t end = 0; (end = content.find('\n', begin)) != std::string_view::npos;) {
    each(content.substr(begin, end + 1 - begin), ++number);
    begin = end + 1;
    if (large && number % kLines == 0) {
      log::progress(
          fmt::format("{}: {} of {} read", file, human_bytes(static_cast<double>(begin)), size));
    }
  }
  if (large) log::clear_progress();
}

// A line with a row, and the step of the row. The row itself is not kept: a long run has many.
struct RowLine {
  int64_t step = 0, number = 0;  // of the line, from 1
  std::string_view text;         // with its line feed
};

// Returns the longest sequence of rows with ascending steps, by patience sorting (Fredman 1975). Of
// rows with the same step it keeps the first.
std::vector<RowLine> longest_ascending(const std::vector<RowLine>& rows) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> ends;                        // of the best sequence of each length
  std::vector<size_t> before(rows.size(), kNone);  // the row before each one in its sequence
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto end = std::lower_bound(ends.begin(), ends.end(), rows[i].step,
                                      [&](size_t a, int64_t step) { return rows[a].step < step; });
    if (end != ends.begin()) before[i] = *std::prev(end);
    if (end == ends.end())
      ends.push_back(i);
    else if (rows[*end].step != rows[i].step)
      *end = i;
  }
  std::vector<RowLine> kept;
  for (size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i])
    kept.push_back(rows[i]);
  std::reverse(kept.begin(), kept.end());
  return kept;
}

// The rows of a file up to some step.
struct FoundRows {
  std::vector<RowLine> rows;
  std::vector<int64_t> damaged;  // numbers of the lines without a row, or with one out of order
  bool ascending = true;         // the steps of the rows
  History history;               // of the rows; complete only if their steps ascend
};

// Finds the rows up to `last_step`. Ignores rows of later steps, except that such a row counts as
// damaged if a row up to `last_step` follows it.
FoundRows find_rows(const std::string& file, std::string_view content, int64_t last_step) {
  FoundRows found;
  std::vector<int64_t> later;  // lines with a row after last_step
  for_each_line(file, content, [&](std::string_view line, int64_t number) {
    const std::optional<StepRow> row = read_row(line);
    if (!row) {
      found.damaged.push_back(number);
    } else if (row->step > last_step) {
      later.push_back(number);
    } else {
      found.damaged.insert(found.damaged.end(), later.begin(), later.end());
      later.clear();
      if (!found.rows.empty() && row->step <= found.rows.back().step) found.ascending = false;
      found.rows.push_back({row->step, number, line});
      if (found.ascending) found.history.add(row->step, row->row);
    }
  });
  std::sort(found.damaged.begin(), found.damaged.end());
  return found;
}

// Drops the rows that break the ascending order of steps, and records their lines as damaged.
void put_in_order(FoundRows& found) {
  const std::vector<RowLine> all = std::exchange(found.rows, longest_ascending(found.rows));
  auto kept = found.rows.begin();
  for (const RowLine& row : all) {
    if (kept != found.rows.end() && kept->number == row.number)
      ++kept;
    else
      found.damaged.push_back(row.number);
  }
  std::sort(found.damaged.begin(), found.damaged.end());
  found.history = {};
  for (const RowLine& row : found.rows) found.history.add(row.step, read_row(row.text)->row);
}

// Returns the text of the rows. It is the beginning of `content` unless there are damaged lines;
// then it is put together in `joined`. So a long file is not copied.
std::string_view text_of(const FoundRows& found, std::string_view content, std::string& joined) {
  if (found.rows.empty()) return {};
  if (found.damaged.empty()) {
    const std::string_view last = found.rows.back().text;
    return content.substr(0, static_cast<size_t>(last.data() - content.data()) + last.size());
  }
  for (const RowLine& row : found.rows) joined += row.text;
  return joined;
}

}  // namespace

std::string row_text(int64_t step, const Row& row) {
  std::string line = fmt::format("{{\"step\": {}", step);
  for (const auto& [name, value] : row) {
    line += ", " + json_string(name) + ": " + json_number(value);
  }
  return line + "}\n";
}

RestoredRows restore_rows(const std::string& file, int64_t last_step) {
  std::optional<std::string> content;
  try {
    content = read_file_if_any(file);
  } catch (const Error& error) {
    // Otherwise the run would write rows that already exist.
    throw Error(Exit::storage, error.where(), error.message());
  }
  if (!content) return {};
  FoundRows found = find_rows(file, *content, last_step);
  if (!found.ascending) put_in_order(found);
  RestoredRows restored{{}, std::move(found.history)};
  for (const RowLine& row : found.rows) restored.steps.push_back(row.step);
  std::string joined;
  const std::string_view kept = text_of(found, *content, joined);
  if (kept.size() == content->size()) return restored;
  if (!found.damaged.empty() && last_step >= 0) {
    const std::string aside = put_aside(file, *content);
    log::warn(
        "{}:{}: {} damaged: no metric row, or not in the order of steps; the other rows stay, and "
        "the original file is {}",
        file, found.damaged.front(),
        found.damaged.size() == 1 ? "this line is"
                                  : fmt::format("{} lines from here on are", found.damaged.size()),
        aside);
  }
  write_file_atomically(file, kept);
  return restored;
}

void for_each_row(const std::string& file,
                  const std::function<void(int64_t step, const Row&)>& each) {
  const std::string content = read_file_if_any(file).value_or("");
  for_each_line(file, content, [&](std::string_view line, int64_t /*number*/) {
    if (const auto row = read_row(line)) each(row->step, row->row);
  });
}

std::optional<int64_t> last_row_step(const std::string& file) {
  constexpr size_t kFirstRead = size_t{64} << 10;
  if (!file_exists(file) && errno == ENOENT) return std::nullopt;
  const RegularFile opened(file);
  // Reads the end of the file, and more of it until there is a whole row.
  for (size_t bytes = std::min(kFirstRead, opened.size());;
       bytes = std::min(4 * bytes, opened.size())) {
    const size_t begin = opened.size() - bytes;
    std::string text(bytes, '\0');
    text.resize(opened.read(text.data(), bytes, begin));
    std::string_view rest = text;
    rest = rest.substr(0, rest.rfind('\n') + 1);  // without an incomplete last line
    while (!rest.empty()) {
      const size_t before =
          rest.size() < 2 ? std::string_view::npos : rest.rfind('\n', rest.size() - 2);
      if (before == std::string_view::npos && begin > 0) break;  // the line may begin earlier
      const size_t start = before == std::string_view::npos ? 0 : before + 1;
      if (const auto row = read_row(rest.substr(start))) return row->step;
      rest = rest.substr(0, start);
    }
    if (begin == 0) return std::nullopt;
  }
}

}  // namespace bv

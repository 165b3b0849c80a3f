#include "lib/report/metric_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/report/log.h"
#include "lib/report/metric_row.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/mapped_file.h"
#include "lib/util/regular_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

struct FileLine {
  std::string_view text;  // with its line feed
  int64_t number = 0;     // from 1
  size_t offset = 0;      // of its first byte in the file
};

// Calls `each` for every line of a file, which is not held in memory as a whole. Ignores an
// incomplete last line, which a killed run leaves. Shows the progress in a large file. Returns the
// number of bytes in the file.
size_t for_each_line(const std::string& name, const std::function<void(const FileLine&)>& each) {
  constexpr size_t kChunk = size_t{1} << 20;
  constexpr size_t kLarge = size_t{256} << 20;  // takes a few seconds
  const RegularFile file(name);
  const std::string size = human_bytes(static_cast<double>(file.size()));
  std::string buffer;
  size_t begin = 0;  // of the buffer, in the file
  int64_t number = 0;
  while (true) {
    const size_t had = buffer.size();
    buffer.resize(had + kChunk);
    buffer.resize(had + file.read(buffer.data() + had, kChunk, begin + had));
    if (buffer.size() == had) break;
    size_t line = 0;
    for (size_t end = buffer.find('\n', had); end != std::string::npos;
         end = buffer.find('\n', line)) {
      each({std::string_view(buffer).substr(line, end + 1 - line), ++number, begin + line});
      line = end + 1;
    }
    buffer.erase(0, line);
    begin += line;
    if (file.size() >= kLarge) {
      log::progress(
          fmt::format("{}: {} of {} read", name, human_bytes(static_cast<double>(begin)), size));
    }
  }
  if (file.size() >= kLarge) log::clear_progress();
  return begin + buffer.size();
}

bool is_absent(const std::string& file) { return !file_exists(file) && errno == ENOENT; }

// A line with a row, and the step of the row. The row itself is not kept: a long run has many.
struct RowLine {
  int64_t step = 0, number = 0;  // of the line, from 1
  size_t offset = 0, size = 0;   // of the line in the file, with its line feed
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
  size_t bytes = 0;              // of the file
  History history;               // of the rows; complete only if their steps ascend
};

// Finds the rows up to `last_step`. Ignores rows of later steps, except that such a row counts as
// damaged if a row up to `last_step` follows it.
FoundRows find_rows(const std::string& file, int64_t last_step) {
  FoundRows found;
  MetricRowReader reader;
  std::vector<int64_t> later;  // lines with a row after last_step
  found.bytes = for_each_line(file, [&](const FileLine& line) {
    const std::optional<int64_t> step = reader.read(line.text);
    if (!step) {
      found.damaged.push_back(line.number);
    } else if (*step > last_step) {
      later.push_back(line.number);
    } else {
      found.damaged.insert(found.damaged.end(), later.begin(), later.end());
      later.clear();
      if (!found.rows.empty() && *step <= found.rows.back().step) found.ascending = false;
      found.rows.push_back({*step, line.number, line.offset, line.text.size()});
      if (found.ascending) found.history.add(*step, reader.row());
    }
  });
  std::sort(found.damaged.begin(), found.damaged.end());
  return found;
}

// Drops the rows that break the ascending order of steps, and records their lines as damaged.
void put_in_order(FoundRows& found, std::string_view content) {
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
  MetricRowReader reader;
  for (const RowLine& row : found.rows) {
    reader.read(content.substr(row.offset, row.size));
    found.history.add(row.step, reader.row());
  }
}

// Returns the number of bytes at the beginning of the file that are exactly the rows; nullopt if
// there are damaged lines between them.
std::optional<size_t> leading_bytes(const FoundRows& found) {
  if (found.rows.empty()) return 0;
  if (!found.damaged.empty()) return std::nullopt;
  return found.rows.back().offset + found.rows.back().size;
}

// Removes everything but the rows from the file. Also completes `found` if they are not in order.
void keep_only_rows(const std::string& file, int64_t last_step, FoundRows& found) {
  const MappedFile mapped(file);
  const std::string_view content(reinterpret_cast<const char*>(mapped.bytes().data()),
                                 std::min(found.bytes, mapped.bytes().size()));
  if (!found.ascending) put_in_order(found, content);
  if (!found.damaged.empty() && last_step >= 0) {
    const std::string aside = put_aside(file, content);
    log::warn(
        "{}:{}: {} damaged: no metric row, or not in the order of steps; the other rows stay, and "
        "the original file is {}",
        file, found.damaged.front(),
        found.damaged.size() == 1 ? "this line is"
                                  : fmt::format("{} lines from here on are", found.damaged.size()),
        aside);
  }
  if (const auto bytes = leading_bytes(found))
    return write_file_atomically(file, content.substr(0, *bytes));
  std::string joined;
  for (const RowLine& row : found.rows) joined += content.substr(row.offset, row.size);
  write_file_atomically(file, joined);
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
  if (is_absent(file)) return {};
  FoundRows found;
  try {
    found = find_rows(file, last_step);
    if (!found.ascending || leading_bytes(found) != found.bytes)
      keep_only_rows(file, last_step, found);
  } catch (const Error& error) {
    // Otherwise the run would write rows that already exist.
    throw Error(Exit::storage, error.where(), error.message());
  }
  RestoredRows restored{{}, std::move(found.history)};
  for (const RowLine& row : found.rows) restored.steps.push_back(row.step);
  return restored;
}

void for_each_row(const std::string& file,
                  const std::function<void(int64_t step, const Row&)>& each) {
  if (is_absent(file)) return;
  MetricRowReader reader;
  for_each_line(file, [&](const FileLine& line) {
    if (const auto step = reader.read(line.text)) each(*step, reader.row());
  });
}

std::optional<int64_t> last_row_step(const std::string& file) {
  constexpr size_t kFirstRead = size_t{64} << 10;
  if (is_absent(file)) return std::nullopt;
  const RegularFile opened(file);
  MetricRowReader reader;
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
      if (const auto step = reader.read(rest.substr(start))) return step;
      rest = rest.substr(0, start);
    }
    if (begin == 0) return std::nullopt;
  }
}

}  // namespace bv

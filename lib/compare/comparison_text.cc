#include "lib/compare/comparison_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/compare/config_columns.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"
#include "lib/util/text_table.h"

namespace bv {
namespace {

constexpr size_t kLongestValue = 28, kLongestValueIfTight = 14;
constexpr size_t kUnlimited = std::string::npos;

// Formats the values of a column with the same number of decimals, so that decimal points align.
// The smallest value has 4 digits, or 3 if 4 need 7 decimals: if a run has exploded, the others
// still differ.
class NumberFormat {
 public:
  explicit NumberFormat(const std::vector<double>& values) {
    double least = INFINITY, greatest = 0;
    for (const double value : values) {
      if (!std::isfinite(value) || value == 0) continue;
      least = std::min(least, std::abs(value));
      greatest = std::max(greatest, std::abs(value));
    }
    if (greatest == 0) return;
    const int top = static_cast<int>(std::floor(std::log10(greatest)));
    const int bottom = static_cast<int>(std::floor(std::log10(least)));
    scientific_ = top >= 7 || bottom < -4;
    decimals_ = std::clamp(3 - bottom, 0, 6);
  }
  std::string operator()(double value) const {
    if (std::isnan(value)) return "nan";  // without a sign
    if (std::isinf(value)) return fmt::format("{}", value);
    return scientific_ ? fmt::format("{:.3e}", value) : fmt::format("{:.{}f}", value, decimals_);
  }
  // A deviation may be much smaller than the values.
  std::string deviation(double value) const {
    const bool vanishes = value > 0 && value < 0.5 * std::pow(10, -decimals_);
    return vanishes && !scientific_ ? fmt::format("{:.1e}", value) : (*this)(value);
  }

 private:
  int decimals_ = 4;
  bool scientific_ = false;
};

// A row of the table: a group of several runs has its own row, followed by one row per run.
struct TableRow {
  size_t group = 0;
  const RunGroup* of = nullptr;
  std::optional<size_t> run;  // none for a group of several runs
  bool first = false;         // shows the config
};

std::vector<TableRow> table_rows(const Comparison& all) {
  std::vector<TableRow> rows;
  for (size_t i = 0; i < all.groups.size(); ++i) {
    const RunGroup& group = all.groups[i];
    const bool several = group.runs.size() > 1;
    if (several) rows.push_back({i, &group, std::nullopt, true});
    for (const size_t run : group.runs) rows.push_back({i, &group, run, !several});
  }
  return rows;
}

TextColumn metric_column(const Comparison& all, const std::vector<TableRow>& rows, size_t metric) {
  std::vector<double> values;
  for (size_t run = 0; run < all.runs.size(); ++run)
    if (const auto* value = all.value_of(run, metric)) values.push_back(value->second);
  const NumberFormat format(values);
  struct Cell {
    std::string value, deviation;
    bool marked = false;
  };
  std::vector<Cell> cells;
  for (const TableRow& row : rows) {
    const Spread& spread = row.of->spreads[metric];
    Cell& cell = cells.emplace_back();
    if (row.run) {
      const auto* value = all.value_of(*row.run, metric);
      cell.value = value == nullptr ? "-" : format(value->second);
      cell.marked = value != nullptr && !all.runs[*row.run].status.finished();
    } else if (spread.n > 0) {
      cell.value = format(spread.mean);
      if (spread.n > 1) cell.deviation = " ± " + format.deviation(spread.deviation);
      // The column `n` belongs to the metric by which the table is sorted.
      if (spread.n != row.of->spreads[0].n) cell.deviation += fmt::format(" (n = {})", spread.n);
      cell.marked = row.of->provisional;
    } else {
      cell.value = "-";
    }
  }
  // All values end in the same column, whatever follows them.
  size_t behind = 0;
  bool marks = false;
  for (const Cell& cell : cells) {
    behind = std::max(behind, utf8_characters(cell.deviation));
    marks = marks || cell.marked;
  }
  TextColumn column{{metric_heading(all, metric)}, true};
  for (const Cell& cell : cells) {
    const std::string room(behind - utf8_characters(cell.deviation), ' ');
    column.cells.push_back(cell.value + cell.deviation + (cell.marked ? "*" : "") + room +
                           (marks && !cell.marked ? " " : ""));
  }
  return column;
}

std::vector<TextColumn> config_part(const std::vector<ConfigColumn>& columns,
                                    const std::vector<TableRow>& rows) {
  std::vector<TextColumn> out;
  for (const ConfigColumn& column : columns) {
    TextColumn text{{column.key}, true};
    for (const TableRow& row : rows) text.cells.push_back(row.first ? column.texts[row.group] : "");
    out.push_back(std::move(text));
  }
  return out;
}

// Replaces a group's whole config by one letter, for tables that are otherwise too wide.
std::vector<ConfigColumn> merged(const std::vector<ConfigColumn>& columns, size_t groups) {
  ConfigColumn one{"config", {}, {}};
  for (size_t group = 0; group < groups; ++group) {
    one.texts.push_back(fmt::format("[{}]", group + 1));
    one.legend.emplace_back(one.texts.back(), group_label(columns, group));
  }
  for (const ConfigColumn& column : columns)
    one.legend.insert(one.legend.end(), column.legend.begin(), column.legend.end());
  return {one};
}

std::vector<TextColumn> result_part(const Comparison& all, const std::vector<TableRow>& rows) {
  bool seeds = false, several = false;
  for (const RunRecord& run : all.runs) seeds = seeds || run.seed != all.runs[0].seed;
  for (const RunGroup& group : all.groups) several = several || group.runs.size() > 1;
  std::vector<TextColumn> out;
  if (seeds || several) {
    out.push_back({{"seed"}, true});
    for (const TableRow& row : rows)
      out.back().cells.push_back(row.run ? value_text(all.runs[*row.run].seed) : "");
  }
  if (all.has_folds()) {
    out.push_back({{"fold"}, true});
    for (const TableRow& row : rows)
      out.back().cells.push_back(row.run ? fold_text(all.runs[*row.run]) : "");
  }
  for (size_t metric = 0; metric < all.metrics.size(); ++metric)
    out.push_back(metric_column(all, rows, metric));
  if (several) {
    out.push_back({{"n"}, true});
    for (const TableRow& row : rows)
      out.back().cells.push_back(
          row.run || row.of->spreads.empty() ? "" : fmt::format("{}", row.of->spreads[0].n));
  }
  out.push_back({{"status"}, false});
  for (const TableRow& row : rows)
    out.back().cells.push_back(row.run ? all.runs[*row.run].status.text()
                                       : group_status(all, *row.of));
  out.push_back({{"run"}, false});
  for (const TableRow& row : rows)
    out.back().cells.push_back(row.run ? all.runs[*row.run].name : "");
  return out;
}

std::vector<std::string> table_lines(std::vector<TextColumn> left,
                                     const std::vector<TextColumn>& right) {
  left.insert(left.end(), right.begin(), right.end());
  for (TextColumn& column : left) {
    for (std::string& cell : column.cells) cell = printable(cell, kUnlimited);
  }
  return aligned(left);
}

size_t widest(const std::vector<std::string>& lines) {
  size_t width = 0;
  for (const std::string& line : lines) width = std::max(width, utf8_characters(line));
  return width;
}

std::string heading(const Comparison& all) {
  std::string out = counted(std::ssize(all.runs), "run");
  const bool several = all.groups.size() < all.runs.size();
  if (several) out += " in " + counted(std::ssize(all.groups), "group");
  out += all.metrics.empty() ? "; nothing has been measured yet" : ", by " + sort_text(all);
  out += '\n';
  if (several) {
    out += fmt::format(
        "The runs of a group differ only in the {}; it shows mean ± standard deviation (n - 1) of "
        "its n finished runs\n",
        repeated_text(all));
  }
  return out + '\n';
}

std::string footnotes(const Comparison& all, const std::vector<ConfigColumn>& columns) {
  std::string out;
  for (const ConfigColumn& column : columns) {
    for (const auto& [letter, value] : column.legend)
      out += fmt::format("{} {}\n", letter, printable(value, kUnlimited));
  }
  const bool marked = std::any_of(all.runs.begin(), all.runs.end(), [](const RunRecord& run) {
    return !run.status.finished() && run.metrics.rows > 0;
  });
  if (marked && !all.metrics.empty()) {
    out += "* marks an unfinished run; it does not count in the mean of finished runs\n";
  }
  return out.empty() ? out : '\n' + out;
}

}  // namespace

std::string sort_text(const Comparison& comparison) {
  const ComparedMetric& metric = comparison.metrics.at(0);
  const char* order = metric.direction == Direction::down ? "lower is better"
                      : metric.direction == Direction::up ? "higher is better"
                                                          : "the highest first";
  return fmt::format("{}: {} value, {}", printable(metric.name, kUnlimited),
                     comparison.shows_best(0) ? "best" : "last", order);
}

std::string metric_heading(const Comparison& comparison, size_t metric) {
  const bool marked = comparison.value == MetricValue::best && !comparison.shows_best(metric);
  return comparison.metrics[metric].name + (marked ? " (last)" : "");
}

std::string fold_text(const RunRecord& run) { return run.fold.empty() ? "-" : run.fold; }

std::string repeated_text(const Comparison& comparison) {
  return comparison.has_folds() ? "seed or fold" : "seed";
}

std::string group_status(const Comparison& comparison, const RunGroup& group) {
  if (group.runs.size() == 1) return comparison.runs[group.runs[0]].status.text();
  using Kind = RunStatus::Kind;
  std::vector<std::string> parts;
  for (const Kind kind : {Kind::finished, Kind::unfinished, Kind::diverged, Kind::failed}) {
    const auto count = std::count_if(group.runs.begin(), group.runs.end(), [&](size_t run) {
      return comparison.runs[run].status.kind == kind;
    });
    if (count > 0) parts.push_back(fmt::format("{} {}", count, kind_name(kind)));
  }
  return join(parts, ", ");
}

std::string comparison_text(const Comparison& all, size_t width) {
  const std::vector<TableRow> rows = table_rows(all);
  const std::vector<TextColumn> right = result_part(all, rows);
  std::vector<ConfigColumn> columns = config_columns(all, kLongestValue);
  std::vector<std::string> lines = table_lines(config_part(columns, rows), right);
  if (widest(lines) > width) {
    columns = config_columns(all, kLongestValueIfTight);
    lines = table_lines(config_part(columns, rows), right);
  }
  if (widest(lines) > width) {
    std::vector<ConfigColumn> one = merged(config_columns(all, kUnlimited), all.groups.size());
    const std::vector<std::string> narrow = table_lines(config_part(one, rows), right);
    if (widest(narrow) < widest(lines)) {
      columns = std::move(one);
      lines = narrow;
    }
  }
  return heading(all) + join(lines, "\n") + "\n" + footnotes(all, columns);
}

}  // namespace bv

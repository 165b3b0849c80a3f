#include "lib/report/params_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kColumns = 5;
using TableLine = std::array<std::string, kColumns>;  // name, shape, size, mean, std

int64_t size_of(const ParamRow& row) {
  int64_t size = 1;
  for (const int64_t n : row.shape) size *= n;
  return size;
}

}  // namespace

std::string params_table(const std::vector<ParamRow>& rows) {
  std::vector<TableLine> lines{{"Name", "Shape", "Size", "Mean", "Std"}};
  int64_t total = 0, frozen = 0;
  for (const ParamRow& row : rows) {
    const int64_t size = size_of(row);
    total += size;
    if (row.frozen) frozen += size;
    lines.push_back({row.frozen ? row.name + " (frozen)" : row.name, shape_text(row.shape),
                     human_count(size), fmt::format("{:.3g}", row.mean),
                     fmt::format("{:.3g}", row.std)});
  }
  std::array<size_t, kColumns> width{};
  for (const TableLine& line : lines) {
    for (size_t c = 0; c < kColumns; ++c) width[c] = std::max(width[c], line[c].size());
  }
  std::string rule = "+";
  for (const size_t w : width) rule += std::string(w + 2, '-') + "+";
  std::string out = rule;
  for (size_t i = 0; i < lines.size(); ++i) {
    out += "\n|";
    for (size_t c = 0; c < kColumns; ++c) {
      out += c < 2 || i == 0 ? fmt::format(" {:<{}} |", lines[i][c], width[c])
                             : fmt::format(" {:>{}} |", lines[i][c], width[c]);
    }
    if (i == 0) out += "\n" + rule;
  }
  if (!rows.empty()) out += "\n" + rule;
  out += fmt::format("\nTotal: {} in {} parameters", human_count(total), rows.size());
  if (frozen > 0) out += fmt::format(", {} of them frozen", human_count(frozen));
  return out;
}

}  // namespace bv

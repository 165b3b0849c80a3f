#include "lib/input/sources/common/manifest/csv_scan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

class CsvScan {
 public:
  CsvScan(std::string file, const CsvSettings& settings, bool keep_broken)
      : name_(std::move(file)),
        settings_(settings),
        rows_(name_, keep_broken),
        labels_(settings.classes) {}

  ManifestIndex run() {
    read_header();
    if (layout_.column_of(CsvRole::several)) find_bars();
    split_ = layout_.column_of(CsvRole::split);
    if (!split_) find_unused_splits();
    ManifestFile file(name_);
    bool header = true;
    while (const auto row = next(file)) {
      if (!std::exchange(header, false)) add(*row);
    }
    ManifestIndex index = rows_.finish("has a header, but no rows");
    finish_labels(index);
    index.remarks = std::move(remarks_);
    index.layout = layout_.pack();
    return index;
  }

 private:
  // Reads the next row that is not an empty line into cells_.
  std::optional<ManifestRow> next(ManifestFile& file) {
    const auto length = [&](std::string_view text, bool last) {
      return read_csv_row(text, layout_.delimiter, last, cells_);
    };
    while (const auto row = file.next(length)) {
      if (!is_empty_line(cells_)) return row;
    }
    return std::nullopt;
  }

  void read_header() {
    ManifestFile file(name_);
    const auto length = [&](std::string_view text, bool last) {
      layout_.delimiter = settings_.delimiter.value_or(guess_delimiter(text));
      return read_csv_row(text, layout_.delimiter, last, cells_);
    };
    std::optional<ManifestRow> row;
    do row = file.next(length);
    while (row && is_empty_line(cells_));
    if (!row) throw Error(Exit::usage, name_, "has no header: expected a line such as image,label");
    try {
      check_row_text(row->row.text);
      layout_ = csv_layout(cells_, layout_.delimiter, settings_, remarks_);
    } catch (const RowFault& fault) {
      throw row_error(name_, row->row, fault);
    }
    if (layout_.delimiter != ',' && !settings_.delimiter) {
      remarks_.push_back(fmt::format("cells are separated by {}, detected from the header",
                                     delimiter_text(layout_.delimiter)));
    }
  }

  // Determines whether ';' or '|' separates the labels of any cell, or whether a user-specified
  // class name contains a space. In both cases spaces are part of names.
  void find_bars() {
    const size_t column = *layout_.column_of(CsvRole::several);
    layout_.bars = std::any_of(settings_.classes.begin(), settings_.classes.end(),
                               [](const auto& name) { return name.find(' ') != name.npos; });
    ManifestFile file(name_);
    bool header = true;
    while (!layout_.bars && next(file)) {
      if (!std::exchange(header, false) && column < cells_.size())
        layout_.bars = cells_[column].text.find_first_of(";|") != std::string::npos;
    }
  }

  void find_unused_splits() {
    for (size_t i = 0; i < layout_.columns.size(); ++i)
      if (layout_.columns[i].role == CsvRole::feature) unused_splits_.push_back(i);
  }

  void add(const ManifestRow& row) {
    split_name_.reset();
    const bool sound = rows_.add(row, [&] { check_row(row.row); });
    if (!sound) labels_.add_broken();
    if (sound) {
      std::erase_if(unused_splits_, [&](size_t column) {
        return !rows_.see_unused_split(layout_.columns[column].name, cells_[column].text);
      });
    }
    if (split_) rows_.add_split(split_name_);
  }

  void check_row(const RowText& row) {
    check_row_text(row.text);
    check_cell_count(cells_, layout_, row.text);
    // First, because a row that is broken in other cells is still a row of its split.
    if (split_) {
      const CsvCell& cell = cells_[*split_];
      if (cell.text.empty()) throw RowFault(cell.at, "the split is empty");
      split_name_ = cell.text;
    }
    for (size_t i = 0; i < cells_.size(); ++i) {
      const CsvCell& cell = cells_[i];
      const CsvRole role = layout_.columns[i].role;
      if (role == CsvRole::path) row_file(cell.text, settings_.folder, cell.at);
      if (role == CsvRole::target) target_number(cell);
      if (role == CsvRole::several) refuse_commas(cell);
    }
    // These are last, because they count the labels.
    if (const auto several = layout_.column_of(CsvRole::several)) {
      const CsvCell& cell = cells_[*several];
      for (const std::string_view label : several_labels(cell.text, layout_.bars))
        labels_.add_one_of_several(label, cell.at, row);
    }
    if (const auto label = layout_.column_of(CsvRole::label))
      labels_.add(cells_[*label].text, cells_[*label].at, row);
    widen_types(row.line);
  }

  // Throws if a cell seems to hold several labels in a form that would make wrong class names.
  void refuse_commas(const CsvCell& cell) const {
    if (!settings_.classes.empty()) return;  // any other name is an error
    const std::string text = trim(cell.text);
    if (text.starts_with('[') && text.ends_with(']')) {
      throw RowFault(cell.at,
                     fmt::format("the labels are a list, {0}: write them without brackets and "
                                 "quotes, separated by `;` or `|`; if {0} is the name of a single "
                                 "class, list all names in `classes`",
                                 printable(text)),
                     /*fatal=*/true);
    }
    if (layout_.bars || text.find(',') == std::string::npos) return;
    throw RowFault(cell.at,
                   fmt::format("'{0}' has a comma, which does not separate labels: write `;` or "
                               "`|` between them; if '{0}' is the name of a single class, list all "
                               "names in `classes`",
                               printable(text)),
                   /*fatal=*/true);
  }

  void widen_types(int64_t line) {
    for (size_t i = 0; i < cells_.size(); ++i) {
      CsvColumn& column = layout_.columns[i];
      if (column.role != CsvRole::feature || column.type == CsvType::text) continue;
      const PlainNumber::Kind kind = plain_number(cells_[i].text).kind;
      if (kind == PlainNumber::Kind::none || kind == PlainNumber::Kind::huge) {
        column.type = CsvType::text;
        if (widened_rows_ > 0) {
          remarks_.push_back(
              fmt::format("line {}: '{}' is '{}', which is not a number as in the rows before: the "
                          "whole column is read as strings",
                          line, printable(column.name), printable(cells_[i].text)));
        }
      } else if (kind == PlainNumber::Kind::real) {
        column.type = CsvType::real;
      }
    }
    ++widened_rows_;
  }

  void finish_labels(ManifestIndex& index) {
    for (const size_t target : layout_.targets)
      index.class_names.push_back(layout_.columns[target].name);
    const bool several = layout_.column_of(CsvRole::several).has_value();
    if (!several && !layout_.column_of(CsvRole::label)) return;
    layout_.label = labels_.finish(name_);
    if (several && layout_.label.kind == LabelCode::Kind::real) {
      throw Error(
          Exit::usage, name_,
          "with multilabel the labels must be names or integers, but some have a decimal point");
    }
    if (!several) index.labels = labels_.numbers(layout_.label);
    index.class_names = layout_.label.names;
    if (const std::string why = labels_.suspicion(layout_.label); !why.empty())
      remarks_.push_back(why);
  }

  const std::string name_;
  const CsvSettings& settings_;
  ManifestRows rows_;
  LabelColumn labels_;
  CsvLayout layout_;
  std::optional<size_t> split_;            // the column
  std::optional<std::string> split_name_;  // of the row that is being read, if it can be read
  std::vector<size_t> unused_splits_;      // columns that may hold splits, if there is no split_
  std::vector<CsvCell> cells_;             // of the row that is being read
  int64_t widened_rows_ = 0;               // rows that widen_types() has seen
  std::vector<std::string> remarks_;
};

}  // namespace

ManifestIndex scan_csv(const std::string& file, const CsvSettings& settings, bool keep_broken) {
  return CsvScan(file, settings, keep_broken).run();
}

}  // namespace bv

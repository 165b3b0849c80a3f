#include "lib/input/sources/common/manifest/csv_layout.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>

#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/input/sources/common/manifest/manifest_index.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/input/sources/common/packed_text.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kPathNames[] = {"image",     "path",     "file",      "filename",
                                           "file_name", "filepath", "image_path"};
constexpr std::string_view kLabelNames[] = {"label", "class"};

// Assigns roles to the columns of a header.
class CsvHeader {
 public:
  CsvHeader(const std::vector<CsvCell>& cells, const CsvSettings& settings,
            std::vector<std::string>& remarks)
      : cells_(cells), settings_(settings), remarks_(remarks) {
    for (const CsvCell& cell : cells) layout_.columns.push_back({.name = trim(cell.text)});
  }

  CsvLayout read() {
    refuse_data();
    name_columns();
    assign_path();
    assign_labels();
    if (settings_.split) assign(*settings_.split, "split_column", CsvRole::split);
    leave_out_hidden();
    return std::move(layout_);
  }

 private:
  // Throws if the row names a file that exists: its images would be lost silently.
  void refuse_data() const {
    for (const CsvCell& cell : cells_) {
      struct stat info {};
      try {
        const RowFile file = row_file(cell.text, settings_.folder, cell.at);
        if (stat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      } catch (const RowFault&) {
        continue;  // not a file: it may be a name
      }
      throw RowFault(cell.at, fmt::format("the first line names the file '{}', so it is not a "
                                          "header: begin with a line such as 'image{}label'",
                                          printable(cell.text), cell_separator()));
    }
  }
  char cell_separator() const { return settings_.delimiter.value_or(','); }

  void name_columns() {
    std::set<std::string> seen;
    for (size_t i = 0; i < cells_.size(); ++i) {
      CsvColumn& column = layout_.columns[i];
      if (column.name.empty()) {
        column.role = CsvRole::unused;
        remarks_.push_back(fmt::format("column {} has no name and is left out", i + 1));
      } else if (!seen.insert(column.name).second) {
        throw RowFault(cells_[i].at,
                       fmt::format("the column '{}' appears twice", printable(column.name)));
      }
    }
  }

  std::optional<size_t> find(std::string_view name) const {
    const auto found = std::find_if(layout_.columns.begin(), layout_.columns.end(),
                                    [&](const CsvColumn& column) { return column.name == name; });
    if (found == layout_.columns.end()) return std::nullopt;
    return found - layout_.columns.begin();
  }

  // Returns the first column without a role that has one of these names. A name in another case
  // counts if no column has one of them as it is.
  std::optional<size_t> find_usual(std::span<const std::string_view> names) const {
    const std::vector<CsvColumn>& columns = layout_.columns;
    for (const bool any_case : {false, true}) {
      for (const std::string_view& name : names) {
        for (size_t i = 0; i < columns.size(); ++i) {
          const bool same = any_case ? is_named(columns[i].name, {&name, 1})  // ignores case
                                     : columns[i].name == name;
          if (same && columns[i].role == CsvRole::feature) return i;
        }
      }
    }
    return std::nullopt;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const CsvColumn& column : layout_.columns) {
      if (!column.name.empty()) all.push_back(column.name);
    }
    return all;
  }
  std::string columns_text() const {
    constexpr size_t kShown = 20;
    std::vector<std::string> shown = names();
    const bool more = shown.size() > kShown;
    if (more) shown.resize(kShown);
    return fmt::format("{}{}", join(shown, ", "), more ? ", ..." : "");
  }

  // Gives the column `name`, which `key` of the config names, a role. Returns its index.
  size_t assign(const std::string& name, const char* key, CsvRole role) {
    const std::optional<size_t> found = find(name);
    if (!found) {
      const std::string similar = nearest(name, names());
      throw RowFault(
          0, fmt::format("no column '{}' for `{}`{}; columns: {}", printable(name), key,
                         similar.empty() ? "" : fmt::format(" (did you mean '{}'?)", similar),
                         columns_text()));
    }
    CsvColumn& column = layout_.columns[*found];
    if (column.role != CsvRole::feature) {
      throw RowFault(cells_[*found].at,
                     fmt::format("the column '{}' cannot be `{}` too: it is `{}`", printable(name),
                                 key, users_[name]));
    }
    column.role = role;
    users_[name] = key;
    return *found;
  }

  void assign_path() {
    if (settings_.path) {
      assign(*settings_.path, "path", CsvRole::path);
      return;
    }
    if (const std::optional<size_t> found = find_usual(kPathNames)) {
      assign(layout_.columns[*found].name, "path", CsvRole::path);
      return;
    }
    std::vector<std::string> expected(std::begin(kPathNames), std::end(kPathNames));
    throw RowFault(
        0, fmt::format(
               "no column is called {}: set `path` to the column with the image files; columns: {}",
               join(expected, ", "), columns_text()));
  }

  void assign_labels() {
    const CsvRole role = settings_.label_list   ? CsvRole::target
                         : settings_.multilabel ? CsvRole::several
                                                : CsvRole::label;
    for (const std::string& name : settings_.labels) {
      const size_t column = assign(name, "label", role);
      if (settings_.label_list) layout_.targets.push_back(column);
    }
    if (!settings_.labels.empty()) return;
    if (const std::optional<size_t> found = find_usual(kLabelNames)) {
      assign(layout_.columns[*found].name, "label", role);
      return;
    }
    if (settings_.multilabel || !settings_.classes.empty()) {
      throw RowFault(0, fmt::format("no column is called label or class: set `label` to the column "
                                    "with the labels; columns: {}",
                                    columns_text()));
    }
  }

  // A column cannot be a feature with the name of one that other columns make.
  void leave_out_hidden() {
    std::set<std::string> made = {"image"};
    if (layout_.column_of(CsvRole::label)) made.insert("label");
    if (layout_.column_of(CsvRole::several) || !layout_.targets.empty()) made.insert("labels");
    for (CsvColumn& column : layout_.columns) {
      if (column.role != CsvRole::feature || !made.contains(column.name)) continue;
      column.role = CsvRole::unused;
      remarks_.push_back(
          fmt::format("the column '{0}' is left out, because other columns make "
                      "the feature '{0}'",
                      column.name));
    }
  }

  const std::vector<CsvCell>& cells_;
  const CsvSettings& settings_;
  std::vector<std::string>& remarks_;
  CsvLayout layout_;
  std::map<std::string, std::string> users_;  // the key of the config that uses a column
};

}  // namespace

std::optional<size_t> CsvLayout::column_of(CsvRole role) const {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const CsvColumn& column) { return column.role == role; });
  if (found == columns.end()) return std::nullopt;
  return found - columns.begin();
}

std::string CsvLayout::pack() const {
  PackedText packed;
  packed.number(static_cast<unsigned char>(delimiter));
  packed.number(columns.size());
  for (const CsvColumn& column : columns) {
    packed.text(column.name);
    packed.number(static_cast<uint64_t>(column.role));
    packed.number(static_cast<uint64_t>(column.type));
  }
  packed.numbers(targets);
  packed.number(static_cast<uint64_t>(label.kind));
  packed.number(static_cast<uint64_t>(label.classes));
  packed.number(bars ? 1 : 0);
  return packed.take();
}

std::optional<CsvLayout> CsvLayout::unpack(std::string_view text, std::vector<std::string> names) {
  UnpackedText packed(text);
  CsvLayout layout;
  layout.delimiter = static_cast<char>(packed.number());
  const uint64_t count = packed.number();
  if (count > limits::kColumns) return std::nullopt;
  for (uint64_t i = 0; i < count; ++i) {
    CsvColumn column{.name = std::string(packed.text())};
    const uint64_t role = packed.number(), type = packed.number();
    if (role > static_cast<uint64_t>(CsvRole::unused) ||
        type > static_cast<uint64_t>(CsvType::text))
      return std::nullopt;
    column.role = static_cast<CsvRole>(role);
    column.type = static_cast<CsvType>(type);
    layout.columns.push_back(std::move(column));
  }
  layout.targets = packed.numbers<size_t>();
  const uint64_t kind = packed.number();
  if (kind > static_cast<uint64_t>(LabelCode::Kind::name)) return std::nullopt;
  layout.label.kind = static_cast<LabelCode::Kind>(kind);
  layout.label.classes = static_cast<int64_t>(packed.number());
  layout.bars = packed.number() != 0;
  const bool sound = packed.whole() && layout.column_of(CsvRole::path).has_value() &&
                     std::all_of(layout.targets.begin(), layout.targets.end(),
                                 [&](size_t target) { return target < layout.columns.size(); });
  if (!sound) return std::nullopt;
  if (layout.targets.empty()) layout.label.names = std::move(names);
  layout.label.index_names();
  return layout;
}

CsvLayout csv_layout(const std::vector<CsvCell>& header, char delimiter,
                     const CsvSettings& settings, std::vector<std::string>& remarks) {
  CsvLayout layout = CsvHeader(header, settings, remarks).read();
  layout.delimiter = delimiter;
  return layout;
}

void check_cell_count(const std::vector<CsvCell>& cells, const CsvLayout& layout,
                      std::string_view row) {
  const size_t columns = layout.columns.size();
  if (cells.size() == columns) return;
  const size_t end = row.find_last_not_of("\r\n") + 1;
  throw RowFault(cells.size() > columns ? cells[columns].at : end,
                 fmt::format("the row has {}, but the header has {}{}",
                             counted(std::ssize(cells), "cell"), columns,
                             cells.size() > columns ? fmt::format(": quote cells that hold {}",
                                                                  delimiter_text(layout.delimiter))
                                                    : ""));
}

namespace {

// Says how to write what the cell probably means.
const char* number_hint(std::string_view text) {
  if (has_decimal_comma(text)) return ": write a decimal point, not a comma";
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_word = lower == "true" || lower == "false" || lower == "yes" || lower == "no";
  return is_word ? ": write 1 or 0" : "";
}

}  // namespace

float target_number(const CsvCell& cell) {
  const PlainNumber number = plain_number(cell.text);
  if (number.kind == PlainNumber::Kind::none || number.kind == PlainNumber::Kind::huge) {
    if (cell.text.empty()) throw RowFault(cell.at, "the label is empty");
    throw RowFault(cell.at, fmt::format("the label '{}' is not a finite number{}",
                                        printable(cell.text), number_hint(cell.text)));
  }
  return static_cast<float>(number.real);
}

}  // namespace bv

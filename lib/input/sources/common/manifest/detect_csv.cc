#include "lib/input/sources/common/manifest/detect_csv.h"

#include <filesystem>
#include <string_view>

#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Removes the first row from `rows` and returns its cell in a column, "" if it has none. Returns
// nullopt at the end, and for a row that cannot be read: that is reported when the data is opened.
std::optional<std::string> next_cell(std::string_view& rows, char delimiter, size_t column) {
  std::vector<CsvCell> cells;
  try {
    const size_t length = read_csv_row(rows, delimiter, /*last=*/true, cells);
    if (length == 0) return std::nullopt;
    rows.remove_prefix(length);
  } catch (const RowFault&) {
    return std::nullopt;
  }
  return column < cells.size() ? cells[column].text : "";
}

// Throws Error(Exit::usage) if a label in `rows` is not one class, but a real number or several
// labels. The message ends with `command` (writing_command()) and the task that suits the label.
void need_one_class(const std::string& file, std::string_view rows, char delimiter, size_t label,
                    const std::string& command) {
  while (const auto text = next_cell(rows, delimiter, label)) {
    if (plain_number(*text).kind == PlainNumber::Kind::real) {
      throw Error(Exit::usage, file,
                  fmt::format("has labels such as {}, which are regression targets: `{} regress` "
                              "writes a config for them",
                              *text, command));
    }
    const bool list = text->starts_with('[') && text->ends_with(']');
    if (list || text->find_first_of(";|") != std::string::npos) {
      throw Error(Exit::usage, file,
                  fmt::format("has several labels in a cell, such as '{}': `{} multilabel` writes "
                              "a config for them",
                              printable(*text), command));
    }
  }
}

// Returns "bvtrain init photos --label age --task" for the folder of a file; without --label if
// `column` is "".
std::string writing_command(const std::string& file, const std::string& column) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return fmt::format("bvtrain init {}{} --task", shell_word(folder.empty() ? "." : folder),
                     column.empty() ? "" : " --label " + shell_word(column));
}

// Returns whether the cells of a column are names of splits.
bool column_holds_splits(std::string_view rows, char delimiter, size_t column) {
  bool any = false;
  while (const auto text = next_cell(rows, delimiter, column)) {
    if (text->empty()) continue;
    if (!is_split_name(*text)) return false;
    any = true;
  }
  return any;
}

// Throws Error(Exit::usage) if the file has a column with the name of a split in each row.
void refuse_split_column(const std::string& file, std::string_view rows, const CsvLayout& layout) {
  for (size_t i = 0; i < layout.columns.size(); ++i) {
    const CsvColumn& column = layout.columns[i];
    if (column.role != CsvRole::feature) continue;
    if (!is_split_column(column.name) && !column_holds_splits(rows, layout.delimiter, i)) continue;
    throw Error(Exit::usage, file,
                fmt::format("has a column `{0}`, so some rows may not be for training: write the "
                            "config yourself, with `name: csv` and `split_column: {0}`",
                            printable(column.name)));
  }
}

// Whether the image is in a class folder <folder>/<label> or <folder>/<split>/<label>. The source
// image_folder reads these.
bool in_class_folder(const std::string& image, const std::string& label,
                     const std::string& folder) {
  const auto parent = std::filesystem::path(image).lexically_normal().parent_path();
  if (parent.filename() != label) return false;
  auto above = parent.parent_path();
  if (is_split_name(above.filename().string())) above = above.parent_path();
  std::error_code error;
  return std::filesystem::equivalent(above.empty() ? "." : above, folder.empty() ? "." : folder,
                                     error);
}

}  // namespace

CsvSettings settings_for(const std::string& folder, const CsvLabels* chosen) {
  CsvSettings settings;
  settings.folder = folder;
  if (chosen) {
    settings.labels = chosen->columns;
    settings.label_list = chosen->list;
    settings.multilabel = chosen->multilabel;
  }
  return settings;
}

std::optional<DataKeys> csv_data_keys(const std::string& file, const std::string& head,
                                      const CsvLabels* chosen) {
  try {
    const char delimiter = guess_delimiter(head);
    const CsvSettings settings =
        settings_for(std::filesystem::path(file).parent_path().string(), chosen);
    std::vector<CsvCell> cells;
    const size_t length = read_csv_row(head, delimiter, /*last=*/false, cells);
    if (length == 0) return std::nullopt;
    std::vector<std::string> remarks;
    const CsvLayout layout = csv_layout(cells, delimiter, settings, remarks);
    const auto label = layout.column_of(CsvRole::label);
    const size_t path = layout.column_of(CsvRole::path).value();
    const std::string_view row = std::string_view(head).substr(length);
    const bool labelled = label || !layout.targets.empty() || layout.column_of(CsvRole::several);
    if (!labelled || row.empty()) return std::nullopt;
    read_csv_row(row, delimiter, /*last=*/true, cells);
    check_cell_count(cells, layout, row);
    const RowFile image = row_file(cells[path].text, settings.folder, cells[path].at);
    std::error_code error;
    if (!std::filesystem::is_regular_file(image.path, error)) return std::nullopt;
    if (!chosen && in_class_folder(image.path, cells[*label].text, settings.folder))
      return std::nullopt;
    if (label) {
      const bool named = chosen && !chosen->columns.empty();
      need_one_class(file, row, delimiter, *label,
                     writing_command(file, named ? chosen->columns[0] : ""));
    }
    refuse_split_column(file, row, layout);
    return DataKeys{{"fname", file}};
  } catch (const RowFault&) {
    return std::nullopt;  // some other table
  }
}

}  // namespace bv

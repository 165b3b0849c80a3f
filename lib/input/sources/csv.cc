// csv: the images that a CSV file names, with their labels and the values of its other columns.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/path.h"
#include "lib/input/sources/common/file_bytes.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/manifest/csv_scan.h"
#include "lib/input/sources/common/manifest/detect_csv.h"
#include "lib/input/sources/common/manifest/detect_manifest.h"
#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable csv_keys(
    "input.data: csv",
    {"A CSV file with one row per image: one column names the file, and another has the label. The "
     "first line names the columns. Examples have `image`, the bytes of the file, which an op such "
     "as `decode` must decode, and `label`: a class number, the index of a class name among the "
     "sorted names, or a floating-point regression target. Every other "
     "column becomes a feature of its name: an integer, a float32 or a string. Cells may be quoted "
     "as in RFC 4180. A missing image is an error when it is read. For the first and last row, "
     "bvtrain checks this at the start.",
     "name: csv\nfname: data/train.csv"},
    {{"fname", "string", "required", "The CSV file, in UTF-8, on a local or mounted disk.",
      "data/train.csv"},
     {"path", "string",
      "= the first of image, path, file, filename, file_name, filepath, image_path, in any case",
      "Name of the column with the image files.", "file"},
     {"label", "string | list of string",
      "= label or class, in any case, if there is such a column",
      "Name of the column with the label. A list of columns gives `labels`, a vector of their "
      "numbers: regression targets, 0 and 1 for each class, or soft labels.",
      "breed"},
     {"multilabel", "bool", "false",
      "A cell may hold several labels, separated by `;` or `|`. If no cell has one of these, and "
      "no name in `classes` contains a space, white space separates the labels. A cell with a "
      "comma is then an error, unless `classes` lists the names: commas never separate labels. "
      "Examples have `labels`: 1 for each class of the image and 0 for the others."},
     {"classes", "list of string", "[]",
      "Class names in the order of their numbers. Any other name in the column is an error. By "
      "default, the sorted names of the column. With `multilabel`, give it for all data sets of a "
      "run, "
      "because their files may have different classes.",
      "[cat, dog]"},
     {"folder", "string", "= the folder of the CSV file",
      "Folder that paths are relative to, unless they begin with /. They cannot leave it by `..`.",
      "data/images"},
     {"delimiter", "string", "= detected from the header: a comma, a semicolon, a tab or `|`",
      "The character between cells, or the word `tab`.", ";"}},
    kManifestKeys);

CsvSettings csv_settings(const Config& config, const std::string& own_folder) {
  CsvSettings settings;
  settings.path = config.maybe<std::string>("path");
  settings.label_list = config.is_list("label");
  if (settings.label_list)
    settings.labels = config.get<std::vector<std::string>>("label");
  else if (const auto label = config.maybe<std::string>("label"))
    settings.labels = {*label};
  if (settings.label_list && settings.labels.empty()) config.problem("label", "is an empty list");
  settings.multilabel = config.get("multilabel", false);
  settings.classes = config.get<std::vector<std::string>>("classes", {});
  settings.folder = maybe_path(config, "folder").value_or(own_folder);
  if (settings.label_list && settings.multilabel)
    config.problem("multilabel", "is for one column of labels, but `label` is a list of columns");
  if (settings.label_list && !settings.classes.empty())
    config.problem("classes", "is for one column of labels, but `label` is a list of columns");
  std::set<std::string> seen;
  for (const std::string& name : settings.classes) {
    if (name.empty()) config.problem("classes", "has an empty name");
    if (!seen.insert(name).second)
      config.problem("classes", fmt::format("has '{}' twice", printable(name)));
  }
  if (const auto delimiter = config.maybe<std::string>("delimiter")) {
    const std::string text = *delimiter == "tab" ? "\t" : *delimiter;
    const bool fits = text.size() == 1 && text.find_first_of("\"\r\n") == std::string::npos &&
                      static_cast<unsigned char>(text[0]) < 0x80 && text[0] != '\0';
    if (fits)
      settings.delimiter = text[0];
    else
      config.problem("delimiter", "must be one character, not a quote, or the word tab");
  }
  return settings;
}

// The bytes of an image file that a row names.
at::Tensor row_image_bytes(const RowFile& file) {
  return file_bytes(file.path, fmt::format("can't read '{}'", file.name));
}

class CsvReader : public RowReader {
 public:
  // `classes`: the width of a vector of several labels if the labels are numbers.
  CsvReader(CsvLayout layout, std::string folder, int64_t classes)
      : layout_(std::move(layout)),
        folder_(std::move(folder)),
        classes_(layout_.label.names.empty() ? std::max(layout_.label.classes, classes)
                                             : layout_.label.classes),
        path_(layout_.column_of(CsvRole::path).value()) {}

  bool has_files() const override { return true; }

  std::vector<RowFile> files(std::string_view row) const override {
    const std::vector<CsvCell> cells = cells_of(row);
    return {row_file(cells[path_].text, folder_, cells[path_].at)};
  }

  Example read(std::string_view row, int64_t, bool with_files) const override {
    const std::vector<CsvCell> cells = cells_of(row);
    Example example;
    for (size_t i = 0; i < cells.size(); ++i) {
      const CsvColumn& column = layout_.columns[i];
      if (column.role == CsvRole::split && cells[i].text.empty())
        throw RowFault(cells[i].at, "the split is empty");
      if (column.role == CsvRole::feature) example[column.name] = feature(cells[i], column.type);
      if (column.role == CsvRole::label) example["label"] = label(cells[i]);
      if (column.role == CsvRole::several) example["labels"] = several(cells[i]);
    }
    if (!layout_.targets.empty()) example["labels"] = targets(cells);
    if (with_files)
      example["image"] = row_image_bytes(row_file(cells[path_].text, folder_, cells[path_].at));
    return example;
  }

 private:
  std::vector<CsvCell> cells_of(std::string_view row) const {
    check_row_text(row);
    std::vector<CsvCell> cells;
    read_csv_row(row, layout_.delimiter, /*last=*/true, cells);
    check_cell_count(cells, layout_, row);
    return cells;
  }

  static at::Tensor feature(const CsvCell& cell, CsvType type) {
    if (type == CsvType::text) return text_tensor(cell.text);
    const PlainNumber number = plain_number(cell.text);
    const bool whole = number.kind == PlainNumber::Kind::whole;
    if (!whole && (type == CsvType::whole || number.kind != PlainNumber::Kind::real)) {
      throw RowFault(cell.at,
                     fmt::format("'{}' is not a {}number, as it is in other rows",
                                 printable(cell.text), type == CsvType::whole ? "whole " : ""));
    }
    return type == CsvType::whole ? at::full({}, number.whole, at::kLong)
                                  : at::full({}, number.real, at::kFloat);
  }

  at::Tensor label(const CsvCell& cell) const {
    if (cell.text.empty()) throw RowFault(cell.at, "the label is empty");
    if (layout_.label.kind == LabelCode::Kind::real)
      return at::full({}, target_number(cell), at::kFloat);
    return at::full({}, layout_.label.number_of(cell.text, cell.at), at::kLong);
  }

  at::Tensor several(const CsvCell& cell) const {
    at::Tensor labels = at::zeros({classes_}, at::kFloat);
    float* out = labels.mutable_data_ptr<float>();
    for (const std::string_view text : several_labels(cell.text, layout_.bars)) {
      const int64_t number = layout_.label.number_of(text, cell.at);
      if (number < 0 || number >= classes_) {
        throw RowFault(
            cell.at, fmt::format("the label is {}, must be within 0 .. {}", number, classes_ - 1));
      }
      out[number] = 1;
    }
    return labels;
  }

  at::Tensor targets(const std::vector<CsvCell>& cells) const {
    at::Tensor labels = at::empty({static_cast<int64_t>(layout_.targets.size())}, at::kFloat);
    float* out = labels.mutable_data_ptr<float>();
    for (const size_t column : layout_.targets) *out++ = target_number(cells[column]);
    return labels;
  }

  const CsvLayout layout_;
  const std::string folder_;
  const int64_t classes_;
  const size_t path_;  // the column
};

class CsvSource : public ManifestSource {
 public:
  CsvSource(const Config& config, const SourceEnv& env)
      : ManifestSource(config, env),
        settings_(csv_settings(config, own_folder())),
        num_classes_(env.num_classes),
        folder_place_(config.place("folder")) {
    settings_.split = split_column();
  }

  bool classes_are_columns() const override { return settings_.label_list; }

  SyntheticSpec synthetic_spec() const override {
    SyntheticSpec spec;
    spec.classes = static_cast<int64_t>(settings_.classes.size());
    if (settings_.multilabel) spec.labels = SyntheticSpec::Labels::classes;
    if (settings_.label_list) spec.labels = SyntheticSpec::Labels::targets;
    return spec;
  }

 protected:
  ManifestIndex scan() const override { return scan_csv(fname(), settings_, keep_broken()); }

  std::unique_ptr<RowReader> reader(const ManifestIndex& index) const override {
    if (!settings_.folder.empty()) FolderKey{settings_.folder, folder_place_}.check_exists();
    auto layout = CsvLayout::unpack(index.layout, index.class_names);
    if (!layout) return nullptr;
    return std::make_unique<CsvReader>(std::move(*layout), settings_.folder, num_classes_);
  }

  std::string index_format() const override {
    std::string format = "bvtrain csv 6";
    const auto put = [&](const std::string& text) { format += " " + json_string(text); };
    put(settings_.path.value_or(""));
    put(settings_.split.value_or(""));
    put(settings_.delimiter ? std::string(1, *settings_.delimiter) : "");
    put(settings_.folder);
    format += fmt::format(" {:d} {:d}", settings_.label_list, settings_.multilabel);
    for (const std::string& name : settings_.labels) put(name);
    format += " :";
    for (const std::string& name : settings_.classes) put(name);
    return format;
  }

  std::string folder_hint() const override { return "paths are relative to `folder`"; }

 private:
  CsvSettings settings_;
  int64_t num_classes_;
  Place folder_place_;
};

std::optional<DetectedData> detect_csv(const std::string& folder) {
  return detect_manifest(folder, kCsvSuffixes, "CSV file", [](const auto& file, const auto& head) {
    return csv_data_keys(file, head, /*chosen=*/nullptr);
  });
}

const Register<Source, CsvSource> registered_csv("csv");
const RegisterDetector csv_detector("csv", "a CSV file with the columns image and label",
                                    detect_csv);

}  // namespace
}  // namespace bv

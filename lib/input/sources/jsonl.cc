// jsonl: the objects of a JSON Lines file, like big_vision's bv:jsonl, with the files they name.
#include <ATen/ops/full.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/path.h"
#include "lib/input/sources/common/file_bytes.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/manifest/detect_manifest.h"
#include "lib/input/sources/common/manifest/json_row.h"
#include "lib/input/sources/common/manifest/manifest.h"
#include "lib/input/sources/common/packed_text.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr KeyText kJsonlKeys[] = {
    {"fname", "string", "required", "The file, in UTF-8, on a local or mounted disk.",
     "data/train.jsonl"},
    {"fopen_keys", "string | list of string | map of string", "[]",
     "Keys whose values are file names, usually of images: examples have the bytes of the file in "
     "place of its name. Relative names start from the folder of the jsonl file. A mapping from "
     "keys to folders sets the folder of each key.",
     "{image: data/images}"},
    {"download_keys", "list of string", "[]",
     "Not supported: an error unless empty. Download the files, and give the key of their names in "
     "`fopen_keys`."},
    {"start", "int >= 0", "0", "Number of rows to skip at the beginning of the file."},
    {"stop", "int >= 1", "none", "Index of the row, from 0, before which to stop."}};

constexpr std::string_view kAbout =
    "A file with a JSON object in each line. Each object is an example, with its values as "
    "features: booleans, integers as int64, other numbers as float32, strings as UTF-8 bytes, "
    "lists of numbers as vectors, lists of strings padded with zeros. A value in a nested object "
    "has a key like `a/b`. All rows must have the same keys with values of the same types. `id` is "
    "the row number, as a string, unless the rows have an `id`.";

const KeyTable jsonl_keys("input.data: jsonl",
                          {kAbout, "name: jsonl\nfname: data/train.jsonl\nfopen_keys: [image]",
                           "datasets/jsonl.py DataSource"},
                          {}, kJsonlKeys, kManifestKeys);
const KeyTable jsonl_alias_keys("input.data: bv:jsonl",
                                {"The same as jsonl, under big_vision's name.",
                                 "name: bv:jsonl\nfname: data/train.jsonl\nfopen_keys: [image]",
                                 "datasets/jsonl.py DataSource"},
                                {}, kJsonlKeys, kManifestKeys);

// A key that all rows have.
struct JsonlKey {
  std::string key;
  JsonRowType type;  // includes those of all rows
  int64_t line = 0;  // of the first row with a value of this type, for messages
};
using JsonlKeys = std::vector<JsonlKey>;  // sorted by key

std::string pack_keys(const JsonlKeys& all) {
  PackedText packed;
  packed.number(all.size());
  for (const JsonlKey& one : all) {
    packed.text(one.key);
    packed.number(static_cast<uint64_t>(one.type.scalar));
    packed.number(one.type.list ? 1 : 0);
    packed.number(static_cast<uint64_t>(one.line));
  }
  return packed.take();
}

std::optional<JsonlKeys> unpack_keys(std::string_view text) {
  UnpackedText packed(text);
  JsonlKeys all;
  for (uint64_t count = packed.number(); count > 0 && !packed.failed(); --count) {
    JsonlKey one;
    one.key = packed.text();
    const uint64_t scalar = packed.number();
    if (scalar > static_cast<uint64_t>(JsonScalar::nothing)) return std::nullopt;
    one.type = {static_cast<JsonScalar>(scalar), packed.number() != 0};
    one.line = static_cast<int64_t>(packed.number());
    all.push_back(std::move(one));
  }
  if (!packed.whole()) return std::nullopt;
  return all;
}

// Throws RowFault unless the fields of a row have the keys `all` and types that fit. `widens`: a
// type also fits if one of `all` can be widened to include it.
void check_fields(const std::vector<JsonField>& fields, const JsonlKeys& all, bool widens) {
  for (size_t i = 0; i < std::max(fields.size(), all.size()); ++i) {
    if (i == fields.size() || (i < all.size() && all[i].key < fields[i].key)) {
      throw RowFault(
          0, fmt::format("no key '{}', which line {} has", printable(all[i].key), all[i].line));
    }
    if (i == all.size() || fields[i].key < all[i].key) {
      throw RowFault(fields[i].at, fmt::format("the key '{}' is not in line {}",
                                               printable(fields[i].key), all[0].line));
    }
    JsonRowType type = all[i].type;
    if (widen(type, fields[i].type) && (widens || type == all[i].type)) continue;
    throw RowFault(fields[i].at,
                   fmt::format("'{}' is {}, but {} in line {}", printable(fields[i].key),
                               type_text(fields[i].type), type_text(all[i].type), all[i].line));
  }
}

// Returns the split name in a field. Throws RowFault.
std::string split_of(const JsonField& field) {
  if (field.type == JsonRowType{JsonScalar::text, false} && !field.texts[0].empty())
    return field.texts[0];
  throw RowFault(field.at, fmt::format("'{}' must be the name of a split", printable(field.key)));
}

// The keys whose values are file names, with their folders.
using FileKeys = std::map<std::string, std::string>;

class JsonlReader : public RowReader {
 public:
  JsonlReader(JsonlKeys all, FileKeys files, std::string split)
      : keys_(std::move(all)), files_(std::move(files)), split_(std::move(split)) {}

  bool has_files() const override { return !files_.empty(); }

  std::vector<RowFile> files(std::string_view row) const override {
    std::vector<RowFile> all;
    for (const JsonField& field : fields_of(row)) {
      const auto file = files_.find(field.key);
      if (file != files_.end()) all.push_back(row_file(field.texts.at(0), file->second, field.at));
    }
    return all;
  }

  Example read(std::string_view row, int64_t number, bool with_files) const override {
    Example example;
    const std::vector<JsonField> fields = fields_of(row);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].key == split_) {
        split_of(fields[i]);
        continue;
      }
      const auto file = files_.find(fields[i].key);
      if (file == files_.end())
        example[fields[i].key] = field_tensor(fields[i], keys_[i].type);
      else if (with_files)
        example[fields[i].key] = bytes(fields[i], *file);
    }
    if (!example.contains("id")) example["id"] = text_tensor(fmt::format("{}", number));
    return example;
  }

 private:
  std::vector<JsonField> fields_of(std::string_view row) const {
    std::vector<JsonField> fields = read_json_row(row);
    check_fields(fields, keys_, /*widens=*/false);
    return fields;
  }

  static at::Tensor bytes(const JsonField& field, const FileKeys::value_type& key) {
    const RowFile file = row_file(field.texts.at(0), key.second, field.at);
    return file_bytes(file.path, fmt::format("can't read '{}'", file.name));
  }

  const JsonlKeys keys_;
  const FileKeys files_;
  const std::string split_;  // the key of the split, which is not a feature; "" if there is none
};

class JsonlSource : public ManifestSource {
 public:
  JsonlSource(const Config& config, const SourceEnv& env)
      : ManifestSource(config, env),
        file_keys_(file_keys(config)),
        start_(config.get<int64_t>("start", 0)),
        stop_(config.maybe<int64_t>("stop")),
        keys_place_(config.place("fopen_keys")) {
    if (!config.get<std::vector<std::string>>("download_keys", {}).empty()) {
      config.problem("download_keys",
                     "is not supported: download the files first, and give the key of their names "
                     "in fopen_keys");
    }
    if (start_ < 0) config.problem("start", fmt::format("must be at least 0, got {}", start_));
    if (stop_ && *stop_ < 1)
      config.problem("stop", fmt::format("must be at least 1, got {}", *stop_));
    if (stop_ && *stop_ >= 1 && *stop_ <= start_)
      config.problem("stop",
                     fmt::format("is {}, but start is {}: no rows are left", *stop_, start_));
  }

  SyntheticSpec synthetic_spec() const override { return {}; }

 protected:
  ManifestIndex scan() const override;

  std::unique_ptr<RowReader> reader(const ManifestIndex& index) const override {
    auto all = unpack_keys(index.layout);
    if (!all) return nullptr;
    return std::make_unique<JsonlReader>(std::move(*all), file_keys_, split_column().value_or(""));
  }

  std::string index_format() const override {
    std::string format = fmt::format("bvtrain jsonl 5 {} {} {}", start_, stop_.value_or(-1),
                                     json_string(split_column().value_or("")));
    for (const auto& [key, folder] : file_keys_)
      format += fmt::format(" {} {}", json_string(key), json_string(folder));
    return format;
  }

  std::string folder_hint() const override {
    return "a mapping in `fopen_keys` sets the folder of a key";
  }

 private:
  FileKeys file_keys(const Config& config) const {
    FileKeys files;
    std::vector<std::string> names;
    if (config.is_map("fopen_keys")) {
      const Config folders = config.section("fopen_keys");
      for (const std::string& key : folders.keys()) {
        // An empty folder is the working directory, as in big_vision.
        files[key] = folders.get<std::string>(key);
      }
      return files;
    }
    if (config.is_list("fopen_keys"))
      names = config.get<std::vector<std::string>>("fopen_keys");
    else if (const auto one = config.maybe<std::string>("fopen_keys"))
      names = {*one};
    for (const std::string& name : names) files[name] = own_folder();
    return files;
  }

  void check_file_keys(const JsonlKeys& all) const;

  FileKeys file_keys_;
  int64_t start_;
  std::optional<int64_t> stop_;
  Place keys_place_;
};

// Reads the rows of a file, and collects their keys.
class JsonlScan {
 public:
  JsonlScan(const std::string& file, bool keep_broken, const FileKeys& files,
            const std::optional<std::string>& split)
      : files_(files), split_(split), rows_(file, keep_broken) {}

  void add(const ManifestRow& row) {
    split_name_.reset();
    const bool sound = rows_.add(row, [&] { check_row(row.row); });
    labels_.push_back(sound ? label_ : Source::kNoLabel);
    // check_file_keys() tells if sound rows have no such key.
    if (split_)
      rows_.add_split(sound && !split_name_ ? std::optional<std::string>("") : split_name_);
  }

  ManifestIndex finish(const std::string& none) {
    ManifestIndex index = rows_.finish(none);
    const auto label = std::find_if(keys_.begin(), keys_.end(),
                                    [](const JsonlKey& one) { return one.key == "label"; });
    if (label != keys_.end() && label->type == JsonRowType{JsonScalar::whole, false})
      index.labels = std::move(labels_);
    index.layout = pack_keys(keys_);
    return index;
  }

  const JsonlKeys& keys() const { return keys_; }

 private:
  void check_row(const RowText& row) {
    const std::vector<JsonField> fields = read_json_row(row.text);
    if (fields.empty()) throw RowFault(0, "an object without values");
    // First, because a row that is broken in other values is still a row of its split.
    for (const JsonField& field : fields) {
      if (split_ && field.key == *split_) split_name_ = split_of(field);
    }
    if (!keys_.empty()) check_fields(fields, keys_, /*widens=*/true);
    label_ = 0;
    for (const JsonField& field : fields) {
      if (const auto file = files_.find(field.key); file != files_.end()) {
        if (field.type != JsonRowType{JsonScalar::text, false}) {
          throw RowFault(field.at, fmt::format("'{}' is {}, but fopen_keys names it: it must be "
                                               "the name of a file",
                                               printable(field.key), type_text(field.type)));
        }
        row_file(field.texts[0], file->second, field.at);
      }
      if (field.key == "label" && field.wholes.size() == 1) label_ = field.wholes[0];
      const bool feature = field.key != "label" && !files_.contains(field.key);
      if (!split_ && feature && field.type == JsonRowType{JsonScalar::text, false})
        rows_.see_unused_split(field.key, field.texts[0]);
    }
    widen_keys(fields, row.line);
  }

  void widen_keys(const std::vector<JsonField>& fields, int64_t line) {
    if (keys_.empty()) {
      for (const JsonField& field : fields) keys_.push_back({field.key, field.type, line});
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const JsonScalar before = keys_[i].type.scalar;
      widen(keys_[i].type, fields[i].type);
      if (keys_[i].type.scalar != before) keys_[i].line = line;
    }
  }

  const FileKeys& files_;
  const std::optional<std::string>& split_;
  ManifestRows rows_;
  JsonlKeys keys_;
  std::vector<int64_t> labels_;            // of all rows
  int64_t label_ = 0;                      // of the row that is being read
  std::optional<std::string> split_name_;  // the same, if it can be read
};

size_t json_line_length(std::string_view text, bool last) {
  const size_t newline = text.find('\n');
  if (newline != std::string_view::npos) return newline + 1;
  return last ? text.size() : 0;
}

bool is_blank_line(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Throws if the config names a key that the rows do not have.
void JsonlSource::check_file_keys(const JsonlKeys& all) const {
  std::vector<std::string> names;
  for (const JsonlKey& one : all) names.push_back(one.key);
  const auto refuse = [&](const Place& place, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    throw Error(
        Exit::usage, place,
        fmt::format("the rows of '{}': {}", fname(), unknown_name_message("key", name, names)));
  };
  for (const auto& [name, folder] : file_keys_) refuse(keys_place_, name);
  if (split_column()) refuse(split_place(), *split_column());
}

ManifestIndex JsonlSource::scan() const {
  ManifestFile file(fname());
  JsonlScan rows(fname(), keep_broken(), file_keys_, split_column());
  int64_t number = 0, blank = 0;  // blank: the number of an empty line; only the end may have one
  for (; !stop_ || number < *stop_; ++number) {
    const auto row = file.next(json_line_length);
    if (!row) break;
    if (blank > 0) throw Error(Exit::usage, fmt::format("{}:{}", fname(), blank), "an empty line");
    if (is_blank_line(row->row.text)) {
      blank = row->row.line;
      --number;
      continue;
    }
    if (number >= start_) rows.add(*row);
  }
  ManifestIndex index = rows.finish(
      number == 0 ? "has no rows" : fmt::format("has {} rows, but start is {}", number, start_));
  check_file_keys(rows.keys());
  if (stop_ && number < *stop_) {
    index.remarks.push_back(fmt::format("stop is {}, but there are only {} rows", *stop_, number));
  }
  return index;
}

// Returns whether all values of a key are names of splits.
bool key_holds_splits(std::string_view rows, const std::string& key) {
  try {
    while (!rows.empty()) {
      const std::string_view row = rows.substr(0, json_line_length(rows, /*last=*/true));
      rows.remove_prefix(row.size());
      if (is_blank_line(row)) continue;
      for (const JsonField& field : read_json_row(row)) {
        const bool text = field.type == JsonRowType{JsonScalar::text, false};
        if (field.key == key && !(text && is_split_name(field.texts[0]))) return false;
      }
    }
  } catch (const RowFault&) {
    // This row is reported when the data is opened.
  }
  return true;
}

// Returns the keys for a file whose first row names an image that exists and has a class number;
// nullopt for any other file. Throws Error(Exit::usage) if `image` or `label` has another name, or
// if a key gives the split of each row.
std::optional<DataKeys> jsonl_data_keys(const std::string& file, const std::string& head) {
  try {
    const std::vector<JsonField> fields =
        read_json_row(std::string_view(head).substr(0, json_line_length(head, /*last=*/true)));
    const std::string folder = std::filesystem::path(file).parent_path().string();
    std::string image;
    std::string split;
    bool label = false;
    for (const JsonField& field : fields) {
      if (field.key == "label") label = field.type == JsonRowType{JsonScalar::whole, false};
      if (!(field.type == JsonRowType{JsonScalar::text, false})) continue;
      if (is_split_column(field.key) || key_holds_splits(head, field.key)) split = field.key;
      if (!image.empty()) continue;
      const std::string& name = field.texts[0];
      if (name.empty() || name.find("://") != std::string::npos) continue;
      const RowFile named = row_file(name, folder, field.at);
      std::error_code error;
      if (std::filesystem::is_regular_file(named.path, error)) image = field.key;
    }
    if (image.empty()) return std::nullopt;
    if (!label || image != "image") {
      throw Error(Exit::usage, file,
                  label ? fmt::format("has its images under the key '{}': call it `image`", image)
                        : "names images, but has no `label` that is the number of a class");
    }
    if (!split.empty()) {
      throw Error(
          Exit::usage, file,
          fmt::format("has a key `{0}`, so some rows may not be for training: write the config "
                      "yourself, with `name: jsonl` and `split_column: {0}`",
                      printable(split)));
    }
    return DataKeys{{"fname", file}, {"fopen_keys", image}};
  } catch (const RowFault&) {
    return std::nullopt;  // some other file
  }
}

std::optional<DetectedData> detect_jsonl(const std::string& folder) {
  constexpr std::string_view kSuffixes[] = {".jsonl"};
  return detect_manifest(folder, kSuffixes, "JSON Lines file", jsonl_data_keys);
}

const Register<Source, JsonlSource> registered_jsonl("jsonl");
const Register<Source, JsonlSource> registered_alias("bv:jsonl");
const RegisterDetector jsonl_detector("jsonl", "a jsonl file with the keys image and label",
                                      detect_jsonl);

}  // namespace
}  // namespace bv

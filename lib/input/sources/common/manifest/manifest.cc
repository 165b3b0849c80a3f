#include "lib/input/sources/common/manifest/manifest.h"

#include <ATen/ops/empty.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "lib/input/broken_files.h"
#include "lib/input/path.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/input/sources/common/label_order.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

bool is_regular(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Returns whether ".." leads out of the folder in which the relative path `name` begins.
bool leaves_folder(std::string_view name) {
  int depth = 0;
  while (!name.empty()) {
    const size_t end = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, end);
    if (part == "..")
      --depth;
    else if (!part.empty() && part != ".")
      ++depth;
    if (depth < 0) return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

// Returns a hint about the name of a file that does not exist: " (did you mean 'x.jpg'?)", or "" if
// there is none.
std::string missing_file_hint(const RowFile& file) {
  for (const char* suffix : {".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG"}) {
    if (is_regular(file.path + suffix))
      return fmt::format(" (did you mean '{}{}'?)", printable(file.name), suffix);
  }
  if (file.name.find('\\') != std::string::npos) return " (write / in place of \\)";
  if (!file.folder.empty() && is_regular(file.name)) return " (the working directory has it)";
  return "";
}

}  // namespace

bool is_split_column(std::string_view name) {
  constexpr std::string_view kNames[] = {"split"};
  return is_named(name, kNames);
}

RowFile row_file(std::string_view name, const std::string& folder, size_t at) {
  RowFile file{at, std::string(name), std::string(name), folder};
  if (name.empty()) throw RowFault(at, "the name of the file is empty");
  if (name.find("://") != std::string_view::npos) {
    throw RowFault(
        at, fmt::format("'{}' is a URL: download the files first, and give the paths of the copies",
                        printable(name)));
  }
  if (name.starts_with('/')) return file;
  if (leaves_folder(name)) {
    throw RowFault(at, fmt::format("'{}' points outside the folder '{}': only an absolute path, "
                                   "which begins with /, may do that",
                                   printable(name), folder.empty() ? "." : folder));
  }
  if (!folder.empty()) file.path = folder + (folder.ends_with('/') ? "" : "/") + file.name;
  return file;
}

ManifestSource::ManifestSource(const Config& config, const SourceEnv& env)
    : fname_(require_path(config, "fname")),
      split_column_(config.maybe<std::string>("split_column")),
      split_place_(config.place("split_column")),
      keep_broken_(env.keep_broken),
      file_({fname_}) {}

std::string ManifestSource::own_folder() const {
  return std::filesystem::path(fname_).parent_path().string();
}

std::vector<std::string> ManifestSource::splits() const {
  if (!split_column_) return {"all", "train"};
  return opened().index.split_names;
}

size_t ManifestSource::row_of(const Opened& opened, size_t split, int64_t index) {
  return opened.rows.empty() ? static_cast<size_t>(index) : opened.rows.at(split).at(index);
}

int64_t ManifestSource::size(size_t split) const {
  const Opened& all = opened();
  if (!all.index.broken.empty() && !all.index.broken.at(split).shown.empty())
    throw BrokenFiles(all.index.broken[split].shown, all.index.broken[split].left_out);
  return static_cast<int64_t>(all.rows.empty() ? all.index.rows() : all.rows.at(split).size());
}

std::string ManifestSource::describe(size_t split, int64_t index) const {
  const Opened& all = opened();
  return fmt::format("{}:{}", fname_, all.index.lines.at(row_of(all, split, index)));
}

std::optional<std::vector<std::string>> ManifestSource::files_of(size_t split,
                                                                 int64_t index) const {
  const Opened& all = opened();
  if (!all.reader->has_files()) return std::nullopt;
  std::vector<std::string> names;
  try {
    const std::string row = row_bytes(all.index, row_of(all, split, index));
    for (const RowFile& file : all.reader->files(row)) names.push_back(file.name);
  } catch (const std::exception&) {
    names.clear();  // the row itself is broken
  }
  return names;
}

std::string ManifestSource::row_bytes(const ManifestIndex& index, size_t row) const {
  std::string text(index.lengths.at(row), '\0');
  file_.read(0, index.offsets.at(row), text.size(), reinterpret_cast<uint8_t*>(text.data()));
  return text;
}

Example ManifestSource::read(size_t split, int64_t index) const {
  return read_row(split, index, /*with_files=*/true);
}

Example ManifestSource::read_values(size_t split, int64_t index) const {
  return read_row(split, index, /*with_files=*/false);
}

Example ManifestSource::read_row(size_t split, int64_t index, bool with_files) const {
  const Opened& all = opened();
  const size_t row = row_of(all, split, index);
  const std::string text = row_bytes(all.index, row);
  try {
    return all.reader->read(text, static_cast<int64_t>(row), with_files);
  } catch (const RowFault& fault) {
    const RowText place{text, all.index.lines[row]};
    throw Error(Exit::data, describe(split, index),
                fmt::format("{} (column {})", fault.what(), place.column_of(fault.at())));
  } catch (const Error& error) {
    if (!error.needs_place()) throw;
    throw Error(error.code(), describe(split, index), error.message());
  }
}

std::vector<std::string> ManifestSource::class_names() const { return opened().index.class_names; }

at::Tensor ManifestSource::labels(size_t split) const {
  const Opened& all = opened();
  return all.labels.empty() ? at::Tensor() : all.labels.at(all.rows.empty() ? 0 : split);
}

bool ManifestSource::sorted_by_class(size_t split) const {
  return in_order_of_classes(labels(split));
}

FileNotes ManifestSource::file_notes(size_t split) const {
  FileNotes notes;
  const auto add = [&](std::string_view remark) {
    notes.remarks.push_back(fmt::format("{}: {}", fname_, remark));
  };
  for (const std::string& remark : opened().index.remarks) add(remark);
  const std::string& column = opened().index.unused_split;
  if (!column.empty() && splits().at(split) != "all") {
    add(
        fmt::format("'{0}' names the split of each row, but all rows are used; add `split_column: "
                    "{0}` to use the rows of one split, or write `split: all` to use all rows",
                    printable(column)));
  }
  return notes;
}

const ManifestSource::Opened& ManifestSource::opened() const {
  const std::lock_guard lock(mutex_);
  if (!opened_) opened_ = std::make_unique<const Opened>(open());
  return *opened_;
}

ManifestSource::Opened ManifestSource::open() const {
  Opened opened;
  const FileStamp stamp = stamp_of(fname_);
  const std::string format = index_format() + (keep_broken_ ? " broken" : " whole");
  if (const auto stored = load_index(format, {&stamp, 1})) {
    if (auto index = ManifestIndex::unpack(*stored)) {
      opened.index = std::move(*index);
      opened.reader = reader(opened.index);
    }
  }
  if (!opened.reader) {
    opened.index = scan();
    opened.reader = reader(opened.index);
    check(opened.reader != nullptr, "the layout of '{}' cannot be read", fname_);
    // With broken rows it is read again at each start, because only that can name them.
    if (opened.index.broken.empty()) store_index(format, {&stamp, 1}, opened.index.pack());
  }
  divide(opened);
  check_files(opened);
  return opened;
}

void ManifestSource::divide(Opened& opened) const {
  ManifestIndex& index = opened.index;
  if (!index.splits.empty()) {
    opened.rows.resize(index.split_names.size());
    for (size_t row = 0; row < index.rows(); ++row)
      opened.rows[index.splits[row]].push_back(static_cast<uint32_t>(row));
  }
  index.splits = {};
  if (index.labels.empty()) return;
  const auto take = [&](size_t count, const auto& row_at) {
    at::Tensor labels = at::empty({static_cast<int64_t>(count)}, at::kLong);
    int64_t* out = labels.mutable_data_ptr<int64_t>();
    for (size_t i = 0; i < count; ++i) out[i] = index.labels[row_at(i)];
    opened.labels.push_back(labels);
  };
  if (opened.rows.empty()) take(index.rows(), [](size_t i) { return i; });
  for (const std::vector<uint32_t>& rows : opened.rows)
    take(rows.size(), [&](size_t i) { return rows[i]; });
  index.labels = {};
}

void ManifestSource::check_files(Opened& opened) const {
  if (keep_broken_) return;
  if (opened.rows.empty()) {
    RowProblems problems;
    check_files(opened, 0, problems);
    if (opened.index.rows() > 1) check_files(opened, opened.index.rows() - 1, problems);
    if (!problems.shown.empty()) throw BrokenFiles(std::move(problems.shown));
    return;
  }
  std::vector<RowProblems> broken = opened.index.broken;
  broken.resize(opened.rows.size());
  for (size_t split = 0; split < broken.size(); ++split) {
    if (!broken[split].shown.empty() || opened.rows[split].empty()) continue;
    check_files(opened, opened.rows[split].front(), broken[split]);
    if (opened.rows[split].size() > 1)
      check_files(opened, opened.rows[split].back(), broken[split]);
  }
  opened.index.broken = std::move(broken);
}

void ManifestSource::check_files(const Opened& opened, size_t row, RowProblems& problems) const {
  const std::string text = row_bytes(opened.index, row);
  const RowText place{text, opened.index.lines[row]};
  try {
    for (const RowFile& file : opened.reader->files(text)) {
      if (is_regular(file.path)) continue;
      throw RowFault(file.at, fmt::format("no file '{}'{}; {}", printable(file.path, 200),
                                          missing_file_hint(file), folder_hint()));
    }
  } catch (const RowFault& fault) {
    problems.add(row_error(fname_, place, fault));
  }
}

bool ManifestRows::add(const ManifestRow& row, const std::function<void()>& check) {
  if (index_.rows() == limits::kManifestLines || row.row.line > int64_t{limits::kManifestLines}) {
    throw Error(Exit::usage, file_, fmt::format("more than {} lines", limits::kManifestLines));
  }
  index_.offsets.push_back(row.offset);
  index_.lengths.push_back(static_cast<uint32_t>(row.row.text.size()));
  index_.lines.push_back(static_cast<uint32_t>(row.row.line));
  if (last_problem_) problems_.add(*std::exchange(last_problem_, std::nullopt));
  try {
    check();
    return true;
  } catch (const RowFault& fault) {
    const bool cut = !row.complete && !fault.fatal();
    const RowFault shown(fault.at(),
                         fmt::format("{}{}", fault.what(),
                                     cut ? " (the file ends without a newline here: was "
                                           "it cut off?)"
                                         : ""));
    const Error error = row_error(file_, row.row, shown);
    if (fault.fatal()) throw error;
    ++broken_;
    last_problem_ = error;
    return false;
  }
}

void ManifestRows::add_split(const std::optional<std::string>& name) {
  if (!name) {  // 0 until the first split is known
    index_.splits.push_back(index_.splits.empty() ? 0 : index_.splits.back());
    return;
  }
  const auto found = std::find(split_names_.begin(), split_names_.end(), *name);
  const auto split = static_cast<size_t>(found - split_names_.begin());
  index_.splits.push_back(static_cast<uint32_t>(split));
  if (last_problem_) {
    of_splits_.resize(std::max(of_splits_.size(), split + 1));
    of_splits_[split].add(*std::exchange(last_problem_, std::nullopt));
  }
  if (found != split_names_.end()) return;
  if (split_names_.size() == limits::kSplits) {
    throw Error(Exit::usage, fmt::format("{}:{}", file_, index_.lines.back()),
                fmt::format("more than {} different splits: is this the column with the splits?",
                            limits::kSplits));
  }
  split_names_.push_back(*name);
}

bool ManifestRows::see_unused_split(const std::string& column, std::string_view value) {
  const auto [entry, added] = unused_splits_.try_emplace(column);
  SplitValues& values = entry->second;
  const bool usual = is_split_column(column);
  if (!values.all_known && !usual) return false;
  if (added) values.first = value;
  values.differ |= value != values.first;
  const bool known = is_split_name(value);
  values.any_known |= known;
  values.all_known &= known;
  return usual || values.all_known;
}

ManifestIndex ManifestRows::finish(std::string_view none) {
  if (index_.rows() == 0) throw Error(Exit::usage, file_, none);
  if (last_problem_) problems_.add(*std::exchange(last_problem_, std::nullopt));
  if (broken_ == index_.rows()) {
    for (const RowProblems& split : of_splits_) {
      for (const Error& problem : split.shown) problems_.add(problem);
      problems_.left_out += split.left_out;
    }
  }
  if (!problems_.shown.empty() && (!keep_broken_ || broken_ == index_.rows()))
    throw BrokenFiles(std::move(problems_.shown), problems_.left_out);
  for (const auto& [column, values] : unused_splits_) {
    const bool known = is_split_column(column) ? values.any_known : values.all_known;
    if (values.differ && known && index_.unused_split.empty()) index_.unused_split = column;
  }
  if (index_.splits.empty()) return std::move(index_);
  std::vector<uint32_t> order(split_names_.size());  // from sorted to first seen
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return split_names_[a] < split_names_[b]; });
  std::vector<uint32_t> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    rank[order[i]] = static_cast<uint32_t>(i);
    index_.split_names.push_back(split_names_[order[i]]);
  }
  for (uint32_t& split : index_.splits) split = rank[split];
  of_splits_.resize(order.size());
  if (!keep_broken_ && broken_ > 0) {
    for (const uint32_t split : order) index_.broken.push_back(std::move(of_splits_[split]));
  }
  return std::move(index_);
}

}  // namespace bv

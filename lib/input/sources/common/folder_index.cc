#include "lib/input/sources/common/folder_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>

#include "lib/input/broken_files.h"
#include "lib/input/image/image_file_problem.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/util/error.h"
#include "lib/util/folder_entries.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::string_view kFolderIndexFormat = "bvtrain image folder 4";
constexpr size_t kMaxProblems = 20;
constexpr size_t kImagesAtOnce = 256;  // that a thread checks

// Returns the entries of `folder` except hidden ones, sorted by bytes.
std::vector<FolderEntry> list(const std::string& folder) {
  std::vector<FolderEntry> entries;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    if (!entry.name.starts_with('.')) entries.push_back(entry);
  });
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

enum class ListedKind { image, other_image, no_image };

ListedKind kind_of(const std::string& name) {
  if (has_image_suffix(name)) return ListedKind::image;
  // Not supported, but ignoring them silently would change the data set.
  return has_other_image_suffix(name) ? ListedKind::other_image : ListedKind::no_image;
}

struct ClassFiles {
  std::vector<std::string> files;  // including the broken ones
  std::vector<Error> problems;
  size_t more_problems = 0;
  FileNotes notes;
};

// A part of the images of a class, which one thread checks.
struct ClassPart {
  size_t of_class, begin, end;  // the images files[begin .. end)
  std::vector<Error> problems = {};
  size_t more_problems = 0;
  int64_t turned = 0;
};

// Lists the files of a class folder.
ClassFiles list_class(const std::string& path) {
  ClassFiles found;
  for (FolderEntry& entry : list(path)) {
    if (entry.folder)
      ++found.notes.inner_folders;
    else if (kind_of(entry.name) == ListedKind::no_image)
      ++found.notes.other_types[suffix_of(entry.name)];
    else
      found.files.push_back(std::move(entry.name));
  }
  return found;
}

void check_part(const std::string& path, const std::vector<std::string>& files, ClassPart& part) {
  for (size_t i = part.begin; i < part.end; ++i) {
    poll_signals();
    const std::string file = path + "/" + files[i];
    auto [problem, orientation] = check_image_file(file);
    if (kind_of(files[i]) == ListedKind::other_image && problem.empty()) problem = kOtherSuffix;
    if (orientation != 1) ++part.turned;
    if (problem.empty()) continue;
    if (part.problems.size() < kMaxProblems) {
      part.problems.emplace_back(Exit::usage, file, problem);
    } else {
      ++part.more_problems;
    }
  }
}

void add_part(const ClassPart& part, ClassFiles& found) {
  for (const Error& problem : part.problems) {
    if (found.problems.size() < kMaxProblems)
      found.problems.push_back(problem);
    else
      ++found.more_problems;
  }
  found.more_problems += part.more_problems;
  found.notes.turned += part.turned;
}

void add_if_empty(const std::string& path, const std::string& name, ClassFiles& found) {
  if (!found.files.empty()) return;
  const int64_t inner = found.notes.inner_folders;
  found.problems.emplace_back(
      Exit::usage, path,
      fmt::format("class '{}' has no images{}", name,
                  inner > 0 ? fmt::format(", but {}: images must be directly in the class folder",
                                          counted(inner, "folder"))
                            : ""));
}

std::vector<ClassFiles> read_classes(const std::string& folder,
                                     const std::vector<std::string>& classes) {
  std::vector<ClassFiles> found(classes.size());
  const auto path_of = [&](size_t of_class) { return folder + "/" + classes[of_class]; };
  scan_files(
      classes.size(), "listing the images", [&](size_t i) { found[i] = list_class(path_of(i)); },
      "folders");
  std::vector<ClassPart> parts;
  for (size_t i = 0; i < classes.size(); ++i) {
    for (size_t begin = 0; begin < found[i].files.size(); begin += kImagesAtOnce)
      parts.push_back({i, begin, std::min(begin + kImagesAtOnce, found[i].files.size())});
  }
  scan_files(
      parts.size(), "looking at the images",
      [&](size_t i) {
        ClassPart& part = parts[i];
        check_part(path_of(part.of_class), found[part.of_class].files, part);
      },
      "parts");
  for (const ClassPart& part : parts) add_part(part, found[part.of_class]);
  for (size_t i = 0; i < classes.size(); ++i) add_if_empty(path_of(i), classes[i], found[i]);
  return found;
}

// Excludes the images.
FileNotes sum_of_notes(const std::vector<ClassFiles>& found) {
  FileNotes sum;
  for (const ClassFiles& files : found) {
    sum.turned += files.notes.turned;
    sum.inner_folders += files.notes.inner_folders;
    for (const auto& [suffix, count] : files.notes.other_types) sum.other_types[suffix] += count;
  }
  return sum;
}

void throw_if_broken(const std::vector<ClassFiles>& found) {
  std::vector<Error> shown;
  size_t more = 0;
  for (const ClassFiles& files : found) {
    more += files.more_problems;
    for (const Error& problem : files.problems) {
      if (shown.size() == kMaxProblems)
        ++more;
      else
        shown.push_back(problem);
    }
  }
  if (!shown.empty()) throw BrokenFiles(std::move(shown), more);
}

}  // namespace

bool is_named(std::string_view name, SplitNames names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view known) {
    return std::equal(name.begin(), name.end(), known.begin(), known.end(), [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    });
  });
}

bool is_split_name(std::string_view name) {
  return is_named(name, kTrainingNames) || is_named(name, kValidationNames) ||
         is_named(name, kTestNames);
}

std::string split_of_words(std::string text) {
  for (char& c : text) c = std::isalpha(static_cast<unsigned char>(c)) != 0 ? c : ' ';
  const std::vector<std::string> words = split(text, ' ');
  for (const SplitNames names :
       {SplitNames(kTrainingNames), SplitNames(kValidationNames), SplitNames(kTestNames)}) {
    if (std::any_of(words.begin(), words.end(),
                    [&](const std::string& word) { return is_named(word, names); }))
      return std::string(names[0]);
  }
  return "";
}

std::vector<std::string> list_folders(const std::string& folder) {
  std::vector<std::string> names;
  for (FolderEntry& entry : list(folder)) {
    if (entry.folder && entry.name != "__MACOSX") names.push_back(std::move(entry.name));
  }
  return names;
}

std::vector<std::string> list_files(const std::string& folder,
                                    std::span<const std::string_view> suffixes) {
  std::vector<std::string> names;
  for (FolderEntry& entry : list(folder)) {
    const std::string suffix = suffix_of(entry.name);  // in lower case
    if (entry.file && std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end())
      names.push_back(std::move(entry.name));
  }
  return names;
}

int64_t count_images(const std::string& folder) {
  const std::vector<FolderEntry> entries = list(folder);
  return std::count_if(entries.begin(), entries.end(), [](const FolderEntry& entry) {
    return !entry.folder && kind_of(entry.name) != ListedKind::no_image;
  });
}

bool adds_classes(const std::string& folder, const std::string& data_dir) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(data_dir, ignored)) return false;
  fs::path above = fs::canonical(data_dir, ignored);
  const fs::path whole = fs::absolute(folder, ignored);  // a folder that is missing stays relative
  const fs::path inner = fs::weakly_canonical(whole, ignored).lexically_relative(above);
  if (inner == ".") return true;
  if (inner.empty() || *inner.begin() == "..") return false;
  for (const fs::path& name : inner) {
    if (name.native().starts_with('.')) return false;
    above /= name;
    // Folders inside class folders are not read.
    if (fs::is_directory(above, ignored) && count_images(above) > 0) return false;
  }
  return true;
}

FolderIndex::FolderIndex(const std::string& folder, const std::vector<std::string>& classes,
                         bool keep_broken) {
  // Taken before the folders are listed, so that a change in between is detected next time.
  std::vector<FileStamp> stamps = {stamp_of_folder(folder)};
  stamps[0].modified = stamps[0].changed = 0;  // other folders in it do not matter
  stamps[0].settled = true;
  for (const std::string& name : classes) stamps.push_back(stamp_of_folder(folder + "/" + name));
  if (std::optional<std::string> stored = load_index(kFolderIndexFormat, stamps);
      stored && parse(std::move(*stored), classes, keep_broken))
    return;
  build(folder, classes, keep_broken);
  store_index(kFolderIndexFormat, stamps, serialize());
}

void FolderIndex::build(const std::string& folder, const std::vector<std::string>& classes,
                        bool keep_broken) {
  std::vector<ClassFiles> found = read_classes(folder, classes);
  if (!keep_broken) throw_if_broken(found);
  notes_ = sum_of_notes(found);
  for (ClassFiles& files : found) {
    whole_ &= files.problems.empty();
    if (files.files.empty()) files.files.emplace_back();
    for (const std::string& file : files.files) {
      offsets_.push_back(names_.size());
      names_.append(file.c_str(), file.size() + 1);
    }
    class_ends_.push_back(size());
  }
  notes_.images = size();
}

std::string FolderIndex::serialize() const {
  std::string text;
  const auto put = [&](std::string_view word) { text.append(word).push_back('\0'); };
  put(whole_ ? "whole" : "broken");
  put(fmt::format("{}", notes_.turned));
  put(fmt::format("{}", notes_.inner_folders));
  put(fmt::format("{}", notes_.other_types.size()));
  for (const auto& [suffix, count] : notes_.other_types) {
    put(suffix);
    put(fmt::format("{}", count));
  }
  int64_t image = 0;
  for (const int64_t end : class_ends_) {
    put(fmt::format("{}", end - image));
    for (; image < end; ++image) put(file(image));
  }
  return text;
}

bool FolderIndex::parse(std::string text, const std::vector<std::string>& classes,
                        bool keep_broken) {
  size_t at = 0;
  const auto next = [&]() -> std::string_view {
    const size_t end = text.find('\0', at);
    if (end == std::string::npos) return {};
    const std::string_view word(text.data() + at, end - at);
    at = end + 1;
    return word;
  };
  if (const std::string_view state = next(); state != "whole" && !keep_broken) return false;
  const auto number = [&] {
    const std::string_view digits = next();
    int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  FileNotes notes;
  notes.turned = number();
  notes.inner_folders = number();
  for (int64_t kinds = number(); kinds > 0; --kinds) {
    if (at == text.size()) return false;
    const std::string suffix(next());
    notes.other_types[suffix] = number();
  }
  std::vector<uint64_t> offsets;
  std::vector<int64_t> ends;
  for (size_t i = 0; i < classes.size(); ++i) {
    const int64_t count = number();
    for (int64_t k = 0; k < count; ++k) {
      offsets.push_back(at);
      if (next().data() == nullptr) return false;  // the text ends here
    }
    ends.push_back(static_cast<int64_t>(offsets.size()));
  }
  if (at != text.size()) return false;
  notes.images = std::ssize(offsets);
  notes_ = std::move(notes);
  names_ = std::move(text);
  offsets_ = std::move(offsets);
  class_ends_ = std::move(ends);
  return true;
}

size_t FolderIndex::class_of(int64_t index) const {
  return std::upper_bound(class_ends_.begin(), class_ends_.end(), index) - class_ends_.begin();
}

}  // namespace bv

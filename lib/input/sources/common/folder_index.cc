#include "lib/input/sources/common/folder_index.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>

#include "lib/input/broken_files.h"
#include "lib/input/image/image_file_problem.h"
#include "lib/input/image/image_suffix.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr std::string_view kFormat = "bvtrain image folder 3";
constexpr size_t kMaxProblems = 20;
constexpr int64_t kSecond = 1'000'000'000;
// A folder that changed less than this before it was read may change again without getting a new
// modification time, so its index is not stored.
constexpr int64_t kSettled = 2 * kSecond;
constexpr unsigned kMaxThreads = 32;  // more than the cores: they wait for the disk

struct Entry {
  std::string name;
  bool folder = false;
};

bool is_folder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Returns the entries of `folder` except hidden ones, sorted by bytes.
std::vector<Entry> list(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), &closedir);
  if (!dir) throw Error(Exit::usage, folder, std::strerror(errno));
  std::vector<Entry> entries;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    const bool unsure = entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
    const bool is_dir = unsure ? is_folder(folder + "/" + entry->d_name) : entry->d_type == DT_DIR;
    entries.push_back({entry->d_name, is_dir});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

enum class Kind { image, other_image, no_image };

Kind kind_of(const std::string& name) {
  if (has_image_suffix(name)) return Kind::image;
  const std::string suffix = suffix_of(name);
  // Not supported, but ignoring them silently would change the data set.
  for (const char* known : {".gif", ".bmp", ".tif", ".tiff"}) {
    if (suffix == known) return Kind::other_image;
  }
  return Kind::no_image;
}

struct ClassFiles {
  std::vector<std::string> files;  // including the broken ones
  std::vector<Error> problems;
  size_t more_problems = 0;
  FileNotes notes;
};

ClassFiles read_class(const std::string& path, const std::string& name) {
  ClassFiles found;
  for (Entry& entry : list(path)) {
    const Kind kind = kind_of(entry.name);
    if (entry.folder) {
      ++found.notes.inner_folders;
      continue;
    }
    if (kind == Kind::no_image) {
      ++found.notes.other_types[suffix_of(entry.name)];
      continue;
    }
    const std::string file = path + "/" + entry.name;
    auto [problem, orientation] = check_image_file(file);
    if (kind == Kind::other_image && problem.empty()) {
      problem = "this JPEG, PNG or WebP has the suffix of another format: rename it";
    }
    if (orientation != 1) ++found.notes.turned;
    found.files.push_back(std::move(entry.name));
    if (problem.empty()) continue;
    if (found.problems.size() < kMaxProblems) {
      found.problems.emplace_back(Exit::usage, file, problem);
    } else {
      ++found.more_problems;
    }
  }
  if (found.files.empty()) {
    found.problems.emplace_back(Exit::usage, path, fmt::format("class '{}' has no images", name));
  }
  return found;
}

std::vector<ClassFiles> read_classes(const std::string& folder,
                                     const std::vector<std::string>& classes) {
  std::vector<ClassFiles> found(classes.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (size_t i; (i = next++) < classes.size() && !failed;) {
        found[i] = read_class(folder + "/" + classes[i], classes[i]);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  const size_t count = std::min<size_t>(
      {classes.size(), kMaxThreads, 2 * std::max(1U, std::thread::hardware_concurrency())});
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return found;
}

// Does not count the images.
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

int64_t modified(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) throw Error(Exit::usage, folder, std::strerror(errno));
  return info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
}

std::string absolute(const std::string& folder) {
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(folder.c_str(), nullptr),
                                                         &std::free);
  return path ? path.get() : folder;
}

// Returns the index in a cache file, or "" if there is none or it is damaged. The file holds a
// checksum in hex, a newline, and the index.
std::string read_cache(const std::string& file) {
  if (!file_exists(file)) return "";
  std::string content;
  try {
    content = read_file(file);
  } catch (const Error&) {
    return "";
  }
  const size_t newline = content.find('\n');
  if (newline == std::string::npos) return "";
  const std::string_view payload = std::string_view(content).substr(newline + 1);
  if (content.substr(0, newline) != fmt::format("{:016x}", hash64(payload))) return "";
  return std::string(payload);
}

void write_cache(const std::string& file, const std::string& payload) {
  try {
    make_folders(cache_home() + "/index");
    write_file_atomically(file, fmt::format("{:016x}\n", hash64(payload)) + payload, false);
  } catch (const Error&) {
    // Not an error: without the cache (a read-only home) only time is lost.
  }
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

std::vector<std::string> list_folders(const std::string& folder) {
  std::vector<std::string> names;
  for (Entry& entry : list(folder)) {
    if (entry.folder && entry.name != "__MACOSX") names.push_back(std::move(entry.name));
  }
  return names;
}

int64_t count_images(const std::string& folder) {
  const std::vector<Entry> entries = list(folder);
  return std::count_if(entries.begin(), entries.end(), [](const Entry& entry) {
    return !entry.folder && kind_of(entry.name) != Kind::no_image;
  });
}

FolderIndex::FolderIndex(const std::string& folder, const std::vector<std::string>& classes,
                         bool keep_broken) {
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  // Taken before the folders are listed, so that a change in between is found next time.
  std::vector<int64_t> stamps;
  bool settled = true;
  for (const std::string& name : classes) {
    stamps.push_back(modified(folder + "/" + name));
    settled &= stamps.back() < now - kSettled;
  }
  const std::string path = absolute(folder);
  const std::string cache = fmt::format("{}/index/{:016x}", cache_home(), hash64(path));
  from_cache_ = parse(read_cache(cache), path, classes, stamps, keep_broken);
  if (from_cache_) return;
  build(folder, classes, keep_broken);
  if (settled) write_cache(cache, serialize(path, classes, stamps));
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

std::string FolderIndex::serialize(const std::string& folder,
                                   const std::vector<std::string>& classes,
                                   const std::vector<int64_t>& stamps) const {
  std::string text;
  const auto put = [&](std::string_view word) { text.append(word).push_back('\0'); };
  put(kFormat);
  put(folder);
  put(whole_ ? "whole" : "broken");
  put(fmt::format("{}", notes_.turned));
  put(fmt::format("{}", notes_.inner_folders));
  put(fmt::format("{}", notes_.other_types.size()));
  for (const auto& [suffix, count] : notes_.other_types) {
    put(suffix);
    put(fmt::format("{}", count));
  }
  int64_t image = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    put(classes[i]);
    put(fmt::format("{}", stamps[i]));
    put(fmt::format("{}", class_ends_[i] - image));
    for (; image < class_ends_[i]; ++image) put(file(image));
  }
  return text;
}

bool FolderIndex::parse(std::string text, const std::string& folder,
                        const std::vector<std::string>& classes, const std::vector<int64_t>& stamps,
                        bool keep_broken) {
  size_t at = 0;
  const auto next = [&]() -> std::string_view {
    const size_t end = text.find('\0', at);
    if (end == std::string::npos) return {};
    const std::string_view word(text.data() + at, end - at);
    at = end + 1;
    return word;
  };
  if (next() != kFormat || next() != folder) return false;
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
    if (next() != classes[i] || next() != fmt::format("{}", stamps[i])) return false;
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

#include "lib/input/sources/common/index_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>

#include "lib/input/ordered_work.h"
#include "lib/report/log.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/regular_file.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kSettled = 2 * kSecond;
constexpr int kMaxThreads = 32;  // may exceed the cores: they wait for the disk

std::string absolute(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : path;
}

// Returns the header of a stored index: everything that must match for it to be used. Each of its
// words ends with NUL.
std::string head_of(std::string_view format, std::span<const FileStamp> files) {
  std::string head;
  const auto put = [&](std::string_view word) { head.append(word).push_back('\0'); };
  put(format);
  put(fmt::format("{}", files.size()));
  for (const FileStamp& file : files) {
    put(file.path);
    put(fmt::format("{}", file.size));
    put(fmt::format("{}", file.modified));
    put(fmt::format("{}", file.changed));
  }
  return head;
}

// Returns the name of the stored index. It does not depend on the state of the files, so the index
// of changed files replaces the old one.
std::string cache_file(std::string_view format, std::span<const FileStamp> files) {
  std::string key(format);
  for (const FileStamp& file : files) key += '\0' + file.path;
  return fmt::format("{}/index/{:016x}", cache_home(), hash64(key));
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t nanoseconds(const struct timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

FileStamp stamp_from(const std::string& path, uint64_t size, const struct stat& info) {
  const int64_t modified = nanoseconds(info.st_mtim);
  return {absolute(path), size, modified, nanoseconds(info.st_ctim), modified <= now() - kSettled};
}

}  // namespace

FileStamp stamp_of(const std::string& file) {
  struct stat info;
  if (stat(file.c_str(), &info) != 0) throw_file_error(Exit::usage, file, "", errno);
  if (!S_ISREG(info.st_mode)) throw Error(Exit::usage, file, kind_text(info.st_mode));
  return stamp_from(file, static_cast<uint64_t>(info.st_size), info);
}

FileStamp stamp_of_folder(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) throw_file_error(Exit::usage, folder, "", errno);
  return stamp_from(folder, 0, info);
}

std::vector<FileStamp> stamps_of(std::span<const std::string> files) {
  std::vector<FileStamp> stamps(files.size());
  scan_files(files.size(), "", [&](size_t i) { stamps[i] = stamp_of(files[i]); });
  std::set<std::string_view> different;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!different.insert(stamps[i].path).second)
      throw Error(Exit::usage, files[i], "is listed twice, so its examples would count twice");
  }
  return stamps;
}

std::optional<std::string> load_index(std::string_view format, std::span<const FileStamp> files) {
  try {
    std::optional<std::string> content = read_file_if_any(cache_file(format, files));
    if (!content) return std::nullopt;
    constexpr size_t kChecksum = 17;  // hexadecimal digits and a newline
    if (content->size() < kChecksum) return std::nullopt;
    const std::string_view rest = std::string_view(*content).substr(kChecksum);
    if (content->substr(0, kChecksum) != fmt::format("{:016x}\n", hash64(rest)))
      return std::nullopt;
    const std::string head = head_of(format, files);
    if (!rest.starts_with(head)) return std::nullopt;
    content->erase(0, kChecksum + head.size());
    return content;
  } catch (const Error&) {
    return std::nullopt;  // no home folder, or no permission: the files are read again
  }
}

void store_index(std::string_view format, std::span<const FileStamp> files,
                 std::string_view index) {
  if (!std::all_of(files.begin(), files.end(), [](const FileStamp& file) { return file.settled; }))
    return;
  try {
    const std::string rest = head_of(format, files).append(index);
    make_folders(cache_home() + "/index");
    write_file_atomically(cache_file(format, files), fmt::format("{:016x}\n", hash64(rest)) + rest,
                          /*sync=*/false);
  } catch (const Error&) {
    // Not an error: without the cache (a read-only home) only time is lost.
  }
}

void scan_files(size_t count, std::string_view what, const std::function<void(size_t)>& scan,
                std::string_view unit) {
  const int64_t files = static_cast<int64_t>(count);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto show = [&](int64_t i) {
    if (!what.empty())
      log::progress(
          fmt::format("{}: {} of {} {}", what, human_count(i + 1), human_count(files), unit));
  };
  work_in_order(files, std::min(2 * cores, kMaxThreads), std::max<int64_t>(files, 1), scan, show);
  if (!what.empty()) log::clear_progress();
}

}  // namespace bv

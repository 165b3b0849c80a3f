#include "lib/input/sources/common/file_list.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "lib/input/sources/common/brace_expansion.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/util/descriptor.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns why the files of `url` cannot be opened; empty if it may be a path.
std::string url_problem(const std::string& url) {
  if (url.empty()) return "has an empty name";
  const size_t colon = url.find(':');
  const std::string scheme = url.substr(0, colon == std::string::npos ? 0 : colon);
  const bool plain = std::all_of(scheme.begin(), scheme.end(),
                                 [](unsigned char c) { return std::isalnum(c) != 0; });
  if (url.starts_with("pipe:")) {
    return fmt::format(
        "'{}' would run a command: run it yourself, and give the path of the file that it makes",
        url);
  }
  if (!scheme.empty() && plain && url.substr(colon).starts_with("://")) {
    return fmt::format(
        "{}:// is not supported ('{}'): copy the data to a local disk, or mount it, "
        "and give that path",
        scheme, url);
  }
  if (url.starts_with("file:")) return fmt::format("'{}': write the path without 'file:'", url);
  return "";
}

// Returns the files that match `pattern`, sorted by bytes. Only * and ? are special.
std::vector<std::string> matching_files(const std::string& pattern, const Place& place) {
  std::string escaped;
  for (const char c : pattern) {
    if (c == '[' || c == '\\') escaped += '\\';
    escaped += c;
  }
  glob_t result{};
  const int status = ::glob(escaped.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &result);
  std::vector<std::string> files(result.gl_pathv,
                                 result.gl_pathv + (status == 0 ? result.gl_pathc : 0));
  globfree(&result);
  if (status == GLOB_NOMATCH)
    throw Error(Exit::usage, place, fmt::format("no file matches '{}'", pattern));
  if (status != 0)
    throw Error(Exit::usage, place, fmt::format("cannot list the files that match '{}'", pattern));
  std::sort(files.begin(), files.end());
  return files;
}

// Throws if the name exists but is not a file: "is a pipe, not a file".
void refuse_other_kinds(const std::string& name) {
  struct stat info;
  if (stat(name.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    throw Error(Exit::usage, name, kind_text(info.st_mode));
}

// Returns the files that match `names`, which have no braces. Throws if one is missing.
std::vector<std::string> existing_files(const std::vector<std::string>& names, const Place& place) {
  std::vector<uint8_t> missing(names.size());
  scan_files(names.size(), "", [&](size_t i) { missing[i] = !file_exists(names[i]); });
  std::vector<std::string> files;
  const std::string* first = nullptr;
  int64_t lost = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (missing[i] == 0) {
      files.push_back(names[i]);
    } else if (names[i].find_first_of("*?") != std::string::npos) {
      for (std::string& file : matching_files(names[i], place)) files.push_back(std::move(file));
    } else {
      refuse_other_kinds(names[i]);
      if (!first) first = &names[i];
      ++lost;
    }
  }
  if (!first) return files;
  throw Error(Exit::usage, place,
              lost == 1 ? fmt::format("no such file: '{}'", *first)
                        : fmt::format("no such file: '{}'; {} more of the {} files {} missing too",
                                      *first, human_count(lost - 1), human_count(std::ssize(names)),
                                      lost == 2 ? "is" : "are"));
}

}  // namespace

FileList::FileList(const Config& config, std::string_view key) {
  const auto given = config.is_list(key) ? config.get<std::vector<std::string>>(key)
                                         : std::vector<std::string>{config.get<std::string>(key)};
  if (given.empty()) config.fail(key, "lists no files");
  place_ = config.place(key);
  for (const std::string& path : given) {
    if (const std::string problem = url_problem(path); !problem.empty()) config.fail(key, problem);
    try {
      for (std::string& file : brace_expansion(path)) names_.push_back(std::move(file));
    } catch (const Error& error) {
      config.fail(key, error.message());
    }
  }
}

std::vector<std::string> FileList::existing() const { return existing_files(names_, place_); }

}  // namespace bv

#include "lib/input/path.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace bv {
namespace {

// Records a problem if `path` begins with a '~' or '$NAME', which only a shell replaces.
void refuse_shell(const Config& config, std::string_view key, const std::string& path) {
  const std::string first = path.substr(0, path.find('/'));
  struct stat info;
  if ((first[0] != '~' && first[0] != '$') || stat(first.c_str(), &info) == 0) return;
  constexpr const char* kNameCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
  size_t end = std::min(path.find_first_not_of(kNameCharacters, 1), path.size());
  std::string name = first[0] == '$' ? path.substr(1, end - 1) : "";
  if (first == "~") {
    name = "HOME";
    end = 1;
  }
  const bool in_file = config.place(key).line > 0 && !name.empty();
  config.fail(key, fmt::format("'{}' is not expanded: {}", first,
                               in_file ? fmt::format("write '${{{}}}{}'", name, path.substr(end))
                                       : "write the whole path"));
}

}  // namespace

std::optional<std::string> maybe_path(const Config& config, std::string_view key) {
  const auto path = config.maybe<std::string>(key);
  if (!path) return path;
  for (const char* scheme : {"gs://", "s3://", "hdfs://"}) {
    if (path->starts_with(scheme)) {
      config.fail(key, fmt::format("{} is not supported ('{}'): copy the data to a local disk, or "
                                   "mount it, and give that path",
                                   scheme, *path));
    }
  }
  if (path->empty()) config.fail(key, "is empty");
  refuse_shell(config, key, *path);
  return path;
}

std::string require_path(const Config& config, std::string_view key) {
  const auto path = maybe_path(config, key);
  return path ? *path : config.get<std::string>(key);  // throws: the key is required
}

void FolderKey::check_exists() const {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    // A place has a key if the config comes from a checkpoint. --set needs the whole path, which
    // the key of a data set that fewshot_lsr names as a list is not.
    const bool moved = errno == ENOENT && place.key.find('.') != std::string::npos;
    const std::string remedy = moved ? fmt::format("; --set {}=... sets another", place.key) : "";
    throw Error(Exit::usage, place,
                errno == ENOENT ? fmt::format("no such folder: '{}'{}", path, remedy)
                                : fmt::format("'{}': {}", path, std::strerror(errno)));
  }
  if (!S_ISDIR(info.st_mode)) {
    throw Error(Exit::usage, place, fmt::format("not a folder: '{}'", path));
  }
}

}  // namespace bv

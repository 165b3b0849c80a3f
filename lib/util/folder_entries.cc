#include "lib/util/folder_entries.h"

#include <dirent.h>

#include <memory>
#include <string_view>

#include "lib/util/descriptor.h"

namespace bv {
namespace {

FolderEntry entry_of(const std::string& folder, const dirent& found) {
  FolderEntry entry{.name = found.d_name};
  mode_t mode = DTTOIF(found.d_type);
  struct stat info {};
  const std::string path = folder + "/" + entry.name;
  if (found.d_type == DT_UNKNOWN) mode = ::lstat(path.c_str(), &info) == 0 ? info.st_mode : 0;
  entry.link = S_ISLNK(mode);
  if (entry.link) mode = ::stat(path.c_str(), &info) == 0 ? info.st_mode : 0;
  entry.folder = S_ISDIR(mode);
  entry.file = S_ISREG(mode);
  return entry;
}

}  // namespace

void for_each_entry(const std::string& folder,
                    const std::function<void(const FolderEntry& entry)>& visit) {
  const auto fail = [&] { throw_file_error(Exit::usage, folder, "cannot list: ", errno); };
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) fail();
  while (true) {
    errno = 0;
    const dirent* found = ::readdir(dir.get());
    if (!found && errno != 0) fail();
    if (!found) return;
    const std::string_view name = found->d_name;
    if (name != "." && name != "..") visit(entry_of(folder, *found));
  }
}

}  // namespace bv

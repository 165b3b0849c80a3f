// Listing a folder: its entries, and errors while it is read.
#include "lib/util/folder_entries.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <map>

#include "test/support/error.h"
#include "test/support/folder.h"

namespace {
int g_entries_until_failure = -1;  // -1: readdir() does not fail
}  // namespace

// Replaces the C library's function in this program.
extern "C" dirent* readdir(DIR* dir) {
  if (g_entries_until_failure == 0) {
    errno = EIO;
    return nullptr;
  }
  if (g_entries_until_failure > 0) --g_entries_until_failure;
  static const auto real = reinterpret_cast<dirent* (*)(DIR*)>(::dlsym(RTLD_NEXT, "readdir"));
  return real(dir);
}

namespace bv::test {
namespace {

std::map<std::string, std::string> kinds_in(const std::string& folder) {
  std::map<std::string, std::string> kinds;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    kinds[entry.name] = entry.folder ? "folder" : entry.file ? "file" : "neither";
    if (entry.link) kinds[entry.name] += ", link";
  });
  return kinds;
}

}  // namespace

TEST_CASE("the entries of a folder, and where its links lead") {
  const TempFolder folder;
  folder.write("a.txt", "a");
  folder.write("inner/b.txt", "b");
  folder.write(".hidden", "");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  std::filesystem::create_symlink("a.txt", folder / "to_file");
  std::filesystem::create_symlink("inner", folder / "to_folder");
  std::filesystem::create_symlink("nothing", folder / "to_nothing");
  std::filesystem::create_symlink("to_itself", folder / "to_itself");
  CHECK(kinds_in(folder.path()) ==
        std::map<std::string, std::string>{{".hidden", "file"},
                                           {"a.txt", "file"},
                                           {"inner", "folder"},
                                           {"pipe", "neither"},
                                           {"to_file", "file, link"},
                                           {"to_folder", "folder, link"},
                                           {"to_itself", "neither, link"},
                                           {"to_nothing", "neither, link"}});
}

TEST_CASE("a folder that cannot be listed to its end is an error") {
  const TempFolder folder;
  for (int i = 0; i < 10; ++i) folder.write(std::to_string(i), "");
  CHECK(error_of([&] { kinds_in(folder / "none"); }) ==
        folder / "none" + ": error: cannot list: no such file");
  CHECK(error_of([&] { kinds_in(folder / "1"); }) ==
        folder / "1" + ": error: cannot list: Not a directory");
  g_entries_until_failure = 5;
  CHECK(error_of([&] { kinds_in(folder.path()); }, Exit::storage) ==
        folder.path() + ": error: cannot list: Input/output error");
  g_entries_until_failure = -1;
  CHECK(kinds_in(folder.path()).size() == 10);
}

}  // namespace bv::test

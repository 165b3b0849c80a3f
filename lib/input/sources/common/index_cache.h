// The index cache: what a source has learned about its files, kept between runs in
// cache_home()/index/. A source that must scan every file to find its examples does so once, stores
// the result, and opens in milliseconds afterwards.
//
// A stored index is used only as long as each file has the size, the modification time and the
// change time that it had when it was read. tar, rsync and cp -p set the modification time of what
// they write, but no program can set the change time. The cache is optional: without it (a
// read-only home) opening only takes longer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// The state of a file, which changes if its content does.
struct FileStamp {
  std::string path;  // absolute
  uint64_t size = 0;
  int64_t modified = 0;  // in nanoseconds since 1970
  int64_t changed = 0;   // the same, of the inode (st_ctim)
  // Whether the last modification was at least two seconds ago. Otherwise the file may change again
  // without getting a new modification time, on file systems that count in seconds.
  bool settled = true;
};

// Throws Error(Exit::usage) "<file>: error: no such file" or "is a folder" unless it is a regular
// file.
FileStamp stamp_of(const std::string& file);
// The same for a folder, whose size is given as 0. It changes if a file is added, removed or
// renamed.
FileStamp stamp_of_folder(const std::string& folder);
// The same as stamp_of() for several files, in their order, with several threads. Also throws if
// two of them are the same file, because its examples would count twice.
std::vector<FileStamp> stamps_of(std::span<const std::string> files);

// Returns what store_index() has stored for these files under this format, if none of them has
// changed. `format` names the kind of index, its version, and all settings on which its content
// depends: "bvtrain tar 1".
std::optional<std::string> load_index(std::string_view format, std::span<const FileStamp> files);
// Stores an index. Take the stamps before the files are read: a change in between is then found
// the next time. Does nothing if a file is not settled, or if the cache cannot be written.
void store_index(std::string_view format, std::span<const FileStamp> files, std::string_view index);

// Calls scan(i) for 0 <= i < count, with several threads. Shows "<what>: 12 of 128 files" as
// progress, with `unit` in place of "files". After an error no more calls begin; the error of the
// lowest i is thrown. Throws Stopped if a signal asks the process to stop. A scan(i) that may take
// long must call poll_signals() itself.
void scan_files(size_t count, std::string_view what, const std::function<void(size_t)>& scan,
                std::string_view unit = "files");

}  // namespace bv

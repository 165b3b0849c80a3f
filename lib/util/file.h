// Files: reading with a size limit, atomic replacement, syncing, folders (POSIX).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace bv {

bool file_exists(const std::string& file);
bool folder_exists(const std::string& path);

// Returns whether `path` is a pipe: a FIFO, or /dev/stdin or /dev/fd/N where the shell has put one.
bool is_pipe(const std::string& path);

// Returns the whole content of a regular file. `limit` is the most bytes allowed, 0 for any number.
// Throws Error(Exit::usage) "<file>: error: no such file", "is a folder", "is a pipe, not a file"
// or "larger than N bytes".
std::string read_file(const std::string& file, size_t limit = 0);

// Like read_file(), but returns nullopt if there is no such file. Any other failure throws: a file
// that exists must not be taken for missing.
std::optional<std::string> read_file_if_any(const std::string& file, size_t limit = 0);

// Like read_file(), but reads a pipe too: `--config <(...)`. Throws Stopped if a signal asks the
// process to stop while it waits for the pipe's writer.
std::string read_file_or_pipe(const std::string& file, size_t limit = 0);

// Reads an open pipe or terminal to its end. `name` is for messages. Throws Error(Exit::usage), and
// Stopped if a signal asks the process to stop.
std::string read_stream(int fd, const std::string& name, size_t limit = 0);

// Replaces `file` in one step: readers see the old content or the new one, never a part. Writes a
// temporary file in the same folder and renames it; with `sync` it also waits until file and folder
// are on disk. The permissions of an old file stay (keep_permissions()). Throws
// Error(Exit::storage); the old content is then still in place.
void write_file_atomically(const std::string& file, std::string_view content, bool sync = true);

// Gives the new file `fd` the permissions of the old one `file`, which it is going to replace; its
// owner may always read and write it. If the new file has another group, it gets no permission
// that it did not have. Does nothing if `file` is not a regular file of the same owner, or if the
// file system cannot change permissions.
void keep_permissions(int fd, const std::string& file);

// Throws Error(Exit::storage) "<file>: error: cannot write: is a pipe, not a file" if something
// other than a regular file has this name: opening a pipe for writing would wait for a reader.
void refuse_special_file(const std::string& file);

// Returns the file to which the symbolic link `file` leads, over any number of links; it may not
// exist yet. Returns `file` itself if it is no link.
std::string link_target(const std::string& file);

// Keeps the content of a damaged file that is about to be replaced, as "<file>.damaged" or, if that
// exists, "<file>.damaged-2" and so on. Returns that name. Throws Error(Exit::storage).
std::string put_aside(const std::string& file, std::string_view content);
inline constexpr std::string_view kAsideSuffix = ".damaged";

// Writes all of `bytes` to `fd`, however many write(2) calls that takes. Returns 0, or the errno
// value of the call that failed (errno itself holds it too). Never throws.
int write_all(int fd, std::string_view bytes) noexcept;

// Opens /dev/null for each of the descriptors 0 to 2 that the parent process has closed. Otherwise
// the next files would get these numbers, and the log would go into one of them. Reading standard
// input and writing standard output still fail, and the log is lost.
void open_standard_descriptors();

// Waits until a file or folder is on disk. Throws Error(Exit::storage).
void fsync_path(const std::string& path);
// Creates a folder with its missing parents. Throws Error(Exit::storage).
void make_folders(const std::string& path);
// Returns $XDG_CACHE_HOME/bvtrain or ~/.cache/bvtrain. Throws Error(Exit::usage) if there is no
// home folder.
std::string cache_home();

}  // namespace bv

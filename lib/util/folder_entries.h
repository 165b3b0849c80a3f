// The entries of a folder. Use this for folders that a user names: std::filesystem's iterators
// throw their own errors, even if they are given a std::error_code.
#pragma once

#include <functional>
#include <string>

namespace bv {

struct FolderEntry {
  std::string name;
  // The type of the entry; for a link, that of its target. Both are false for a pipe or a device,
  // and for a link that leads nowhere or to itself.
  bool folder = false, file = false;
  bool link = false;
};

// Calls visit() for each entry of `folder`, in the order of the file system, without "." and "..".
// Throws Error "<folder>: error: cannot list: ..." if the folder cannot be read to its end:
// Exit::storage if the disk fails, otherwise Exit::usage.
void for_each_entry(const std::string& folder,
                    const std::function<void(const FolderEntry& entry)>& visit);

}  // namespace bv

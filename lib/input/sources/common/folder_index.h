// The list of images of one split of an image folder: class folders and their files, sorted by
// bytes, so that the order is the same on every machine.
//
// Building checks the head and tail of every file, with several threads, and is remembered in
// cache_home()/index/ under the folder's absolute path, until the modification time of one of its
// folders changes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Names of the sub-folders of `folder`, sorted by bytes, without hidden ones. Throws
// Error(Exit::usage) where it can't be read.
std::vector<std::string> list_folders(const std::string& folder);

class FolderIndex {
 public:
  // From the cache, or built. Throws Error(Exit::usage): at most 20 lines, one for each broken file
  // (unless they are to be kept among the others) or class without images.
  FolderIndex(const std::string& folder, const std::vector<std::string>& classes,
              bool keep_broken = false);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()); }
  std::string_view file(int64_t index) const { return names_.c_str() + offsets_.at(index); }
  size_t class_of(int64_t index) const;  // index into `classes`

  bool from_cache() const { return from_cache_; }

 private:
  void build(const std::string& folder, const std::vector<std::string>& classes, bool keep_broken);
  // Both forms: a text of NUL-terminated words: format, folder, whether whole, then for each class
  // its name, time stamp, number of files and the files.
  std::string serialize(const std::string& folder, const std::vector<std::string>& classes,
                        const std::vector<int64_t>& stamps) const;
  bool parse(std::string text, const std::string& folder, const std::vector<std::string>& classes,
             const std::vector<int64_t>& stamps, bool keep_broken);

  std::string names_;                // all file names, each ended by NUL
  std::vector<uint64_t> offsets_;    // (images,) into names_
  std::vector<int64_t> class_ends_;  // (classes,) first image of the next class
  bool whole_ = true;                // no file is broken
  bool from_cache_ = false;
};

}  // namespace bv

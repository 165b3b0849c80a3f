// FolderIndex: the images of one split of an image folder. Class folders, and the files in each,
// are sorted by bytes, so the order is the same on every machine.
//
// Building the index checks the beginning and end of every file, with several threads. The result
// is stored in the index cache (index_cache.h) and used until the modification time or the change
// time of one of the class folders changes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// The known names of splits, the most common one of each kind first.
using SplitNames = std::span<const std::string_view>;
inline constexpr std::string_view kTrainingNames[] = {"train", "training"};
inline constexpr std::string_view kValidationNames[] = {"val", "validation", "valid",
                                                        "dev", "eval",       "evaluation"};
inline constexpr std::string_view kTestNames[] = {"test", "testing"};
// Returns whether `name` is one of `names`. Ignores case.
bool is_named(std::string_view name, SplitNames names);
// Returns whether `name` is one of all these names. Ignores case.
bool is_split_name(std::string_view name);

// Returns the first of "train", "val" and "test" that has one of its names among the words of
// `text`; "" if none has. Words consist of letters, so "x.train.npz" contains the word train, but
// "constrain" does not.
std::string split_of_words(std::string text);

// Returns the names of the sub-folders of `folder`, sorted by bytes, without hidden ones. Throws
// what for_each_entry() throws (lib/util/folder_entries.h).
std::vector<std::string> list_folders(const std::string& folder);
// The suffixes of files that the source csv may be able to read.
inline constexpr std::string_view kCsvSuffixes[] = {".csv", ".tsv"};
// Returns the names of the files in `folder` that end in one of `suffixes`, in upper or lower case,
// sorted by bytes, without hidden ones. Throws what list_folders() throws.
std::vector<std::string> list_files(const std::string& folder,
                                    std::span<const std::string_view> suffixes);
// Returns the number of files in `folder` that have the suffix of an image, without hidden ones.
// Throws what list_folders() throws.
int64_t count_images(const std::string& folder);
// Returns whether the files and folders that a program writes into `folder`, which need not exist,
// may be read as classes or splits of the image folder `data_dir`. Throws what list_folders()
// throws.
bool adds_classes(const std::string& folder, const std::string& data_dir);

class FolderIndex {
 public:
  // Reads the index from the cache, or builds it. Throws BrokenFiles with at most 20 lines: one for
  // each broken file and each class without images. With `keep_broken` they are not an error: a
  // class without images then has one entry, whose file name is empty.
  FolderIndex(const std::string& folder, const std::vector<std::string>& classes,
              bool keep_broken = false);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()); }
  // Return the file name of an image, without its class folder, and the index of its class. The
  // name is empty if the class has no images.
  std::string_view file(int64_t index) const { return names_.c_str() + offsets_.at(index); }
  size_t class_of(int64_t index) const;
  // Returns what was noticed when the index was built.
  const FileNotes& notes() const { return notes_; }

 private:
  void build(const std::string& folder, const std::vector<std::string>& classes, bool keep_broken);
  // The stored form is a list of NUL-terminated words: "whole" or "broken", the notes (the turned
  // images, the inner folders, the number of other types, and for each the suffix and the number of
  // files), and for each class its number of files and their names.
  // parse() returns false if the text is damaged or does not fit the arguments.
  std::string serialize() const;
  bool parse(std::string text, const std::vector<std::string>& classes, bool keep_broken);

  std::string names_;                // all file names, NUL-terminated
  std::vector<uint64_t> offsets_;    // (images,) where each name begins in names_
  std::vector<int64_t> class_ends_;  // (classes,) the first image of the next class
  bool whole_ = true;                // no file is broken
  FileNotes notes_;
};

}  // namespace bv

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/util/regular_file.h"

namespace bv {

// The files of a data set that holds many examples in each file. Opens a file when it is first
// read, and keeps at most kMaxOpen of them open, or a sixteenth of the process's limit on open
// files if that is less: other data sets need files too. Thread-safe.
class ShardFiles {
 public:
  static constexpr size_t kMaxOpen = 128;

  explicit ShardFiles(std::vector<std::string> files);

  size_t count() const { return files_.size(); }
  const std::string& name(size_t file) const { return files_.at(file); }
  const std::vector<std::string>& names() const { return files_; }

  // Reads `size` bytes from `offset` of file number `file` into `out`. Throws Error(Exit::data)
  // "<file> @ offset <offset>: error: ..." if it cannot be opened or read, or ends too early;
  // TooManyOpenFiles if a file cannot be opened even after all files of this object have been
  // closed.
  void read(size_t file, uint64_t offset, uint64_t size, uint8_t* out) const;
  // The same into a new tensor, (size,) uint8.
  at::Tensor read(size_t file, uint64_t offset, uint64_t size) const;

 private:
  std::shared_ptr<const RegularFile> open(size_t file) const;
  void close_oldest() const;

  struct OpenFile {
    std::shared_ptr<const RegularFile> file;
    std::list<size_t>::iterator place;  // in used_
  };
  std::vector<std::string> files_;
  size_t max_open_;
  mutable std::mutex mutex_;
  // Both are guarded by mutex_. A file that is closed here lives on in the calls that read it.
  mutable std::unordered_map<size_t, OpenFile> open_;
  mutable std::list<size_t> used_;  // the files in open_, the most recently used first
};

}  // namespace bv

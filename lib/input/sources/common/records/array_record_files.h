#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/input/sources/common/records/records.h"
#include "lib/input/sources/common/shard_files.h"

namespace bv {

// Random access to the records of ArrayRecord files (github.com/google/array_record,
// cpp/array_record_writer.h). A file is a Riegeli file: a list of chunks, each of one or more
// records, and at the end a chunk that says where the others begin. The constructor reads that one,
// so that no stored index is needed.
//
// TFDS writes one record per chunk. If a chunk holds several, reading one of them decompresses the
// whole chunk. VerifyRecords says when the checksum of a chunk is compared. Labels are not known:
// finding them would mean decompressing all files.
//
// Thread-safe.
class ArrayRecordFiles : public Records {
 public:
  // See open_records().
  ArrayRecordFiles(std::vector<std::string> files, VerifyRecords verify);

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t records_in(size_t file) const override {
    return ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
  }
  at::Tensor read(int64_t record) const override;
  std::string where(int64_t record) const override;
  at::Tensor labels() const override { return {}; }

 private:
  struct Scanned;
  static Scanned scan(const ShardFiles& files, size_t file, uint64_t file_size);
  size_t chunk_of(int64_t record) const;
  ShardFiles files_;
  VerifyRecords verify_;
  std::vector<uint64_t> sizes_;      // (files,) in bytes
  std::vector<uint64_t> chunks_;     // where each chunk begins in its file, file after file
  std::vector<int64_t> chunk_ends_;  // (chunks,) the first record of the next chunk
  std::vector<int64_t> ends_;        // (files,) the first record of the next file
  std::unique_ptr<std::atomic<bool>[]> verified_;  // (chunks,)
};

}  // namespace bv

#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/sources/common/records/records.h"
#include "lib/input/sources/common/shard_files.h"

namespace bv {

// Random access to the records of TFRecord files (tensorflow/core/lib/io/record_writer.h). A record
// is an 8-byte length, its checksum (4 bytes), the data, and the checksum of the data (4 bytes);
// checksums are masked CRC-32C.
//
// The files have no table of contents. The constructor reads the headers of all records, with
// several threads, and stores their positions in the index cache.
//
// Thread-safe.
class TfRecordFiles : public Records {
 public:
  // See open_records().
  TfRecordFiles(std::vector<std::string> files, VerifyRecords verify, const std::string& label_key,
                bool keep_broken);

  int64_t size() const override { return static_cast<int64_t>(offsets_.size()); }
  int64_t records_in(size_t file) const override {
    return ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
  }
  at::Tensor read(int64_t record) const override;
  std::string where(int64_t record) const override;
  // Also undefined if an intact record does not have exactly one integer under the label key.
  at::Tensor labels() const override { return labels_; }

 private:
  struct Scanned;
  static Scanned scan(const std::string& file, const std::string& label_key);
  void build(const std::string& label_key, bool keep_broken);
  std::string serialize() const;
  bool parse(std::string_view index, bool keep_broken);
  size_t file_of(int64_t record) const;

  ShardFiles files_;
  VerifyRecords verify_;
  std::vector<uint64_t> offsets_;  // of each record, in its file
  std::vector<int64_t> ends_;      // (files,) the first record of the next file
  at::Tensor labels_;
  uint64_t broken_ = 0;  // records without a label, because they are broken
  std::unique_ptr<std::atomic<uint8_t>[]> verified_;  // a bit for each record
};

}  // namespace bv

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// When the checksum of a record's data is compared: when this process reads it for the first time,
// whenever it reads it, or not at all. Checksums of lengths are always compared.
enum class VerifyRecords { first_epoch, always, never };

// Random access to the records of a list of files. Thread-safe.
class Records {
 public:
  virtual ~Records() = default;

  virtual int64_t size() const = 0;
  virtual int64_t records_in(size_t file) const = 0;
  // Returns the data of a record, (bytes,) uint8. Throws Error(Exit::data) at where(record).
  virtual at::Tensor read(int64_t record) const = 0;
  // Returns "<file> @ offset N".
  virtual std::string where(int64_t record) const = 0;
  // Returns (size(),) int64: the integers of a feature of the records, and Source::kNoLabel for
  // broken records; undefined if they are not known without reading the records.
  virtual at::Tensor labels() const = 0;
};

// Opens TFRecord files, or files of the format `array_record`. `label_key`: the feature whose
// integers labels() returns if the format allows it; the records are then Examples. "" for none.
// Throws Error(Exit::usage) "<file> @ offset N: error: ..." if a file is of another kind, and
// BrokenFiles with a line for each of the first 20 broken records that the search for labels meets.
// With `keep_broken` they are not an error.
std::unique_ptr<Records> open_records(std::string_view format, std::vector<std::string> files,
                                      VerifyRecords verify, const std::string& label_key,
                                      bool keep_broken);

}  // namespace bv

// An ArrayRecord file: the first part of the input unchanged, the second one as the data of a chunk
// with correct checksums, the third one as such a chunk in place of the table of contents.
#include "lib/input/sources/common/records/array_record_files.h"

#include "test/fuzz/fuzz.h"
#include "test/support/bad_data/record_writers.h"

namespace bv::test {
namespace {

void read_array_records(const std::string& content) {
  const std::string file = scratch_file("d.array_record", content);
  errors_only([&] {
    const ArrayRecordFiles files({file}, VerifyRecords::always);
    for (int64_t i = 0; i < std::min<int64_t>(files.size(), 16); ++i)
      errors_only([&] { files.read(i); });
  });
}

}  // namespace

FUZZ_TARGET(array_record) {
  const auto parts = parts_of(input);
  read_array_records(std::string(part_of(parts, 0)));
  const std::string data(part_of(parts, 1));
  if (data.size() > 60'000) return;  // one block
  const uint64_t records = data.empty() ? 1 : static_cast<uint8_t>(data.back());
  read_array_records(array_record_file({riegeli_chunk(data, records)}, kArrayRecordMagic, 1));
  const std::string table(part_of(parts, 2));
  if (table.size() <= 60'000)
    read_array_records(array_record_with_table("", riegeli_chunk(table, 2), kArrayRecordMagic));
}

}  // namespace bv::test

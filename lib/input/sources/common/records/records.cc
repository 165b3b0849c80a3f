#include "lib/input/sources/common/records/records.h"

#include "lib/input/sources/common/records/array_record_files.h"
#include "lib/input/sources/common/records/tfrecord_files.h"

namespace bv {

std::unique_ptr<Records> open_records(std::string_view format, std::vector<std::string> files,
                                      VerifyRecords verify, const std::string& label_key,
                                      bool keep_broken) {
  if (format == "array_record") return std::make_unique<ArrayRecordFiles>(std::move(files), verify);
  return std::make_unique<TfRecordFiles>(std::move(files), verify, label_key, keep_broken);
}

}  // namespace bv

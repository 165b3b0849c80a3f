#include "lib/input/sources/common/file_bytes.h"

#include <ATen/ops/empty.h>

#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/regular_file.h"

namespace bv {

at::Tensor file_bytes(const std::string& file, std::string_view failed) {
  const auto failure = [&](std::string_view why) {
    return Error::bare(Exit::data, fmt::format("{}: {}", failed, why));
  };
  try {
    const RegularFile opened(file);
    if (opened.size() > limits::kRecordBytes)
      throw failure(fmt::format("{} bytes are more than the limit of 1 GiB", opened.size()));
    at::Tensor bytes = at::empty({static_cast<int64_t>(opened.size())}, at::kByte);
    if (opened.read(bytes.mutable_data_ptr<uint8_t>(), opened.size(), 0) < opened.size())
      throw failure("it became shorter while it was read");
    return bytes;
  } catch (const TooManyOpenFiles&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Exit::data) throw;
    throw failure(error.message());
  }
}

}  // namespace bv

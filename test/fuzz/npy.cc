// An npy array of numbers or strings.
#include "lib/ckpt/formats/npy.h"

#include "lib/ckpt/formats/npy_text.h"
#include "lib/input/sources/common/webdataset/webdataset_values.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(npy) {
  const ErrorAt error_at = [](size_t position, const std::string& message) {
    return Error(Exit::usage, fmt::format("f @ offset {}", position), message);
  };
  errors_only([&] {
    const NpyHeader header = parse_npy_header(bytes_of(input), error_at);
    check(header.data <= input.size(), "data at {} of {}", header.data, input.size());
    if (header.type == "U") npy_texts(bytes_of(input), header, error_at);
  });
  errors_only([&] { npy_tensor("npy", bytes_of(input)); });
}

}  // namespace bv::test

// Converts the arrays of an archive to tensors and back. Besides the result, only one array is in
// memory at a time.
#include "lib/ckpt/formats/npz.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npy.h"
#include "lib/ckpt/formats/npy_text.h"
#include "lib/ckpt/formats/zip.h"
#include "lib/device/dtype_name.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/mapped_file.h"
#include "lib/util/text.h"

namespace bv {

namespace {

static_assert(std::endian::native == std::endian::little, "npy arrays are written little-endian");

constexpr std::string_view kSuffix = ".npy";
// Arrays of so many bytes are written unpacked: packing would take two more copies in memory, and
// makes numbers little smaller.
constexpr size_t kStoredBytes = size_t{16} << 20;

struct TypeName {
  std::string_view npy;   // NpyHeader::type
  at::ScalarType stored;  // a type of the same size, as which the bytes are read
  at::ScalarType result;  // the type that read_npz() returns
};
// A tensor is written as the first row whose `stored` and `result` are both its type.
constexpr TypeName kNpzTypes[] = {
    {"f4", at::kFloat, at::kFloat}, {"f8", at::kDouble, at::kDouble},
    {"f2", at::kHalf, at::kHalf},   {"V2", at::kBFloat16, at::kBFloat16},
    {"i1", at::kChar, at::kChar},   {"i2", at::kShort, at::kShort},
    {"i4", at::kInt, at::kInt},     {"i8", at::kLong, at::kLong},
    {"u1", at::kByte, at::kByte},   {"b1", at::kBool, at::kBool},
    {"u2", at::kShort, at::kInt},   {"u4", at::kInt, at::kLong},
    {"u8", at::kLong, at::kLong},
};

const TypeName& type_row_of(const NpyHeader& header) {
  for (const TypeName& type : kNpzTypes) {
    if (type.npy == header.type) return type;
  }
  throw Error(Exit::internal, "internal", "npy type without a tensor type: " + header.type);
}

std::string descr_of(const at::Tensor& tensor, const std::string& name) {
  for (const TypeName& type : kNpzTypes) {
    if (type.stored != tensor.scalar_type() || type.stored != type.result) continue;
    const bool no_order = tensor.element_size() == 1 || type.npy == "V2";
    return fmt::format("{}{}", no_order ? '|' : '<', type.npy);
  }
  throw Error(Exit::internal, "internal",
              fmt::format("array '{}' has a type npz can't hold: {}", name,
                          dtype_name(tensor.scalar_type())));
}

void swap_bytes(uint8_t* data, uint64_t bytes, uint64_t width) {
  for (uint64_t i = 0; i + width <= bytes; i += width) std::reverse(data + i, data + i + width);
}

// An unpacked entry and its header.
struct Array {
  at::Tensor bytes;  // (entry.bytes,) uint8
  NpyHeader header;
  ErrorAt error_at;  // about a byte of the unpacked entry
};

// Returns the elements of `array` as a tensor, which uses the memory of array.bytes if possible.
at::Tensor to_tensor(Array& array) {
  const NpyHeader& header = array.header;
  const TypeName& type = type_row_of(header);
  at::Tensor data = array.bytes.narrow(0, static_cast<int64_t>(header.data),
                                       array.bytes.size(0) - static_cast<int64_t>(header.data));
  if (header.data % header.width != 0) data = data.clone();
  auto* bytes = data.mutable_data_ptr<uint8_t>();
  if (header.big_endian) swap_bytes(bytes, data.nbytes(), header.width);
  const auto refuse_byte = [&](const uint8_t* byte, const char* why) {
    throw array.error_at(header.data + static_cast<uint64_t>(byte - bytes), why);
  };
  if (header.type == "b1") {
    // A bool with any byte other than 0 and 1 is undefined behaviour.
    const auto* bad = std::find_if(bytes, bytes + data.nbytes(), [](uint8_t b) { return b > 1; });
    if (bad != bytes + data.nbytes()) refuse_byte(bad, "a bool that is neither 0 nor 1");
  }
  data = data.view(type.stored);
  if (header.type == "u8") {
    const auto* values = data.const_data_ptr<int64_t>();
    const auto* bad = std::find_if(values, values + data.numel(), [](int64_t v) { return v < 0; });
    if (bad != values + data.numel()) {
      refuse_byte(reinterpret_cast<const uint8_t*>(bad), "an unsigned integer of 2^63 or more");
    }
  }
  if (header.type == "u2") data = at::bitwise_and(data.to(type.result), 0xffff);
  if (header.type == "u4") data = at::bitwise_and(data.to(type.result), int64_t{0xffffffff});
  if (!header.fortran_order) return data.view(header.shape);
  std::vector<int64_t> reversed(header.shape.rbegin(), header.shape.rend());
  std::vector<int64_t> order(header.shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(order.size() - 1 - i);
  return data.view(reversed).permute(order).contiguous();
}

// The packed and the unpacked bytes of the arrays that are read.
class Growth {
 public:
  Growth(const std::vector<ZipEntry>& entries, const std::string& prefix, const std::string& file)
      : file_(file) {
    for (const ZipEntry& entry : entries) {
      if (!entry.name.starts_with(prefix)) continue;
      packed_ += entry.packed_bytes;
      unpacked_ += entry.bytes;  // at most 1032 * packed_bytes
    }
  }
  // Adds the growth of an array of `bytes` that is converted to `converted` bytes.
  void convert(uint64_t bytes, uint64_t converted) {
    unpacked_ += std::max(bytes, converted) - bytes;
  }
  void refuse_bomb() const {
    if (unpacked_ <= limits::kUnpackedBytes || unpacked_ <= limits::kUnpackedRatio * packed_)
      return;
    throw Error(Exit::usage, file_,
                fmt::format("its {} would unpack to {}: a zip bomb, or damaged",
                            human_bytes(static_cast<double>(packed_)),
                            human_bytes(static_cast<double>(unpacked_))));
  }

 private:
  const std::string& file_;
  uint64_t packed_ = 0, unpacked_ = 0;
};

NpzEntry npz_entry(const std::string& name, const NpyHeader& header) {
  return {name, header.shape, type_row_of(header).result};
}

// Returns a function that creates an error about a byte of the unpacked entry of array `name`.
ErrorAt entry_errors(const std::string& file, const ZipEntry& entry, const std::string& name) {
  return [where = fmt::format("{} @ offset {}", file, entry.data), name](
             size_t position, const std::string& message) {
    return Error(Exit::usage, where, fmt::format("'{}', byte {}: {}", name, position, message));
  };
}

// Calls `use` once for every array whose name begins with `prefix`, also for text. `use` gets the
// name without the prefix. `width`: as for read_npz(); empty if the arrays are not converted.
void each_array(const std::string& file, const std::string& prefix, NpzSize size,
                const NpzWidth& width,
                const std::function<void(const std::string& name, Array&)>& use) {
  const MappedFile mapping(file);
  const std::vector<ZipEntry> entries = read_zip_directory(mapping.bytes(), file);
  Growth growth(entries, prefix, file);
  if (size == NpzSize::plausible) growth.refuse_bomb();
  for (const ZipEntry& entry : entries) {
    const bool folder = entry.name.ends_with('/') && entry.bytes == 0;
    if (folder) continue;
    if (!entry.name.ends_with(kSuffix)) {
      throw Error(Exit::usage, fmt::format("{} @ offset {}", file, entry.header),
                  fmt::format("entry '{}' is not an npy array", entry.name));
    }
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    if (!name.starts_with(prefix)) continue;

    Array array;
    array.error_at = entry_errors(file, entry, name);
    array.bytes = at::empty({static_cast<int64_t>(entry.bytes)}, at::kByte);
    const std::span<uint8_t> bytes(array.bytes.mutable_data_ptr<uint8_t>(), entry.bytes);
    unpack(mapping.bytes(), entry, file, bytes);
    array.header = parse_npy_header(bytes, array.error_at);
    const std::string own_name = name.substr(prefix.size());
    if (size == NpzSize::plausible && width && !array.header.is_text()) {
      const uint64_t values = entry.bytes - array.header.data;
      growth.convert(values,
                     values / array.header.width * width(npz_entry(own_name, array.header)));
      growth.refuse_bomb();
    }
    use(own_name, array);
  }
}

}  // namespace

uint64_t read_width(const NpzEntry& array) { return c10::elementSize(array.dtype); }

NamedTensors read_npz(const std::string& file, const std::string& prefix, NpzSize size,
                      const NpzWidth& width) {
  NamedTensors tensors;
  each_array(file, prefix, size, width, [&](const std::string& name, Array& array) {
    if (!array.header.is_text()) tensors[name] = to_tensor(array);
  });
  return tensors;
}

std::vector<NpzEntry> list_npz(const std::string& file) {
  std::vector<NpzEntry> entries;
  each_array(file, "", NpzSize::plausible, {}, [&](const std::string& name, Array& array) {
    if (!array.header.is_text()) entries.push_back(npz_entry(name, array.header));
  });
  return entries;
}

std::optional<std::vector<std::string>> read_npz_text(const std::string& file,
                                                      const std::string& name) {
  const MappedFile mapping(file);
  for (const ZipEntry& entry : read_zip_directory(mapping.bytes(), file)) {
    if (entry.name != name + std::string(kSuffix)) continue;
    const ErrorAt error_at = entry_errors(file, entry, name);
    if (entry.bytes > limits::kNpzTextBytes)
      throw error_at(0, fmt::format("more than {} bytes of text", limits::kNpzTextBytes));
    std::vector<uint8_t> npy(entry.bytes);
    unpack(mapping.bytes(), entry, file, npy);
    const NpyHeader header = parse_npy_header(npy, error_at);
    if (header.type != "U") return std::nullopt;
    return npy_texts(npy, header, error_at);
  }
  return std::nullopt;
}

bool is_npz_text(const std::string& file, const std::string& name) {
  bool text = false;
  // Only the array itself has nothing after the prefix.
  each_array(file, name, NpzSize::plausible, {}, [&](const std::string& rest, Array& array) {
    text |= rest.empty() && array.header.is_text();
  });
  return text;
}

void write_npz(const std::string& file, const NamedTensors& tensors, const NamedTexts& texts) {
  replace_file(file, [&](FileWriter& out) {
    ZipWriter zip(out);
    std::vector<uint8_t> content;
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor dense = tensor.detach().contiguous();
      const std::string header = npy_header(descr_of(dense, name), dense.sizes().vec());
      if (dense.nbytes() >= kStoredBytes) {
        zip.store(name + std::string(kSuffix), header,
                  {static_cast<const uint8_t*>(dense.const_data_ptr()), dense.nbytes()});
        continue;
      }
      content.resize(header.size() + dense.nbytes());
      std::memcpy(content.data(), header.data(), header.size());
      if (dense.nbytes() > 0) {
        std::memcpy(content.data() + header.size(), dense.const_data_ptr(), dense.nbytes());
      }
      zip.add(name + std::string(kSuffix), content);
    }
    for (const auto& [name, values] : texts) zip.add(name + std::string(kSuffix), text_npy(values));
    zip.finish();
  });
}

}  // namespace bv

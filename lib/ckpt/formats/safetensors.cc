#include "lib/ckpt/formats/safetensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "lib/ckpt/file_writer.h"
#include "lib/device/dtype_name.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"

namespace bv {

namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kSafetensorsTypes = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

const char* type_name(const at::Tensor& tensor, const std::string& name) {
  for (const auto& [text, type] : kSafetensorsTypes) {
    if (tensor.scalar_type() == type) return text;
  }
  throw Error(Exit::internal, "internal",
              fmt::format("tensor '{}' has a type safetensors can't hold: {}", name,
                          dtype_name(tensor.scalar_type())));
}

at::ScalarType scalar_type_of(const std::string& text) {
  for (const auto& [known, type] : kSafetensorsTypes) {
    if (text == known) return type;
  }
  throw Error(Exit::internal, "internal", "dtype without a type: " + text);
}

}  // namespace

void write_safetensors(FileWriter& out, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({.name = name,
                       .dtype = type_name(tensor, name),
                       .shape = tensor.sizes().vec(),
                       .begin = 0,
                       .end = tensor.nbytes()});
  }
  // The format allows no padding between tensors. With large elements first, each is aligned.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return safetensors_element_bytes(a.dtype) > safetensors_element_bytes(b.dtype);
  });
  uint64_t position = 0;
  for (SafetensorsEntry& entry : entries) {
    entry.begin = position;
    position = entry.end += position;
  }

  out.write(safetensors_header(entries, metadata, out.file()));
  for (const SafetensorsEntry& entry : entries) {
    const at::Tensor dense = tensors.at(entry.name).detach().contiguous();
    out.write(dense.const_data_ptr(), dense.nbytes());
  }
}

uint64_t safetensors_room(const NamedTensors& tensors) {
  constexpr uint64_t kEntryBytes = 256;  // of a tensor without its name: dtype, shape, offsets
  uint64_t taken = 4096;                 // padding, and pairs that a caller adds
  for (const auto& [name, value] : tensors) taken += name.size() + kEntryBytes;
  return limits::kSafetensorsHeaderBytes - std::min(taken, limits::kSafetensorsHeaderBytes);
}

void write_safetensors(const std::string& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  FileWriter out(file);
  write_safetensors(out, tensors, metadata);
  out.finish();
}

SafetensorsHeader read_safetensors_header(const ChunkReader& reader, const std::string& file) {
  std::vector<uint8_t> start(std::min(kSafetensorsLengthBytes, reader.bytes()));
  const auto fill = [&] { reader.read({{0, start.size(), start.data()}}); };
  fill();
  start.resize(safetensors_header_bytes(start, reader.bytes()));
  fill();
  return parse_safetensors_header(start, reader.bytes(), file);
}

SafetensorsHeader read_safetensors_header(const std::string& file) {
  return read_safetensors_header(ChunkReader(file), file);
}

int64_t StoredTensor::count() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

ChunkReader::Range StoredTensor::range(at::Tensor& to, int64_t first) const {
  const uint64_t from = begin + static_cast<uint64_t>(first) * to.element_size();
  return {from, from + to.nbytes(), to.nbytes() > 0 ? to.mutable_data_ptr() : nullptr};
}

std::vector<StoredTensor> read_safetensors_index(const ChunkReader& reader,
                                                 const std::string& file) {
  const SafetensorsHeader header = read_safetensors_header(reader, file);
  std::vector<StoredTensor> all;
  for (const SafetensorsEntry& entry : header.entries)
    all.push_back(
        {entry.name, entry.shape, scalar_type_of(entry.dtype), header.data + entry.begin});
  return all;
}

void check_bools(const at::Tensor& values, const std::string& name, uint64_t begin,
                 const std::string& file) {
  if (values.scalar_type() != at::kBool || values.numel() == 0) return;
  const auto* data = static_cast<const uint8_t*>(values.const_data_ptr());
  const uint8_t* end = data + values.nbytes();
  const uint8_t* bad = std::find_if(data, end, [](uint8_t byte) { return byte > 1; });
  if (bad == end) return;
  throw Error(Exit::usage,
              fmt::format("{} @ offset {}", file, begin + static_cast<uint64_t>(bad - data)),
              fmt::format("tensor '{}': byte {} in a BOOL tensor (0 or 1 expected)", name, *bad));
}

NamedTensors read_safetensors(const std::string& file) {
  const ChunkReader reader(file);
  const std::vector<StoredTensor> index = read_safetensors_index(reader, file);
  NamedTensors tensors;
  std::vector<ChunkReader::Range> ranges;
  for (const StoredTensor& stored : index) {
    at::Tensor& tensor = tensors[stored.name] = at::empty(stored.shape, stored.type);
    ranges.push_back(stored.range(tensor, 0));
  }
  reader.read(std::move(ranges));
  for (const StoredTensor& stored : index)
    check_bools(tensors.at(stored.name), stored.name, stored.begin, file);
  return tensors;
}

}  // namespace bv

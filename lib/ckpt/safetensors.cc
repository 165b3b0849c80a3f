#include "lib/ckpt/safetensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "lib/ckpt/cursor.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/safetensors_header.h"
#include "lib/device/dtype_name.h"
#include "lib/util/error.h"
#include "lib/util/mapped_file.h"

namespace bv {

namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kTypes = {{
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
  for (const auto& [text, type] : kTypes) {
    if (tensor.scalar_type() == type) return text;
  }
  throw Error(Exit::internal, "internal",
              fmt::format("tensor '{}' has a type safetensors can't hold: {}", name,
                          dtype_name(tensor.scalar_type())));
}

at::ScalarType type_of(const std::string& text) {
  for (const auto& [known, type] : kTypes) {
    if (text == known) return type;
  }
  throw Error(Exit::internal, "internal", "dtype without a type: " + text);
}

// A bool with any byte other than 0 and 1 is undefined behaviour.
void check_bools(const uint8_t* data, const SafetensorsEntry& entry, uint64_t offset,
                 const std::string& file) {
  const uint64_t bytes = entry.end - entry.begin;
  const uint8_t* bad = std::find_if(data, data + bytes, [](uint8_t byte) { return byte > 1; });
  if (bad == data + bytes) return;
  throw Error(
      Exit::usage, fmt::format("{} @ offset {}", file, offset + (bad - data)),
      fmt::format("tensor '{}': byte {} in a BOOL tensor (0 or 1 expected)", entry.name, *bad));
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

void write_safetensors(const std::string& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  FileWriter out(file);
  write_safetensors(out, tensors, metadata);
  out.finish();
}

NamedTensors read_safetensors(const std::string& file) {
  const auto mapping = std::make_shared<MappedFile>(file);
  const SafetensorsHeader header = parse_safetensors_header(mapping->bytes(), file);
  NamedTensors tensors;
  for (const SafetensorsEntry& entry : header.entries) {
    const uint64_t offset = header.data + entry.begin;
    const uint8_t* data = mapping->bytes().data() + offset;
    const at::ScalarType type = type_of(entry.dtype);
    if (type == at::kBool) check_bools(data, entry, offset, file);
    at::Tensor& tensor = tensors[entry.name];
    if (entry.begin < entry.end && offset % safetensors_element_bytes(entry.dtype) == 0) {
      tensor = at::from_blob(
          const_cast<uint8_t*>(data), entry.shape, [mapping](void*) {}, type);
    } else {
      tensor = at::empty(entry.shape, type);
      if (entry.begin < entry.end) std::memcpy(tensor.mutable_data_ptr(), data, tensor.nbytes());
    }
  }
  return tensors;
}

}  // namespace bv

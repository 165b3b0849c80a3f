#include "lib/input/sources/common/records/tf_example.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>

#include "lib/input/ops/common/text_tensor.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/protobuf_reader.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using protobuf::Reader;
using protobuf::WireType;

std::string_view chars_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls each(bits) for every number of a FloatList or an Int64List. The numbers are packed into one
// field, or each has its own field; a message may mix both.
template <WireType kOne, class Each>
void for_each_number(std::span<const uint8_t> list, Each each) {
  for (Reader message(list); message.next();) {
    if (message.field() != 1) continue;
    if (message.type() == kOne) {
      each(message.bits());
    } else if (message.type() == WireType::bytes) {
      std::span<const uint8_t> packed = message.bytes();
      if constexpr (kOne == WireType::varint) {
        while (!packed.empty()) each(protobuf::take_varint(packed));
      } else {
        if (packed.size() % 4 != 0)
          throw Error::bare(Exit::data, "not a valid tf.train.Example: a list of float32 is cut");
        for (size_t i = 0; i < packed.size(); i += 4) {
          each(uint64_t{packed[i]} | uint64_t{packed[i + 1]} << 8 | uint64_t{packed[i + 2]} << 16 |
               uint64_t{packed[i + 3]} << 24);
        }
      }
    }
  }
}

// Returns the numbers as a tensor of the given type. They are read twice, because their count is
// not stored.
template <WireType kOne, class Value, class Convert>
at::Tensor numbers_in(std::span<const uint8_t> list, at::ScalarType type, Convert convert) {
  int64_t count = 0;
  for_each_number<kOne>(list, [&](uint64_t) { ++count; });
  at::Tensor values = at::empty({count}, type);
  Value* out = values.mutable_data_ptr<Value>();
  for_each_number<kOne>(list, [&](uint64_t bits) { *out++ = convert(bits); });
  return values;
}

}  // namespace

TfFeature::TfFeature(std::span<const uint8_t> serialized) {
  for (Reader message(serialized); message.next();) {
    if (message.type() != WireType::bytes || message.field() > 3) continue;
    kind_ = static_cast<Kind>(message.field());  // a oneof: the last one counts
    list_ = message.bytes();
  }
}

at::Tensor texts_of(const std::vector<std::span<const uint8_t>>& values) {
  size_t longest = 0;
  for (const std::span<const uint8_t> value : values) longest = std::max(longest, value.size());
  if (longest > 0 && values.size() > limits::kPaddedTextBytes / longest) {
    throw Error::bare(Exit::data,
                      "holds strings that need more than 64 MiB when padded to equal lengths");
  }
  std::vector<std::string> texts;
  for (const std::span<const uint8_t> value : values) texts.emplace_back(chars_of(value));
  return text_tensor(texts);
}

std::string_view kind_text(TfFeature::Kind kind) {
  switch (kind) {
    case TfFeature::Kind::bytes:
      return "byte strings";
    case TfFeature::Kind::floats:
      return "float32 numbers";
    case TfFeature::Kind::integers:
      return "integers";
    case TfFeature::Kind::none:
      break;
  }
  return "nothing";
}

void TfFeature::expect(Kind kind) const {
  if (kind_ == kind || kind_ == Kind::none) return;
  throw Error::bare(Exit::data,
                    fmt::format("holds {}, expected {}", kind_text(kind_), kind_text(kind)));
}

std::vector<std::span<const uint8_t>> TfFeature::bytes() const {
  expect(Kind::bytes);
  std::vector<std::span<const uint8_t>> values;
  for (Reader message(list_); message.next();) {
    if (message.field() != 1 || message.type() != WireType::bytes) continue;
    if (values.size() == limits::kExampleTexts) {
      throw Error::bare(Exit::data, fmt::format("holds more than {} byte strings",
                                                human_count(limits::kExampleTexts)));
    }
    values.push_back(message.bytes());
  }
  return values;
}

at::Tensor TfFeature::floats() const {
  expect(Kind::floats);
  return numbers_in<WireType::fixed32, float>(list_, at::kFloat, [](uint64_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  });
}

at::Tensor TfFeature::integers() const {
  expect(Kind::integers);
  return numbers_in<WireType::varint, int64_t>(
      list_, at::kLong, [](uint64_t bits) { return static_cast<int64_t>(bits); });
}

TfExample::TfExample(std::span<const uint8_t> serialized) {
  // Example { Features features = 1; }, Features { map<string, Feature> feature = 1; }: an entry of
  // the map is a message with the key in field 1 and the value in field 2.
  for (Reader example(serialized); example.next();) {
    if (example.field() != 1 || example.type() != WireType::bytes) continue;
    for (Reader map(example.bytes()); map.next();) {
      if (map.field() != 1 || map.type() != WireType::bytes) continue;
      std::string_view name;
      std::span<const uint8_t> value;
      for (Reader entry(map.bytes()); entry.next();) {
        if (entry.type() != WireType::bytes) continue;
        if (entry.field() == 1) name = chars_of(entry.bytes());
        if (entry.field() == 2) value = entry.bytes();
      }
      if (features_.size() == limits::kExampleFeatures) {
        throw Error::bare(Exit::data, fmt::format("the record has more than {} features",
                                                  human_count(limits::kExampleFeatures)));
      }
      features_.emplace_back(name, TfFeature(value));
    }
  }
  // The last of equal names counts, as in protobuf's own maps.
  std::stable_sort(features_.begin(), features_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto repeated =
      std::unique(features_.rbegin(), features_.rend(),
                  [](const auto& a, const auto& b) { return a.first == b.first; });
  features_.erase(features_.begin(), repeated.base());
}

const TfFeature* TfExample::find(std::string_view name) const {
  const auto found = std::lower_bound(
      features_.begin(), features_.end(), name,
      [](const auto& feature, std::string_view wanted) { return feature.first < wanted; });
  return found != features_.end() && found->first == name ? &found->second : nullptr;
}

}  // namespace bv

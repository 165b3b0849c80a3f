#include "lib/input/sources/common/webdataset/webdataset_values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/ckpt/formats/npy.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/skip_hint.h"
#include "lib/util/error.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using nlohmann::json;

template <class... Args>
[[noreturn]] void fail_value(fmt::format_string<Args...> format, Args&&... args) {
  throw Error::bare(Exit::data, fmt::format(format, std::forward<Args>(args)...));
}

float to_float(const json& value) {
  const auto number = value.get<double>();
  if (std::abs(number) > std::numeric_limits<float>::max())
    fail_value("{} is too large for float32", value.dump());
  return static_cast<float>(number);
}

int64_t to_integer(const json& value) {
  if (value.is_number_float()) fail_value("{} is not an integer", value.dump());
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    fail_value("{} is larger than 2^63 - 1", value.dump());
  return value.get<int64_t>();
}

at::ScalarType dtype_of(const NpyHeader& header, std::string_view extension) {
  constexpr std::pair<std::string_view, at::ScalarType> kTypes[] = {
      {"f2", at::kHalf}, {"f4", at::kFloat}, {"f8", at::kDouble},
      {"i1", at::kChar}, {"i2", at::kShort}, {"i4", at::kInt},
      {"i8", at::kLong}, {"u1", at::kByte},  {"b1", at::kBool}};
  for (const auto& [name, dtype] : kTypes) {
    if (header.type == name) return dtype;
  }
  fail_value("'{}' is an array of type '{}', expected float, signed integer, uint8 or bool",
             extension, header.type);
}

const char* type_name(JsonType type) {
  constexpr const char* kNames[] = {"a number", "true or false", "a string", "a list of numbers"};
  return kNames[static_cast<int>(type)];
}

std::span<const uint8_t> bytes_in(const at::Tensor& content) {
  return {content.const_data_ptr<uint8_t>(), static_cast<size_t>(content.numel())};
}

std::string_view text_in(const at::Tensor& content) {
  const std::span<const uint8_t> bytes = bytes_in(content);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the value of a feature in the parsed member `extension`.
const json& value_in(const json& content, const PlannedFeature& feature, std::string_view extension,
                     bool may_be_left_out) {
  const std::string_view hint = may_be_left_out ? kLeaveOutHint : "";
  const auto value = content.find(feature.json_key);
  if (value == content.end())
    fail_value("'{}' has no key '{}'{}", extension, feature.json_key, hint);
  if (json_type(*value) == feature.json) return *value;
  fail_value("'{}': '{}' is {}, but {} in the first sample{}", extension, feature.json_key,
             json_type_text(*value), type_name(feature.json), hint);
}

at::Tensor whole_member(const PlannedMember& member, const at::Tensor& content) {
  if (member.kind == MemberKind::image) return content;
  if (member.kind == MemberKind::array) return npy_tensor(member.extension, bytes_in(content));
  const std::string_view text = text_in(content);
  if (member.kind == MemberKind::number)
    return at::full({}, parse_number(member.extension, text), at::kLong);
  if (!valid_utf8(text)) fail_value("'{}' is not UTF-8", member.extension);
  return text_tensor(text);
}

}  // namespace

void check_json_size(std::string_view extension, uint64_t size) {
  if (size > limits::kDataJsonBytes)
    fail_value("'{}' has {} bytes, more than the limit of {} MiB", extension, size,
               limits::kDataJsonBytes >> 20);
}

json parse_json(std::string_view extension, std::string_view text) {
  if (json_nesting(text) > limits::kJsonNesting)
    fail_value("\'{}\' is nested more than {} deep", extension, limits::kJsonNesting);
  json value;
  try {
    value = json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    fail_value("'{}' is not valid JSON: see its byte {}", extension, error.byte);
  } catch (const json::exception&) {
    fail_value("'{}' holds a number that is too large", extension);
  }
  if (!value.is_object()) fail_value("'{}' is not a JSON object {{...}}", extension);
  return value;
}

std::optional<JsonType> json_type(const json& value) {
  if (value.is_number()) return JsonType::number;
  if (value.is_boolean()) return JsonType::boolean;
  if (value.is_string()) return JsonType::text;
  if (value.is_array() &&
      std::all_of(value.begin(), value.end(), [](const json& each) { return each.is_number(); }))
    return JsonType::numbers;
  return std::nullopt;
}

std::string json_type_text(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_object()) return "an object";
  const std::optional<JsonType> type = json_type(value);
  if (!type) return "a list that holds more than numbers";
  return type_name(*type);
}

bool has_fraction(const json& value) {
  if (!value.is_array()) return value.is_number_float();
  return std::any_of(value.begin(), value.end(),
                     [](const json& each) { return each.is_number_float(); });
}

at::Tensor json_tensor(const json& value, bool fractional) {
  if (value.is_string()) return text_tensor(value.get<std::string>());
  if (value.is_boolean()) return at::full({}, value.get<bool>(), at::kBool);
  if (value.is_number()) {
    return fractional ? at::full({}, to_float(value), at::kFloat)
                      : at::full({}, to_integer(value), at::kLong);
  }
  at::Tensor all =
      at::empty({static_cast<int64_t>(value.size())}, fractional ? at::kFloat : at::kLong);
  for (size_t i = 0; i < value.size(); ++i) {
    if (fractional)
      all.mutable_data_ptr<float>()[i] = to_float(value[i]);
    else
      all.mutable_data_ptr<int64_t>()[i] = to_integer(value[i]);
  }
  return all;
}

int64_t parse_number(std::string_view extension, std::string_view text) {
  const std::string digits = trim(text);
  const bool minus = digits.starts_with('-');
  const auto count = parse_count<int64_t>(std::string_view(digits).substr(minus ? 1 : 0));
  if (!count) fail_value("'{}' is '{}', not an integer", extension, printable(digits));
  return minus ? -*count : *count;
}

at::Tensor npy_tensor(std::string_view extension, std::span<const uint8_t> npy) {
  const NpyHeader header = parse_npy_header(npy, [&](size_t position, const std::string& message) {
    return Error::bare(Exit::data, fmt::format("'{}', byte {}: {}", extension, position, message));
  });
  const at::ScalarType dtype = dtype_of(header, extension);
  if (header.big_endian && header.width > 1) fail_value("'{}' is a big-endian array", extension);
  if (header.fortran_order && header.shape.size() > 1)
    fail_value("'{}' is in Fortran order: save it with np.ascontiguousarray", extension);
  const std::span<const uint8_t> values = npy.subspan(header.data);
  if (dtype == at::kBool &&
      std::any_of(values.begin(), values.end(), [](uint8_t byte) { return byte > 1; }))
    fail_value("'{}' has a bool that is neither 0 nor 1", extension);
  at::Tensor array = at::empty(header.shape, dtype);
  if (!values.empty()) std::memcpy(array.mutable_data_ptr(), values.data(), values.size());
  return array;
}

std::optional<ClassLabel> scan_json(const SamplePlan& plan, size_t member, std::string_view text,
                                    const ClassNumbers& classes, std::vector<uint8_t>& fractional,
                                    bool similar) {
  const std::string& extension = plan.members[member].extension;
  check_json_size(extension, text.size());
  const json content = parse_json(extension, text);
  for (size_t i = 0; i < plan.features.size(); ++i) {
    const PlannedFeature& feature = plan.features[i];
    if (feature.member != member || feature.json_key.empty()) continue;
    const json& value = value_in(content, feature, extension, !plan.chosen);
    const bool fraction = has_fraction(value);
    try {
      json_tensor(value, fraction);
    } catch (const Error& error) {
      fail_value("'{}': '{}': {}", extension, feature.json_key, error.message());
    }
    fractional[i] |= static_cast<uint8_t>(fraction);
  }
  if (!plan.label || plan.label->member != member) return std::nullopt;
  const json& value = value_in(content, *plan.label, extension, /*may_be_left_out=*/false);
  return classes.label_of(value.is_string() ? value.get<std::string>() : value.dump(), similar);
}

Example planned_features(const SamplePlan& plan, std::span<const at::Tensor> contents,
                         std::span<const uint8_t> fractional) {
  std::vector<std::optional<json>> parsed(plan.members.size());
  Example example;
  for (size_t i = 0; i < plan.features.size(); ++i) {
    const PlannedFeature& feature = plan.features[i];
    const PlannedMember& member = plan.members[feature.member];
    const at::Tensor& content = contents[feature.member];
    if (feature.json_key.empty()) {
      example[feature.name] = whole_member(member, content);
      continue;
    }
    std::optional<json>& document = parsed[feature.member];
    if (!document) document = parse_json(member.extension, text_in(content));
    const json& value = value_in(*document, feature, member.extension, !plan.chosen);
    example[feature.name] = json_tensor(value, fractional[i] != 0);
  }
  return example;
}

}  // namespace bv

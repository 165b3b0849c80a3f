#include "lib/input/sources/common/records/tfds_features.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/input/image/decode.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

using nlohmann::json;
using Kind = TfdsFeature::Kind;

// NumPy's type names. Tensors have no unsigned types beyond uint8: these become the next larger
// signed type, and uint64 keeps its bits, as TFDS stores it.
std::optional<at::ScalarType> type_of_numpy(const std::string& name) {
  static const std::map<std::string, at::ScalarType> types = {
      {"bool", at::kBool},        {"uint8", at::kByte},    {"int8", at::kChar},
      {"int16", at::kShort},      {"uint16", at::kInt},    {"int32", at::kInt},
      {"uint32", at::kLong},      {"int64", at::kLong},    {"uint64", at::kLong},
      {"float16", at::kHalf},     {"float32", at::kFloat}, {"float64", at::kDouble},
      {"bfloat16", at::kBFloat16}};
  const auto found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

// Reads features.json.
class FeaturesReader {
 public:
  FeaturesReader(std::string folder, const std::set<std::string>& encoded)
      : folder_(std::move(folder)), file_(folder_ + "/features.json"), encoded_(encoded) {}

  TfdsFeatures read() {
    const std::string text = read_file(file_, limits::kDataJsonBytes);
    if (json_nesting(text) > limits::kJsonNesting)
      throw Error(Exit::usage, file_,
                  fmt::format("is nested more than {} deep", limits::kJsonNesting));
    const json root = json::parse(text, nullptr, false);
    if (root.is_discarded()) refuse_wrong_file(text, file_);
    if (root.is_discarded()) throw Error(Exit::usage, file_, "is not valid JSON");
    add(root, "", {}, 0);
    if (found_.all.empty()) throw Error(Exit::usage, file_, "describes no feature that is read");
    return std::move(found_);
  }

 private:
  [[noreturn]] void fail(const std::string& name, std::string_view why) const {
    throw Error(Exit::usage, file_,
                name.empty() ? std::string(why) : fmt::format("feature '{}': {}", name, why));
  }
  void leave_out(const std::string& name, std::string_view why) {
    found_.remarks.push_back(fmt::format("feature '{}' is left out: {}", name, why));
  }

  // Adds the feature that `node` describes and its subfeatures. `outer`: from enclosing sequences.
  void add(const json& node, const std::string& name, const TfdsFeature& outer, int depth) {
    if (depth > limits::kTfdsNesting) fail(name, "is nested too deep");
    if (!node.is_object()) fail(name, "is not an object");
    const std::string kind = class_name(node);
    if (const json* inner = member(node, "featuresDict")) {
      const json* features = member(*inner, "features");
      if (!features) fail(name, "'featuresDict' has no 'features'");
      for (const auto& [key, value] : features->items())
        add(value, inner_name(name, key), outer, depth + 1);
      return;
    }
    if (const json* sequence = member(node, "sequence")) {
      const json* feature = member(*sequence, "feature");
      if (!feature) fail(name, "'sequence' has no 'feature'");
      if (outer.sequence) return leave_out(name, "it is a list of lists");
      TfdsFeature list = outer;
      list.sequence = true;
      add(*feature, name, list, depth + 1);
      return;
    }
    TfdsFeature feature = outer;
    feature.name = name;
    add_leaf(node, kind, std::move(feature));
  }

  // Returns the name of the feature `key` of the dictionary `name`, which is empty for the root.
  std::string inner_name(const std::string& name, const std::string& key) const {
    const size_t size = name.empty() ? key.size() : name.size() + 1 + key.size();
    if (size > limits::kJsonKeyBytes) {
      fail("", fmt::format("the name of a feature has {} bytes, more than {}", size,
                           limits::kJsonKeyBytes));
    }
    return name.empty() ? key : name + "/" + key;
  }

  void add_leaf(const json& node, const std::string& kind, TfdsFeature feature) {
    if (const json* image = first_member(node, {"image", "labeledImage"})) {
      if (feature.sequence) return leave_out(feature.name, "it is a list of images");
      feature.kind = encoded_.contains(feature.name) ? Kind::encoded : Kind::image;
      feature.shape = shape_of(feature.name, *image);
      if (feature.shape.empty()) feature.shape = {-1, -1, 3};
      const int64_t channels = feature.shape.back();
      const bool decodes = channels == -1 || channels == 1 || channels == 3;
      if (feature.kind == TfdsFeature::Kind::image && !decodes)
        return leave_out(feature.name, fmt::format("it is an image of {} channels", channels));
      // Only 8-bit images are decoded: of uint16 the lower half would be lost. TFDS stores a
      // float32 image as four channels of 8 bits.
      const std::string type = text_if_any(*image, "dtype");
      const bool eight_bits = type.empty() || type == "uint8";
      const bool for_an_op = feature.kind == Kind::encoded && type == "uint16";
      if (!eight_bits && !for_an_op)
        return leave_out(feature.name, fmt::format("it is an image of {}", type));
    } else if (member(node, "text")) {
      feature.kind = Kind::text;
    } else if (member(node, "classLabel")) {
      // Only these are used. Many features may share one large file of names.
      if (feature.name == "label") feature.class_names = class_names();
    } else if (const json* tensor = first_member(node, {"tensor", "boundingBox", "scalar"})) {
      const std::string type = text_if_any(*tensor, "dtype");
      const json* encoding = member(*tensor, "encoding", json::value_t::string);
      feature.raw = encoding && *encoding == "bytes";
      if (encoding && *encoding == "zlib")
        return leave_out(feature.name, "its numbers are compressed");
      feature.shape = shape_of(feature.name, *tensor);
      if (type == "string" || type == "object") {
        feature.kind = Kind::text;
        if (feature.shape.size() + feature.sequence > 1)
          return leave_out(feature.name, "it is a table of strings");
      } else if (const std::optional<at::ScalarType> dtype_found = type_of_numpy(type)) {
        feature.dtype = *dtype_found;
        if (feature.raw && (type == "uint16" || type == "uint32"))
          return leave_out(feature.name, fmt::format("bytes of {}", type));
      } else {
        return leave_out(feature.name, fmt::format("it has the type '{}'", type));
      }
      if (std::count(feature.shape.begin(), feature.shape.end(), -1) + feature.sequence > 1)
        return leave_out(feature.name, "two of its dimensions vary");
    } else {
      return leave_out(feature.name, fmt::format("{} is not read", kind));
    }
    found_.all.push_back(std::move(feature));
  }

  // Returns the last word of the Python class: "Image".
  static std::string class_name(const json& node) {
    const json* name = member(node, "pythonClassName", json::value_t::string);
    return name ? split(name->get<std::string>(), '.').back() : "a feature without a class";
  }
  static const json* member(const json& node, const char* key,
                            json::value_t type = json::value_t::object) {
    if (!node.is_object()) return nullptr;
    const auto found = node.find(key);
    return found != node.end() && found->type() == type ? &*found : nullptr;
  }
  // Returns the text of member `key` of an object, "" if there is none.
  static std::string text_if_any(const json& node, const char* key) {
    const json* text = member(node, key, json::value_t::string);
    return text ? text->get<std::string>() : "";
  }
  static const json* first_member(const json& node, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (const json* found = member(node, key)) return found;
    }
    return nullptr;
  }

  std::vector<int64_t> shape_of(const std::string& name, const json& node) const {
    std::vector<int64_t> shape;
    const json* object = member(node, "shape");
    const json* dimensions = object ? member(*object, "dimensions", json::value_t::array) : nullptr;
    if (!dimensions) return shape;
    if (dimensions->size() > limits::kTfdsDimensions)
      fail(name, fmt::format("has more than {} dimensions", limits::kTfdsDimensions));
    for (const json& size : *dimensions) {
      const std::string text = size.is_string() ? size.get<std::string>() : size.dump();
      const std::optional<int64_t> count = parse_count(text);
      if (!count && text != "-1") fail(name, fmt::format("'{}' is not a size", text));
      shape.push_back(count.value_or(-1));
    }
    return shape;
  }

  // Reads the names of the feature `label` that TFDS stores next to the data.
  std::vector<std::string> class_names() const {
    const std::string file = folder_ + "/label.labels.txt";
    const std::optional<std::string> text = read_file_if_any(file, limits::kTfdsNamesBytes);
    if (!text) return {};
    if (!valid_utf8(*text)) throw Error(Exit::usage, file, "is not UTF-8 text: save it as UTF-8");
    std::vector<std::string> names = split(without_bom(*text), '\n');
    while (!names.empty() && trim(names.back()).empty()) names.pop_back();
    for (std::string& each : names) each = trim(each);
    return names;
  }

  const std::string folder_, file_;
  const std::set<std::string>& encoded_;
  TfdsFeatures found_;
};

[[noreturn]] void fail_feature(std::string_view why) { throw Error::bare(Exit::data, why); }

// Returns the part of `record` to which `bytes` points.
at::Tensor part_of(const at::Tensor& record, std::span<const uint8_t> bytes) {
  const int64_t begin = bytes.data() - record.const_data_ptr<uint8_t>();
  return record.slice(0, begin, begin + std::ssize(bytes));
}

// Returns the only value of a bytes feature.
std::span<const uint8_t> one(const std::vector<std::span<const uint8_t>>& values) {
  if (values.size() == 1) return values[0];
  fail_feature(fmt::format("holds {} values, expected one", values.size()));
}

// Returns the shape of `count` numbers. Throws if they don't fill the shape.
std::vector<int64_t> fitted(const TfdsFeature& feature, int64_t count) {
  std::vector<int64_t> shape = feature.shape;
  if (feature.sequence) shape.insert(shape.begin(), -1);
  int64_t known = 1, unknown = 0;
  for (const int64_t size : shape) {
    if (size < 0) ++unknown;
    if (size > 0 && __builtin_mul_overflow(known, size, &known))
      fail_feature("its shape is too large");
    if (size == 0) known = 0;
  }
  const bool fits = unknown == 0   ? count == known
                    : unknown == 1 ? (known > 0 && count % known == 0) || count == 0
                                   : false;
  if (!fits)
    fail_feature(
        fmt::format("holds {} numbers, which do not make the shape {}", count, shape_text(shape)));
  for (int64_t& size : shape) {
    if (size < 0) size = known > 0 ? count / known : 0;
  }
  return shape;
}

at::Tensor feature_numbers(const TfdsFeature& feature, const TfFeature& value) {
  at::Tensor all;
  if (feature.raw) {
    const std::span<const uint8_t> bytes = one(value.bytes());
    const auto width = static_cast<int64_t>(c10::elementSize(feature.dtype));
    if (std::ssize(bytes) % width != 0) fail_feature(fmt::format("holds {} bytes", bytes.size()));
    all = at::empty({std::ssize(bytes) / width}, feature.dtype);
    if (!bytes.empty()) std::memcpy(all.mutable_data_ptr(), bytes.data(), bytes.size());
    if (feature.dtype == at::kBool &&
        std::any_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte > 1; }))
      fail_feature("holds a bool that is neither 0 nor 1");
  } else if (at::isFloatingType(feature.dtype)) {
    all = value.floats().to(feature.dtype);
  } else {
    const at::Tensor wide = value.integers();
    all = wide.to(feature.dtype);
    if (feature.dtype != at::kLong && !all.to(at::kLong).equal(wide))
      fail_feature("holds a number that its type cannot hold");
  }
  return all.reshape(fitted(feature, all.numel()));
}

at::Tensor texts(const TfdsFeature& feature, const TfFeature& value) {
  const std::vector<std::span<const uint8_t>> all = value.bytes();
  if (feature.sequence || !feature.shape.empty()) return texts_of(all);
  const std::span<const uint8_t> text = one(all);
  return text_tensor(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()));
}

}  // namespace

at::Tensor TfdsFeature::read(const TfExample& example, const at::Tensor& record) const {
  try {
    const TfFeature* value = example.find(name);
    static const TfFeature nothing;
    if (!value || value->kind() == TfFeature::Kind::none) {
      if (!sequence) fail_feature("is missing in this record");
      value = &nothing;
    }
    switch (kind) {
      case Kind::encoded:
        return part_of(record, one(value->bytes()));
      case Kind::image:
        return decode_image(one(value->bytes()),
                            shape.back() > 0 ? static_cast<int>(shape.back()) : 3,
                            /*precise=*/false);
      case Kind::text:
        return texts(*this, *value);
      case Kind::numbers:
        return feature_numbers(*this, *value);
    }
    return {};
  } catch (const Error& error) {
    throw Error::bare(error.code(), fmt::format("feature '{}' {}", name, error.message()));
  }
}

const TfdsFeature* TfdsFeatures::find(std::string_view name) const {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const TfdsFeature& feature) { return feature.name == name; });
  return found == all.end() ? nullptr : &*found;
}

TfdsFeatures read_tfds_features(const std::string& folder, const std::set<std::string>& encoded) {
  return FeaturesReader(folder, encoded).read();
}

}  // namespace bv

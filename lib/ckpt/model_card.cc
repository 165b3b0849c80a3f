#include "lib/ckpt/model_card.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/util/error.h"
#include "lib/util/json_text.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadataPrefix = "bvtrain.";

// Parses the values of one file's metadata, and reports what is wrong with them.
class CardReader {
 public:
  CardReader(const Metadata& metadata, const std::string& file)
      : metadata_(metadata), file_(file) {}

  bool has(const std::string& key) const { return metadata_.contains(kMetadataPrefix + key); }

  const std::string& text(const std::string& key) const {
    const auto found = metadata_.find(kMetadataPrefix + key);
    if (found == metadata_.end()) {
      throw Error(Exit::usage, file_,
                  fmt::format("its metadata has no '{}{}'; export the file again, or give --config "
                              "with the keys of the model",
                              kMetadataPrefix, key));
    }
    return found->second;
  }
  std::string word(const std::string& key, const std::vector<std::string>& words) const {
    const std::string& value = text(key);
    if (std::find(words.begin(), words.end(), value) == words.end())
      refuse(key, join(words, " or "));
    return value;
  }
  int64_t number(const std::string& key) const {
    const auto value = parse_count(text(key));
    if (!value) refuse(key, "an integer");
    return *value;
  }
  Json json(const std::string& key) const {
    bool deep = false;
    Json value = Json::parse(
        text(key),
        [&](int depth, Json::parse_event_t, Json&) {
          deep |= depth > limits::kModelCardNesting;
          return !deep;
        },
        /*allow_exceptions=*/false);
    if (deep || value.is_discarded()) return {};
    return value;
  }
  [[noreturn]] void fail(const std::string& key, const std::string& why) const {
    throw Error(Exit::usage, file_,
                fmt::format("its metadata '{}{}' {}", kMetadataPrefix, key, why));
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const {
    constexpr size_t kShown = 60;
    const std::string& value = text(key);
    const std::string shown = value.size() > kShown ? value.substr(0, kShown) + "..." : value;
    fail(key, fmt::format("is {}, expected {}", json_string(shown), expected));
  }

 private:
  const Metadata& metadata_;
  const std::string& file_;
};

std::string read_arguments(const CardReader& reader) {
  if (reader.text("model").size() > limits::kModelCardBytes)
    reader.fail("model", fmt::format("is longer than {} bytes", limits::kModelCardBytes));
  const Json model = reader.json("model");
  if (!model.is_object()) reader.refuse("model", "a JSON object");
  return model.dump();
}

std::vector<std::string> read_class_names(const CardReader& reader, int64_t num_classes) {
  const Json list = reader.json("class_names");
  const bool strings =
      std::all_of(list.begin(), list.end(), [](const Json& name) { return name.is_string(); });
  if (!list.is_array() || !strings) reader.refuse("class_names", "a JSON list of strings");
  if (std::ssize(list) != num_classes) {
    reader.fail("class_names", fmt::format("has {} names, but '{}num_classes' is {}", list.size(),
                                           kMetadataPrefix, num_classes));
  }
  return list.get<std::vector<std::string>>();
}

std::vector<int64_t> read_image(const CardReader& reader) {
  const Json list = reader.json("image");
  const bool sizes =
      list.is_array() && list.size() == 3 &&
      std::all_of(list.begin(), list.end(), [](const Json& side) {
        return side.is_number_unsigned() && side > 0 && side <= limits::kModelImageSide;
      });
  if (!sizes) reader.refuse("image", "[height, width, channels]");
  return list.get<std::vector<int64_t>>();
}

std::vector<double> read_image_values(const CardReader& reader) {
  const Json list = reader.json("image_values");
  const bool numbers =
      list.is_array() && list.size() == 2 &&
      std::all_of(list.begin(), list.end(), [](const Json& value) { return value.is_number(); });
  if (!numbers || list[0] > list[1]) reader.refuse("image_values", "[min, max]");
  return list.get<std::vector<double>>();
}

}  // namespace

Metadata to_metadata(const ModelCard& card) {
  Metadata metadata;
  const auto put = [&](const char* key, std::string value) {
    metadata[std::string(kMetadataPrefix) + key] = std::move(value);
  };
  put("version", card.version);
  put("model_name", card.model_name);
  put("model", card.model);
  put("num_classes", fmt::format("{}", card.num_classes));
  put("loss", card.loss);
  put("ema", card.ema ? "true" : "false");
  if (card.multilabel) put("multilabel", "true");
  if (!card.class_names.empty()) put("class_names", json_text(Json(card.class_names)));
  if (card.pp) put("pp", *card.pp);
  if (!card.image.empty()) put("image", json_text(Json(card.image)));
  if (!card.image_values.empty()) put("image_values", json_text(Json(card.image_values)));
  if (!card.precision.empty()) put("precision", card.precision);
  if (card.max_pixels) put("max_pixels", fmt::format("{}", *card.max_pixels));
  if (card.step) put("step", fmt::format("{}", *card.step));
  return metadata;
}

std::optional<ModelCard> parse_model_card(const Metadata& metadata, const std::string& file) {
  const auto first = metadata.lower_bound(kMetadataPrefix);
  if (first == metadata.end() || !first->first.starts_with(kMetadataPrefix)) return std::nullopt;
  const CardReader reader(metadata, file);
  ModelCard card;
  card.version = reader.text("version");
  card.model_name = reader.text("model_name");
  card.model = read_arguments(reader);
  card.num_classes = reader.number("num_classes");
  card.loss = reader.text("loss");
  card.ema = reader.word("ema", {"true", "false"}) == "true";
  if (reader.has("multilabel"))
    card.multilabel = reader.word("multilabel", {"true", "false"}) == "true";
  if (reader.has("class_names")) card.class_names = read_class_names(reader, card.num_classes);
  if (reader.has("pp")) card.pp = reader.text("pp");
  if (reader.has("image")) card.image = read_image(reader);
  if (reader.has("image_values")) card.image_values = read_image_values(reader);
  if (reader.has("precision")) card.precision = reader.word("precision", {"float32", "bf16"});
  if (reader.has("max_pixels")) card.max_pixels = reader.number("max_pixels");
  if (reader.has("step")) card.step = reader.number("step");
  return card;
}

std::string metadata_json(const Metadata& metadata) { return json_text(Json(metadata)); }

Metadata parse_metadata_json(const std::string& text, const std::string& file) {
  bool deep = false;
  const Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        deep |= depth > 1;
        return !deep;
      },
      /*allow_exceptions=*/false);
  const bool strings = json.is_object() && std::all_of(json.begin(), json.end(),
                                                       [](const Json& v) { return v.is_string(); });
  if (deep || !strings) {
    throw Error(Exit::usage, file,
                fmt::format("its array '{}' is not a JSON object of strings", kModelCardArray));
  }
  return json.get<Metadata>();
}

}  // namespace bv

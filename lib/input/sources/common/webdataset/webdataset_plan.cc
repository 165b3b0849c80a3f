#include "lib/input/sources/common/webdataset/webdataset_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <nlohmann/json.hpp>

#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/input/sources/common/webdataset/tar.h"
#include "lib/input/sources/common/webdataset/webdataset_values.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using nlohmann::json;

struct KindOfSuffix {
  MemberKind kind;
  std::vector<std::string_view> suffixes;
};

const std::vector<KindOfSuffix>& kinds() {
  static const std::vector<KindOfSuffix> all = {
      {MemberKind::image, {"jpg", "jpeg", "png", "webp"}},
      {MemberKind::other_image, {"gif", "bmp", "tif", "tiff"}},
      {MemberKind::number, {"cls", "cls2", "class", "count", "index", "inx", "id"}},
      {MemberKind::text, {"txt", "text", "transcript", "caption"}},
      {MemberKind::json, {"json"}},
      {MemberKind::array, {"npy"}}};
  return all;
}

// A value of ChosenFeatures: "left.jpg", or "json.age", whose key is "age".
struct ChosenMember {
  std::string extension, json_key;
};

ChosenMember parse_chosen(std::string_view text) {
  ChosenMember chosen{std::string(text), ""};
  size_t json = text.starts_with("json.") ? 0 : text.find(".json.");
  if (json != std::string_view::npos) {
    json = text.find("json.", json) + 4;
    chosen = {std::string(text.substr(0, json)), std::string(text.substr(json + 1))};
  }
  for (char& c : chosen.extension)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return chosen;
}

// The first sample of a tar, from some offset on.
struct FirstSample {
  std::string where, key;
  std::optional<uint64_t> next;  // where the next sample begins, if there may be one
  std::vector<std::pair<std::string, TarMember>> members;  // by extension

  [[noreturn]] void fail(std::string_view why) const { throw Error(Exit::usage, where, why); }
  std::vector<std::string> extensions() const {
    std::vector<std::string> all;
    for (const auto& [extension, member] : members) all.push_back(extension);
    return all;
  }
  const TarMember* find(std::string_view extension) const {
    for (const auto& [own, member] : members) {
      if (own == extension) return &member;
    }
    return nullptr;
  }
  std::vector<std::string> of_kind(MemberKind kind) const {
    std::vector<std::string> all = extensions();
    std::erase_if(all, [&](const std::string& each) { return member_kind(each) != kind; });
    return all;
  }
};

FirstSample first_sample(TarReader& reader) {
  FirstSample sample;
  // SampleScanner reports a sample that has more members.
  for (TarMember member; sample.members.size() < limits::kSampleMembers && reader.next(member);) {
    const std::optional<SampleName> name = sample_name(member.name);
    if (!name || !member.is_file()) continue;
    if (name->key != sample.key) {
      if (is_sample(sample.extensions())) {
        sample.next = member.begin;
        break;
      }
      sample.members.clear();
      sample.key = name->key;
      sample.where =
          fmt::format("{} @ offset {} (key {})", reader.name(), member.begin, sample.key);
    }
    sample.members.emplace_back(name->extension, member);
  }
  if (!is_sample(sample.extensions())) {
    throw Error(Exit::usage, reader.name(),
                "holds no samples: no member of the tar is called <key>.<extension>");
  }
  return sample;
}

class PlanMaker {
 public:
  // `offset`: where a sample begins. `search`: if the sample lacks something, whether to search the
  // rest of the tar for it.
  PlanMaker(const std::string& file, const ChosenFeatures& chosen, uint64_t offset, bool search)
      : reader_(file, offset), first_(first_sample(reader_)), chosen_(chosen), search_(search) {}

  std::optional<uint64_t> next_sample() const { return first_.next; }

  SamplePlan make() {
    if (chosen_.empty())
      add_usual();
    else
      add_chosen();
    plan_.chosen = !chosen_.empty();
    plan_.sample = first_.where;
    plan_.stored = plan_.members.size();
    if (label_) {
      label_->member = add_member(label_member_);
      plan_.label = label_;
    }
    return std::move(plan_);
  }

 private:
  // Fails because the first sample lacks something. `advice` is for a sample that is whole.
  [[noreturn]] void fail_incomplete(const std::string& why, std::string_view advice) {
    bool scattered = false;
    for (TarMember member; search_ && !scattered && reader_.next(member);) {
      const std::optional<SampleName> name = sample_name(member.name);
      scattered = name && name->key == first_.key;
    }
    first_.fail(why + std::string(scattered ? kScattered : advice));
  }

  size_t add_member(const PlannedMember& member) {
    for (size_t i = 0; i < plan_.members.size(); ++i) {
      if (plan_.members[i].extension == member.extension) return i;
    }
    plan_.members.push_back(member);
    return plan_.members.size() - 1;
  }

  void add(PlannedFeature feature, const PlannedMember& member) {
    const bool class_number =
        feature.name == "label" &&
        (member.kind == MemberKind::number || member.kind == MemberKind::text ||
         (member.kind == MemberKind::json && is_class_number(feature, member)));
    if (class_number) {
      label_ = std::move(feature);
      label_member_ = member;
      return;
    }
    feature.member = add_member(member);
    plan_.features.push_back(std::move(feature));
  }

  // Whether a JSON value is a class number or class name: a number with a fraction is not.
  bool is_class_number(const PlannedFeature& feature, const PlannedMember& member) {
    if (feature.json_key.empty()) return false;
    const json& value = json_of(member.extension).at(feature.json_key);
    return value.is_number_integer() || value.is_string();
  }

  const json& json_of(const std::string& extension) {
    const auto known = json_.find(extension);
    if (known != json_.end()) return known->second;
    const TarMember& member = *first_.find(extension);
    try {
      check_json_size(extension, member.size);
      return json_[extension] = parse_json(extension, reader_.content(member));
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      first_.fail(error.message());
    }
  }

  void add_chosen() {
    for (const auto& [name, text] : chosen_) {
      const auto [extension, json_key] = parse_chosen(text);
      if (!first_.find(extension)) {
        const std::vector<std::string> others = first_.extensions();
        const std::string similar = nearest(extension, others);
        fail_incomplete(
            fmt::format("has no member '{}', which `features` names for `{}`{}; it has {}",
                        extension, name,
                        similar.empty() ? "" : fmt::format(" (did you mean '{}'?)", similar),
                        join(others, ", ")),
            "");
      }
      const PlannedMember member{extension, member_kind(extension)};
      if (json_key.empty())
        add({.name = name}, member);
      else
        add(json_feature(name, member, json_key), member);
    }
    if (plan_.features.empty()) first_.fail("`features` has only the label");
  }

  PlannedFeature json_feature(const std::string& name, const PlannedMember& member,
                              const std::string& key) {
    const json& content = json_of(member.extension);
    const auto value = content.find(key);
    if (value == content.end()) {
      std::vector<std::string> keys;
      for (auto each = content.begin(); each != content.end(); ++each) keys.push_back(each.key());
      const std::string similar = nearest(key, keys);
      first_.fail(
          fmt::format("'{}' has no key '{}'{}", member.extension, key,
                      similar.empty() ? "" : fmt::format(" (did you mean '{}'?)", similar)));
    }
    const std::optional<JsonType> type = json_type(*value);
    if (!type) {
      first_.fail(fmt::format(
          "'{}': '{}' is {}, expected a number, true or false, a string or a list of numbers",
          member.extension, key, json_type_text(*value)));
    }
    return {.name = name, .json_key = key, .json = *type};
  }

  void add_usual() {
    const std::vector<std::string> images = first_.of_kind(MemberKind::image);
    if (images.empty()) {
      fail_incomplete(fmt::format("has no image (jpg, jpeg, png, webp), only {}",
                                  join(first_.extensions(), ", ")),
                      ": `features` can select other members");
    }
    if (images.size() > 1) {
      first_.fail(fmt::format(
          "has several images ({}): choose one, as in `features: {{image: {}, label: cls}}`",
          join(images, ", "), images[0]));
    }
    add_usual_feature("image", {"", MemberKind::image});
    if (first_.find("cls")) add_usual_feature("label", {"cls", MemberKind::number});
    std::vector<std::string> texts = first_.of_kind(MemberKind::text);
    std::erase_if(texts, [](const auto& each) { return each.find('.') != std::string::npos; });
    if (texts.size() > 1) {
      first_.fail(fmt::format(
          "has several texts ({}): choose one, as in `features: {{image: {}, text: {}}}`",
          join(texts, ", "), images[0], texts[0]));
    }
    if (!texts.empty()) add_usual_feature("text", {texts[0], MemberKind::text});
    for (const std::string& extension : first_.of_kind(MemberKind::array)) {
      const size_t dot = extension.rfind('.');
      add_usual_feature(dot == std::string::npos ? extension : extension.substr(0, dot),
                        {extension, MemberKind::array});
    }
    if (first_.find("json")) add_usual_json();
  }

  void add_usual_json() {
    const PlannedMember member{"json", MemberKind::json};
    const json& content = json_of("json");
    if (content.size() > limits::kJsonFeatures) {
      first_.fail(fmt::format("'json' has {} keys, more than {}: select some with `features`",
                              content.size(), limits::kJsonFeatures));
    }
    for (auto each = content.begin(); each != content.end(); ++each) {
      if (each.key().empty() || !json_type(each.value())) continue;
      add_usual_feature(each.key(), member, each.key());
    }
  }

  void add_usual_feature(const std::string& name, const PlannedMember& member,
                         const std::string& json_key = "") {
    const std::string source =
        json_key.empty() ? fmt::format("'{}'", member.text()) : fmt::format("json key '{}'", name);
    const auto [other, fresh] = sources_.emplace(name, source);
    if (!fresh) {
      first_.fail(fmt::format("{} and {} would both become `{}`: choose the members in `features`",
                              other->second, source, printable(name)));
    }
    add(json_key.empty() ? PlannedFeature{.name = name} : json_feature(name, member, json_key),
        member);
  }

  TarReader reader_;
  FirstSample first_;
  const ChosenFeatures& chosen_;
  const bool search_;
  SamplePlan plan_;
  std::optional<PlannedFeature> label_;
  PlannedMember label_member_;
  std::map<std::string, json> json_;            // parsed members by extension
  std::map<std::string, std::string> sources_;  // of the usual features, for messages
};

}  // namespace

std::optional<SampleName> sample_name(std::string_view member) {
  const std::string_view top = member.substr(0, member.find('/'));
  if (top.size() >= 4 && top.starts_with("__") && top.ends_with("__")) return std::nullopt;
  if (top == "__MACOSX" || member.find("/__MACOSX/") != std::string_view::npos) return std::nullopt;
  const size_t slash = member.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = member.find('.', base);
  if (dot == std::string_view::npos || dot == base || dot + 1 == member.size()) return std::nullopt;
  SampleName name{member.substr(0, dot), std::string(member.substr(dot + 1))};
  for (char& c : name.extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

MemberKind member_kind(std::string_view extension) {
  const std::string_view suffix = extension.substr(extension.rfind('.') + 1);
  for (const KindOfSuffix& each : kinds()) {
    if (std::find(each.suffixes.begin(), each.suffixes.end(), suffix) != each.suffixes.end())
      return each.kind;
  }
  return MemberKind::other;
}

bool is_sample(std::span<const std::string> extensions) {
  return std::any_of(extensions.begin(), extensions.end(), [](const std::string& extension) {
    return member_kind(extension) != MemberKind::other;
  });
}

ClassNumbers::ClassNumbers(std::vector<std::string> names) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    if (trim(name) != name || name.empty())
      throw Error(Exit::usage, "",
                  fmt::format("class name {} is empty or has white space around it", i));
    if (!numbers_.emplace(name, i).second)
      throw Error(Exit::usage, "", fmt::format("the class name '{}' appears twice", name));
    const auto number = parse_count<size_t>(name);
    if (number && *number != i && *number < names_.size()) {
      throw Error(Exit::usage, "",
                  fmt::format("the class name '{}' is also the number of another class; its own is "
                              "{}",
                              name, i));
    }
  }
}

ClassLabel ClassNumbers::label_of(std::string_view text, bool similar) const {
  const std::string label = trim(text);
  if (const auto named = numbers_.find(label); named != numbers_.end()) {
    const bool both = parse_count<int64_t>(label) == named->second;
    return {named->second, /*named=*/true, both};
  }
  const bool minus = label.starts_with('-');
  const auto count = parse_count<int64_t>(std::string_view(label).substr(minus ? 1 : 0));
  if (!count && names_.empty() && plain_number(label).kind == PlainNumber::Kind::real) {
    throw Error::bare(
        Exit::data,
        fmt::format("the label '{}' has a fraction, so it is not a class number; store regression "
                    "targets in a json member, always with a decimal point (5.0)",
                    printable(label)));
  }
  if (!count && names_.empty()) {
    throw Error::bare(
        Exit::data,
        fmt::format("the label '{}' is not an integer (`classes` gives the names of classes)",
                    printable(label)));
  }
  if (!count) {
    const std::string name = similar ? nearest(label, names_) : "";
    throw Error::bare(
        Exit::data,
        fmt::format("the label '{}' is none of the {} names in `classes`{}", printable(label),
                    names_.size(), name.empty() ? "" : fmt::format(" (did you mean '{}'?)", name)));
  }
  const int64_t number = minus ? -*count : *count;
  if (!names_.empty() && (number < 0 || number >= std::ssize(names_))) {
    throw Error::bare(Exit::data, fmt::format("the label is {}, but `classes` has {} names", number,
                                              names_.size()));
  }
  return {number, /*named=*/false};
}

std::optional<size_t> SamplePlan::find(std::string_view extension) const {
  for (size_t i = 0; i < members.size(); ++i) {
    const bool only_image = members[i].extension.empty();
    if (only_image ? member_kind(extension) == MemberKind::image
                   : members[i].extension == extension)
      return i;
  }
  return std::nullopt;
}

SamplePlan make_plan(const ChosenFeatures& chosen, const std::string& file, bool keep_broken) {
  constexpr int kMostTried = 20;
  std::exception_ptr problem;  // of the first sample
  std::optional<uint64_t> begin = 0;
  for (int tried = 0; begin && tried < (keep_broken ? kMostTried : 1); ++tried) {
    std::optional<uint64_t> next;
    try {
      PlanMaker maker(file, chosen, *begin, /*search=*/tried == 0);
      next = maker.next_sample();
      return maker.make();
    } catch (const TooManyOpenFiles&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != Exit::usage) throw;
      if (!problem) problem = std::current_exception();
    }
    begin = next;
  }
  std::rethrow_exception(problem);
}

std::string chosen_problem(std::string_view member) {
  const auto [extension, json_key] = parse_chosen(member);
  if (member.empty() || member.starts_with('.') || extension.size() == member.size() - 1)
    return fmt::format("'{}' is not an extension such as jpg, left.jpg, cls or json.age", member);
  const MemberKind own = member_kind(extension);
  if (own != MemberKind::other && own != MemberKind::other_image) return "";
  std::vector<std::string> known;
  for (const KindOfSuffix& each : kinds()) {
    if (each.kind != MemberKind::other_image)
      known.insert(known.end(), each.suffixes.begin(), each.suffixes.end());
  }
  return fmt::format("'{}' is not an extension that can be read; known: {}", member,
                     join(known, ", "));
}

}  // namespace bv

// What the members of a webdataset's samples are, and which features they become.
//
// A sample is a run of members of a tar that share a key: 000123.jpg, 000123.cls. The plan of a
// data set says which members every sample must have. It is made from the config and the first
// sample, or the first one that can be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bv {

// The parts of a member's name. The key is the path up to the first dot of the base name; the
// extension is what follows that dot, in lower case.
struct SampleName {
  std::string_view key;  // of the text that was parsed
  std::string extension;
};
// Returns nullopt for a name without an extension, for a hidden file, and for what programs keep in
// __MACOSX/ or __meta__/.
std::optional<SampleName> sample_name(std::string_view member);

// What a member holds, as the last part of its extension says: "seg.png" is an image. An
// other_image has a format that cannot be decoded.
enum class MemberKind { image, other_image, number, text, json, array, other };
MemberKind member_kind(std::string_view extension);
// Returns whether members with these extensions are a sample, and not files that are merely next to
// the data, such as README.md: at least one is not MemberKind::other.
bool is_sample(std::span<const std::string> extensions);
// What an incomplete sample's message adds if the same tar has more members with its key.
inline constexpr std::string_view kScattered =
    "; other members with this key are elsewhere in the tar, but those of one sample must follow "
    "each other, as `tar --sort=name` writes them";

// The label of a sample.
struct ClassLabel {
  int64_t number = 0;
  bool named = false;  // it is the name of a class in the tar, not a number
  bool both = false;   // it is the name of a class and also its number
};

// The numbers of classes by their names, if the config gives names.
class ClassNumbers {
 public:
  ClassNumbers() = default;  // no names
  // Throws Error(Exit::usage) without a place if a name is empty or appears twice, or if it is the
  // number of another class.
  explicit ClassNumbers(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }
  // Returns the class that `text` means, its name or its number; white space around it does not
  // count. Throws Error(Exit::data) without a place if it is neither, or not one of the classes.
  // `similar`: the message has the most similar name, whose search takes long if there are many
  // names.
  ClassLabel label_of(std::string_view text, bool similar = true) const;

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int64_t> numbers_;
};

// The type of a value in JSON that can become a feature.
enum class JsonType : uint8_t { number, boolean, text, numbers };

struct PlannedMember {
  std::string extension;  // empty: the only image of the sample, whatever its format
  MemberKind kind = MemberKind::other;

  std::string text() const { return extension.empty() ? "image" : extension; }
};

struct PlannedFeature {
  std::string name;
  size_t member = 0;          // index into SamplePlan::members
  std::string json_key = {};  // of a JSON member; empty: the whole member
  JsonType json = JsonType::text;
};

struct SamplePlan {
  // The first `stored` are read with each example; the other one, if any, holds only the label.
  std::vector<PlannedMember> members;
  size_t stored = 0;
  std::vector<PlannedFeature> features;  // without the label
  std::optional<PlannedFeature> label;   // the number of a class, which is known from the index
  bool chosen = false;                   // the config says which features there are
  std::string sample;                    // that it was made from: "<file> @ offset N (key K)"

  // Returns the index of the member with this extension; nullopt if the plan does not need it.
  std::optional<size_t> find(std::string_view extension) const;
};

// Which member becomes which feature, as the config says: {"image", "left.jpg"}, {"age",
// "json.age"}. Empty: the usual ones.
using ChosenFeatures = std::map<std::string, std::string>;

// Makes the plan from the first sample of the tar file `file`. Throws Error(Exit::usage) naming the
// file, the offset and the key if the sample does not have what is needed. With `keep_broken` it
// tries the first 20 samples, takes the first one that has it, and throws the error of the first
// sample if none does.
SamplePlan make_plan(const ChosenFeatures& chosen, const std::string& file, bool keep_broken);

// Returns why `member`, a value of ChosenFeatures, names nothing that can be read; empty if it may.
std::string chosen_problem(std::string_view member);

}  // namespace bv

// The content of a webdataset's members as values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/example.h"
#include "lib/input/sources/common/webdataset/webdataset_plan.h"

namespace bv {

// `extension` is that of the member, for messages. All throw Error(Exit::data) without a place.

// Throws if a JSON member of `size` bytes is too large to be read.
void check_json_size(std::string_view extension, uint64_t size);
// Parses a JSON object. Rejects one that is nested more than 64 deep.
nlohmann::json parse_json(std::string_view extension, std::string_view text);
// Returns the type of a value; nullopt if it cannot become a feature.
std::optional<JsonType> json_type(const nlohmann::json& value);
// Returns "a string", "null" or "a list that holds more than numbers".
std::string json_type_text(const nlohmann::json& value);
// Returns whether a number, or one of a list of numbers, is not written as an integer.
bool has_fraction(const nlohmann::json& value);
// Returns a value, whose json_type() is known, as a tensor: a number as () int64 or, if
// `fractional`, () float32; true and false as () bool; a string as its UTF-8 bytes; a list of
// numbers as (n,).
at::Tensor json_tensor(const nlohmann::json& value, bool fractional);

// Parses an integer. White space around it does not count.
int64_t parse_number(std::string_view extension, std::string_view text);
// Returns the array of an npy file in C order.
at::Tensor npy_tensor(std::string_view extension, std::span<const uint8_t> npy);

// Inspects a JSON member of a sample: checks that it has what the plan needs of it, sets
// fractional[i] for each feature i that has a number with a fraction or exponent, and returns the
// label if it is there; `similar` is as for ClassNumbers::label_of(). Throws Error(Exit::data)
// without a place.
std::optional<ClassLabel> scan_json(const SamplePlan& plan, size_t member, std::string_view text,
                                    const ClassNumbers& classes, std::vector<uint8_t>& fractional,
                                    bool similar);

// Returns the features of an example except the label. contents: of the members, plan.stored
// tensors (n,) uint8, which images share. Numbers of JSON are float32 if fractional[i] is set for
// their feature i, else int64. Throws Error(Exit::data) without a place.
Example planned_features(const SamplePlan& plan, std::span<const at::Tensor> contents,
                         std::span<const uint8_t> fractional);

}  // namespace bv

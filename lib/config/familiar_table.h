// Private to lib/config: the tables behind familiar_words.h, as text.
//
// Each line has fields that are separated by " | ". A line that begins with a space continues the
// one before it. "#" begins a comment, and "-" is an empty field. Words are in lower case, with '_'
// for '-'.
#pragma once

#include <string_view>

namespace bv {

// mapping | words that are not keys of it | their replacements | a sentence that says so
// The mappings are top, input, data (of any section), model, optax, schedule, mixup, early_stop and
// evaluator. `flag` has words that are flags elsewhere; a flag that is not there is looked up in
// `top`. If a row of `top` has a replacement, its sentence is not printed for a flag: the message
// is "write --set REPLACEMENT=VALUE". A word whose value means something else here therefore needs
// a row in `flag`. The mapping ": random_crop" has words that are not arguments of the op
// random_crop.
extern const std::string_view kFamiliarKeys;
// kind of plug-in | words that are not names of it | the name here | a sentence, if one is needed
extern const std::string_view kFamiliarNames;
// mapping | well-known keys of it. Keys of several mappings, or of few models, are left out.
extern const std::string_view kKeyPlaces;

}  // namespace bv

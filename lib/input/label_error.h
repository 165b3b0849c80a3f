#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/util/error.h"

namespace bv {

// Error(Exit::data) about a label that does not fit: "onehot: 'label' is 3, must be within 0 .. 2".
// It stops a run whatever skip_errors says, because that key is for examples that cannot be read.
class LabelError : public Error {
 public:
  // `by` is what found the error, such as an op. There are `classes` class numbers, from 0 on.
  LabelError(std::string_view by, std::string_view key, int64_t label, int64_t classes)
      : Error(Error::bare(Exit::data, fmt::format("{}: '{}' is {}, must be within 0 .. {}", by, key,
                                                  label, classes - 1))),
        key_(key),
        label_(label) {}

  const std::string& key() const { return key_; }  // of the feature
  int64_t label() const { return label_; }

 private:
  std::string key_;
  int64_t label_;
};

}  // namespace bv

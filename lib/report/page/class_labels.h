// The names of classes as HTML.
#pragma once

#include <fmt/format.h>

#include <string>

#include "lib/report/eval_details.h"
#include "lib/report/page/html.h"

namespace bv {

class ClassLabels {
 public:
  // `details` must outlive this.
  explicit ClassLabels(const EvalDetails& details) : details_(details) {}
  // Returns the escaped name of a class.
  std::string operator()(int64_t label) const {
    const auto i = static_cast<size_t>(label);
    return label >= 0 && i < details_.class_names.size()
               ? escape_html(clipped_bytes(details_.class_names[i], kLongest))
               : fmt::format("class {}", label);
  }

 private:
  static constexpr size_t kLongest = 60;  // bytes
  const EvalDetails& details_;
};

}  // namespace bv

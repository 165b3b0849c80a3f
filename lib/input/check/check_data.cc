#include "lib/input/check/check_data.h"

#include <fmt/format.h>

#include <optional>

#include "lib/input/ordered_work.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using ExampleForm = decltype(ExampleLook::form);

std::string feature_text(const ExampleForm::mapped_type& one) {
  return fmt::format("{} {}", shape_text(one.first), one.second);
}

// Returns how the features of an example differ from those of the first one; "" if they do not.
std::string difference(const ExampleForm& form, const ExampleForm& first,
                       const std::string& first_name) {
  for (const auto& [key, one] : form) {
    const auto found = first.find(key);
    if (found == first.end()) return fmt::format("pp gives '{}', but not for {}", key, first_name);
    if (found->second != one) {
      return fmt::format("after pp '{}' is {}, but {} for {}", key, feature_text(one),
                         feature_text(found->second), first_name);
    }
  }
  for (const auto& [key, one] : first) {
    if (!form.contains(key))
      return fmt::format("pp gives no '{}', as it does for {}", key, first_name);
  }
  return "";
}

}  // namespace

int64_t check_data(const OpenedData& opened, int threads, const LookOptions& options,
                   const std::function<void(const BrokenExample&)>& found) {
  int64_t broken = 0;
  std::optional<ExampleForm> first;
  std::string first_name;
  results_in_order(
      opened.data->size(), threads, [&](int64_t i) { return look_at_example(opened, i, options); },
      [&](int64_t i, ExampleLook look) {
        if (!look.broken && options.pp && !first) {
          first = look.form;
          first_name = opened.data->describe(i);
        } else if (!look.broken && options.pp) {
          const std::string differs = difference(look.form, *first, first_name);
          if (!differs.empty()) {
            look.broken = broken_example(opened, i, differs);
          }
        }
        if (look.broken) {
          ++broken;
          found(*look.broken);
        }
        log::progress(fmt::format("{}: {} of {} examples, {} broken", opened.name,
                                  human_count(i + 1), human_count(opened.data->size()),
                                  human_count(broken)));
      });
  log::clear_progress();
  return broken;
}

}  // namespace bv

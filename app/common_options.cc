#include "app/common_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "lib/util/parse_count.h"

namespace bv {

CLI::Validator integer_from(int64_t least, int64_t most) {
  const bool limited = most < std::numeric_limits<int64_t>::max();
  return {[least, most, limited](std::string& text) -> std::string {
            const auto number = parse_count(text);
            // CLI11 would read the number as octal.
            if (number && text.size() > 1 && text.starts_with('0'))
              return fmt::format("'{}' has a leading zero: write {}", text, *number);
            if (number && *number >= least && *number <= most) return "";
            return fmt::format("'{}' is not an integer {}", text,
                               limited ? fmt::format("from {} to {}", least, most)
                                       : fmt::format("of at least {}", least));
          },
          limited ? fmt::format("{} to {}", least, most) : ""};
}

CLI::Validator positive_number() {
  return {[](std::string& text) -> std::string {
            double number = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            if (error == std::errc() && rest == end && std::isfinite(number) && number > 0)
              return "";
            return fmt::format("'{}' is not a positive number", text);
          },
          ""};
}

void add_set(CLI::App& app, std::vector<std::string>& sets, const std::string& help) {
  app.add_option_function<std::vector<std::string>>(
         "--set",
         [&sets](const std::vector<std::string>& given) {
           sets.insert(sets.end(), given.begin(), given.end());
         },
         help)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_device(CLI::App& app, Arguments& out, const std::string& task) {
  return app.add_option("--devices", out.devices,
                        fmt::format("device that {}: auto, cpu, cuda or cuda:N", task));
}

void add_json(CLI::App& app, Arguments& out) {
  app.add_flag("--json", out.json, "print a JSON object instead of text");
}

}  // namespace bv

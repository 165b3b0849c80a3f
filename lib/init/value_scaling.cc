#include "lib/init/value_scaling.h"

#include "lib/config/call.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/util/text.h"

namespace bv {

ValueScaling scaling_in(const std::string& pp, const std::string& origin) {
  ValueScaling last{.target = std::nullopt, .normalize = ""};
  for (const std::string& part : split(pp, '|')) {
    const std::string op = trim(part), name = trim(op.substr(0, op.find('(')));
    const bool range = name == "value_range";
    if (!range && name != "vgg_value_range" && name != "clip_value_range") continue;
    const Config args = parse_calls(op, Place{origin}).at(0).args;
    // Arguments of value_range.cc, which explains them.
    const auto number = [&](const char* argument, double fallback) {
      return args.get<double>(argument, fallback);
    };
    ValueBounds target{-1, 1};
    if (range) target = {number("vmin", target.least), number("vmax", target.most)};
    if (InOutKeys(args).out != "image") continue;
    if (range)
      last = {.target = target, .normalize = ""};
    else
      last = {.target = std::nullopt, .normalize = op};
  }
  return last;
}

std::string value_range_call(const ValueBounds& target, const ValueBounds& source) {
  std::string text = "value_range(" + json_number(target.least) + ", " + json_number(target.most);
  if (source != ValueBounds{})
    text += ", " + json_number(source.least) + ", " + json_number(source.most);
  return text + ")";
}

}  // namespace bv

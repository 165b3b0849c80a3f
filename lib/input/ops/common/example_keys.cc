#include "lib/input/ops/common/example_keys.h"

#include <optional>

#include "lib/util/text.h"

namespace bv {

InOutKeys::InOutKeys(const Config& args, const char* default_key)
    : in(default_key), out(default_key) {
  // A remaining positional argument is one too many, and must not be used as a key. done() reports
  // it.
  const auto read = [&](std::string_view name) -> std::optional<std::string> {
    if (args.positional_left() > 0 && !args.has(name)) return std::nullopt;
    return args.maybe<std::string>(name);
  };
  const std::optional<std::string> key = read("key"), inkey = read("inkey"),
                                   outkey = read("outkey");
  in = key ? *key : inkey.value_or(default_key);
  out = key ? *key : outkey.value_or(default_key);
}

at::Tensor& require_tensor(Example& example, const std::string& key, const char* op) {
  const auto found = example.find(key);
  if (found != example.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, tensor] : example) known.push_back(name);
  throw Error::bare(Exit::usage, fmt::format("{}: no key '{}' in the example; it has: {}", op, key,
                                             known.empty() ? "nothing" : join(known, ", ")));
}

}  // namespace bv

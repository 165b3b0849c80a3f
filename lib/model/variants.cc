#include "lib/model/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace bv {
namespace {

std::map<std::string, std::vector<NamedVariant>>& table() {
  static std::map<std::string, std::vector<NamedVariant>> instance;
  return instance;
}

}  // namespace

RegisterVariants::RegisterVariants(const std::string& model, std::vector<NamedVariant> variants) {
  table()[model] = std::move(variants);
}

const std::vector<NamedVariant>& variants_of(const std::string& model) {
  static const std::vector<NamedVariant> none;
  const auto found = table().find(model);
  return found == table().end() ? none : found->second;
}

int64_t parse_positive(std::string_view text) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && value > 0 ? value : 0;
}

std::optional<SizeAndPatch> read_variant(const Config& config,
                                         const std::vector<std::string>& sizes, bool needs_patch) {
  const std::string variant = config.get<std::string>("variant", "");
  if (variant.empty()) return std::nullopt;
  const size_t slash = variant.find('/');
  SizeAndPatch read = {variant.substr(0, slash)};
  if (std::find(sizes.begin(), sizes.end(), read.size) == sizes.end()) {
    config.fail("variant", unknown_name_message("variant", read.size, sizes));
  }
  if (slash == std::string::npos) {
    if (needs_patch) {
      config.fail("variant",
                  fmt::format("'{0}': a patch size must follow, as in '{0}/16'", variant));
    }
    return read;
  }
  read.patch = parse_positive(std::string_view(variant).substr(slash + 1));
  if (read.patch == 0) {
    config.fail("variant", fmt::format("'{}': a patch size must follow the '/'", variant));
  }
  return read;
}

void warn_of_overridden_variant(const Config& config, const std::vector<std::string>& sizes) {
  const auto in_file = [&](const std::string& key) {
    return config.has(key) && config.place(key).line > 0;
  };
  if (!config.has("variant") || in_file("variant") ||
      !std::all_of(sizes.begin(), sizes.end(), in_file))
    return;
  config.warn("variant", fmt::format("has no effect, because {} gives {}",
                                     config.place(sizes.front()).file, fmt::join(sizes, ", ")));
}

}  // namespace bv

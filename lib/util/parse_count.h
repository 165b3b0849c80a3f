// Whole numbers in names of files, in environment variables and on the command line.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace bv {

// Returns the number that `text` spells in decimal digits and nothing else. nullopt for any other
// string, and for a number that is too large for `Integer`.
template <class Integer = int64_t>
std::optional<Integer> parse_count(std::string_view text) {
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || text.starts_with('-')) return std::nullopt;
  return value;
}

}  // namespace bv

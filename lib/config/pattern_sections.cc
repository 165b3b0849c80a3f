// Config::pattern_sections(): lists of [pattern, mapping] or [pattern, null].
#include "lib/config/document.h"
#include "lib/config/node.h"

namespace bv {

std::vector<std::pair<std::string, std::optional<Config>>> Config::pattern_sections(
    std::string_view key, std::source_location where) const {
  std::vector<std::pair<std::string, std::optional<Config>>> all;
  const auto value = read(key, nullptr, /*section=*/true, where);
  if (value == nullptr) return all;
  if (value->kind != Node::Kind::list) {
    give_up(
        error_at(value->place, key, "",
                 fmt::format("expected a list of [pattern, mapping], got {}", describe(*value))));
  }
  for (size_t i = 0; i < value->list.size(); ++i) {
    const Node& item = *value->list[i];
    const std::string suffix = fmt::format("[{}]", i);
    const bool is_pair = item.kind == Node::Kind::list && item.list.size() == 2 &&
                         item.list[0]->kind == Node::Kind::scalar;
    const auto kind = is_pair ? item.list[1]->kind : Node::Kind::scalar;
    if (kind != Node::Kind::map && kind != Node::Kind::null) {
      give_up(error_at(
          item.place, key, suffix,
          fmt::format("expected [pattern, mapping] or [pattern, null], got {}", describe(item))));
    }
    std::optional<Config> section;
    if (kind == Node::Kind::map) {
      section.emplace(item.list[1], document_, join_path(path_, key) + suffix);
    }
    all.emplace_back(item.list[0]->text, std::move(section));
  }
  return all;
}

}  // namespace bv

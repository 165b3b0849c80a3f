#include "lib/config/document.h"

#include <algorithm>

#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kMostProblems = 20;

std::string pad(const std::string& text, size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

// Compares messages, because two objects may find the same problem.
void add_unique(std::vector<Error>& problems, const Error& problem) {
  const std::string_view text = problem.what();
  if (std::none_of(problems.begin(), problems.end(),
                   [&](const Error& known) { return known.what() == text; }))
    problems.push_back(problem);
}

}  // namespace

// ---- Document

void Document::record(const Error& error) {
  const size_t before = problems.size();
  for (const Error& problem : error.problems()) add_unique(problems, problem);
  if (problems.size() > before) left_out += error.left_out();
}

void Document::record_warning(const std::string& line) {
  if (std::find(warnings.begin(), warnings.end(), line) == warnings.end()) warnings.push_back(line);
}

void Document::read(Read read) {
  const std::string mapping = read.mapping;
  known_[mapping].emplace(read.key);
  const auto [found, inserted] = index_[mapping].emplace(read.key, reads.size());
  if (inserted) {
    reads.push_back(std::move(read));
    return;
  }
  Read& first = reads[found->second];
  first.section |= read.section;
  first.text &= read.text;
  const auto flow = [](const std::shared_ptr<Node>& node) { return node ? to_flow(*node) : ""; };
  if (flow(first.fallback) != flow(read.fallback)) first.several_fallbacks = true;
}

void Document::replaced(const std::string& mapping, std::string_view key,
                        const std::shared_ptr<Node>& value) {
  for (Read& read : reads) {
    if (read.mapping == mapping && read.key == key) read.value = value;
  }
  replaced_.insert(join_path(mapping, key));
}

bool Document::was_replaced(const std::string& mapping, std::string_view key) const {
  return replaced_.contains(join_path(mapping, key));
}

void Document::explain_as(const std::string& mapping, std::string_view key,
                          std::string_view meaning) {
  const auto found = index_.find(mapping);
  if (found == index_.end()) return;
  if (const auto read = found->second.find(key); read != found->second.end())
    reads[read->second].meaning = meaning;
}

bool Document::was_read(const std::string& mapping, std::string_view key) const {
  const auto found = index_.find(mapping);
  return found != index_.end() && found->second.find(key) != found->second.end();
}

bool Document::is_section(const std::string& mapping, std::string_view key) const {
  const auto found = index_.find(mapping);
  if (found == index_.end()) return false;
  const auto read = found->second.find(key);
  return read != found->second.end() && reads[read->second].section;
}

bool Document::is_text(const std::string& mapping, std::string_view key) const {
  const auto found = index_.find(mapping);
  if (found == index_.end()) return false;
  const auto read = found->second.find(key);
  return read != found->second.end() && reads[read->second].text;
}

bool Document::was_asked(const std::string& mapping, std::string_view key) const {
  const auto found = known_.find(mapping);
  return found != known_.end() && found->second.find(key) != found->second.end();
}

std::vector<std::string> Document::known(const std::string& mapping) const {
  const auto found = known_.find(mapping);
  if (found == known_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

bool Document::report(const std::string& mapping, const std::string& key) {
  return reported_.insert(join_path(mapping, key)).second;
}

// ---- problems

void throw_sorted(const std::vector<Error>& problems, size_t left_out) {
  if (problems.empty()) return;
  std::vector<Error> sorted;
  for (const Error& several : problems) {
    for (const Error& problem : several.problems()) add_unique(sorted, problem);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Error& a, const Error& b) { return a.place() < b.place(); });
  if (sorted.size() == 1 && left_out == 0) throw sorted[0];
  if (sorted.size() > kMostProblems) {
    left_out += sorted.size() - kMostProblems;
    sorted.erase(sorted.begin() + kMostProblems, sorted.end());
  }
  throw Error::all(Exit::usage, std::move(sorted), left_out);
}

// ---- explain and the resolved config

std::shared_ptr<Node> effective(const Document& document, const std::shared_ptr<Node>& node,
                                const std::string& path) {
  if (node->kind == Node::Kind::list) {
    auto out = std::make_shared<Node>(*node);
    for (size_t i = 0; i < out->list.size(); ++i) {
      out->list[i] = effective(document, out->list[i], item_path(*node, path, i));
    }
    return out;
  }
  if (node->kind != Node::Kind::map) return node;
  auto out = std::make_shared<Node>(*node);
  for (Node::Entry& entry : out->map) {
    entry.value = effective(document, entry.value, join_path(path, entry.key));
  }
  for (const Document::Read& read : document.reads) {
    if (read.mapping != path) continue;
    const Node::Entry* present = out->entry(read.key);
    const bool null = present != nullptr && present->value->kind == Node::Kind::null;
    if (present != nullptr && !null) continue;
    if (null && document.own_nulls.contains(join_path(path, read.key))) continue;
    std::shared_ptr<Node> value = read.several_fallbacks ? nullptr : read.fallback;
    if (read.section) {
      value = effective(document, make_map({}), join_path(path, read.key));
      if (value->map.empty()) value = nullptr;
    }
    if (value == nullptr) continue;
    if (present != nullptr) {
      out->map[present - out->map.data()].value = value;
    } else {
      out->map.push_back({read.key, {}, value});
    }
  }
  return out;
}

std::string join_path(std::string_view path, std::string_view key) {
  if (path.empty()) return std::string(key);
  return key.empty() ? std::string(path) : fmt::format("{}.{}", path, key);
}

std::string item_path(const Node& list, const std::string& path, size_t index) {
  const bool pair = list.list.size() == 2 && list.list[0]->kind == Node::Kind::scalar &&
                    list.list[1]->kind == Node::Kind::map;
  return pair ? path : fmt::format("{}[{}]", path, index);
}

std::string shown_path(std::string_view path) {
  const size_t op = path.rfind(": ");
  return std::string(op == std::string_view::npos ? path : path.substr(op + 2));
}

std::string explain_lines(const Document& document) {
  constexpr size_t kWidest = 44;
  std::vector<std::vector<std::string>> rows = {{"key", "value", "default", "origin", "read at"}};
  for (const Document::Read& read : document.reads) {
    const bool given = read.value != nullptr && read.value->kind != Node::Kind::null;
    const std::string fallback = read.fallback ? to_flow(*read.fallback) : "-";
    std::string value = given ? (read.section ? "..." : to_flow(*read.value)) : fallback;
    if (!read.meaning.empty()) value += fmt::format(" ({})", read.meaning);
    rows.push_back({join_path(read.mapping, read.key), value, fallback,
                    given ? origin(read.value->place) : "default", read.source});
  }
  std::vector<size_t> widths(4, 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], std::min(kWidest, row[i].size()));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) out += pad(row[i], widths[i]) + "  ";
    out += row.back() + '\n';
  }
  return out;
}

}  // namespace bv

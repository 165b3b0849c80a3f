#include "lib/input/quarantine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lib/input/loader/failed_example.h"
#include "lib/input/ordered_work.h"
#include "lib/input/path.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kChunk = 256;  // examples that a thread names at a time

// Returns whether a list refers to this part of a config, and not to a folder.
bool is_part_of_config(const std::string& data) {
  return data == "input" || data.starts_with("input.") || data.starts_with("evals.");
}

// If skipped.jsonl lists the example as one of the data set `name` of a mixture, returns its name
// in that data set. Otherwise returns nullopt.
std::optional<std::string> name_in_mixture(const std::string& data, const std::string& example,
                                           std::string_view name) {
  constexpr std::string_view kInput = "input.";
  if (data != "input" || !name.starts_with(kInput)) return std::nullopt;
  const std::string part = fmt::format("{}: ", name.substr(kInput.size()));
  if (!example.starts_with(part)) return std::nullopt;
  return example.substr(part.size());
}

// Where the examples of the entries are in a data set.
struct Matches {
  std::vector<int64_t> indices;  // of examples in the list, ascending
  std::vector<int64_t> found;    // (entries,) one example of each, or -1
};

// From the names of the examples of a list to their numbers in Matches::found.
using ListedNames = std::map<std::string, size_t>;

// Returns whether a name begins with `begin`.
bool any_begins_with(const ListedNames& names, const std::string& begin) {
  const auto first = names.lower_bound(begin);
  return first != names.end() && first->first.starts_with(begin);
}

Matches find_quarantined(const ListedNames& lines, const Dataset& data, int threads,
                         const std::function<void(size_t)>& ambiguous) {
  Matches matches;
  matches.found.assign(lines.size(), -1);
  using Named = std::vector<std::pair<int64_t, size_t>>;
  results_in_order((data.size() + kChunk - 1) / kChunk, threads,
                   [&](int64_t chunk) {
                     Named named;
                     const int64_t end = std::min((chunk + 1) * kChunk, data.size());
                     for (int64_t i = chunk * kChunk; i < end; ++i) {
                       // The whole name of a sample in a tar has to be read from the tar.
                       if (!any_begins_with(lines, in_utf8(data.describe_unread(i)))) continue;
                       const auto entry = lines.find(in_utf8(data.describe(i)));
                       if (entry != lines.end()) named.emplace_back(i, entry->second);
                     }
                     return named;
                   },
                   [&](int64_t, const Named& named) {
                     for (const auto& [index, entry] : named) {
                       if (std::exchange(matches.found[entry], index) >= 0) ambiguous(entry);
                       matches.indices.push_back(index);
                     }
                   });
  return matches;
}

}  // namespace

std::string name_in_list(const std::string& folder) {
  return is_part_of_config(folder) ? "./" + folder : folder;
}

std::shared_ptr<const Quarantine> Quarantine::read(const Config& config) {
  const auto file = maybe_path(config, "quarantine");
  if (!file) return nullptr;
  return std::shared_ptr<const Quarantine>(new Quarantine(config, *file));
}

Quarantine::Quarantine(const Config& config, std::string file)
    : config_(config), file_(std::move(file)) {
  const std::string text = read_file(file_, limits::kSkipListBytes);
  int64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    add(rest.substr(0, end), ++number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void Quarantine::add(std::string_view line, int64_t number) {
  const auto fail = [&](std::string_view why) {
    throw Error(Exit::usage, fmt::format("{}:{}", file_, number), why);
  };
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail("is not JSON; expected a line of `bvtrain data check`");
  if (const std::string fault = json_fault(json, JsonKind::object); !fault.empty()) fail(fault);
  for (const char* key : {"data", "example"}) {
    if (!json.contains(key)) fail(fmt::format("has no '{}'", key));
    if (const std::string fault = json_fault(json.at(key), JsonKind::text); !fault.empty())
      fail(fmt::format("'{}' {}", key, fault));
  }
  Entry entry{json.at("data"), json.at("example"), number, std::nullopt};
  if (const auto files = json.find("files"); files != json.end()) {
    if (const std::string fault = json_fault(*files, JsonKind::texts); !fault.empty())
      fail(fmt::format("'files' {}", fault));
    entry.files = files->get<std::vector<std::string>>();
  }
  entries_.push_back(std::move(entry));
}

void Quarantine::check_files(const Entry& entry, const Dataset& data, int64_t index) const {
  if (!entry.files) return;
  auto now = data.files_of(index).value_or(std::vector<std::string>());
  for (std::string& file : now) file = in_utf8(file);
  if (now == *entry.files) return;
  const auto shown = [](const std::vector<std::string>& files) {
    return files.empty() ? "no file" : short_list(files, /*counted=*/false);
  };
  throw Error(Exit::usage, fmt::format("{}:{}", file_, entry.line),
              fmt::format("'{}' names {} now, but {} in this list, which no longer fits the data; "
                          "renew it with `bvtrain data check --config CONFIG --output {}`",
                          entry.example, shown(now), shown(*entry.files), file_));
}

std::shared_ptr<const Dataset> Quarantine::leave_out(std::shared_ptr<const Dataset> data,
                                                     const std::string& name, int threads) const {
  ListedNames lines;
  std::vector<const Entry*> own;
  std::set<std::string> others;
  for (const Entry& entry : entries_) {
    const auto in_mixture = name_in_mixture(entry.data, entry.example, name);
    if (!in_mixture && entry.data != name && is_part_of_config(entry.data))
      others.insert(entry.data);
    else if (lines.emplace(in_mixture.value_or(entry.example), own.size()).second)
      own.push_back(&entry);
  }
  if (own.empty()) {
    if (!others.empty()) {
      config_.warn("quarantine", fmt::format("{} has no examples of {}, only of {}", file_, name,
                                             short_list({others.begin(), others.end()})));
    }
    return data;
  }
  const Matches matches = find_quarantined(lines, *data, threads, [&](size_t entry) {
    throw Error(Exit::usage, fmt::format("{}:{}", file_, own[entry]->line),
                fmt::format("several examples of {} are called '{}'", name, own[entry]->example));
  });
  for (size_t i = 0; i < own.size(); ++i)
    if (matches.found[i] >= 0) check_files(*own[i], *data, matches.found[i]);
  const auto unmatched = std::count(matches.found.begin(), matches.found.end(), -1);
  if (unmatched > 0) {
    const auto first = std::find(matches.found.begin(), matches.found.end(), -1);
    config_.warn(
        "quarantine",
        fmt::format("{} of {} lines for {} in {} match no example; the first is line {}, '{}'",
                    human_count(unmatched), human_count(std::ssize(own)), name, file_,
                    own[first - matches.found.begin()]->line,
                    own[first - matches.found.begin()]->example));
  }
  const auto left_out = std::ssize(matches.indices);
  if (left_out == data->size())
    config_.fail("quarantine", fmt::format("{} leaves no example of {}", file_, name));
  if (left_out == 0) return data;
  config_.warn("quarantine",
               fmt::format("{} of {} examples of {} {} excluded", human_count(left_out),
                           human_count(data->size()), name, left_out == 1 ? "is" : "are"));
  auto rest = std::make_shared<Dataset>(*data);
  rest->leave_out(matches.indices);
  return rest;
}

}  // namespace bv

#include "lib/report/skipped_examples.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kFirst = 10;  // examples of each data set in the report

std::string line_of(const SkippedExample& skipped) {
  return fmt::format("{{\"data\": {}, \"step\": {}, \"example\": {}, \"reason\": {}{}}}\n",
                     json_string(skipped.data), skipped.step, json_string(skipped.example),
                     json_string(skipped.reason),
                     skipped.files ? ", \"files\": " + nlohmann::json(*skipped.files).dump() : "");
}

std::optional<SkippedExample> read_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"data", "example", "reason"})
    if (!json.contains(key) || !json.at(key).is_string()) return std::nullopt;
  if (!json.contains("step") || !json.at("step").is_number_integer()) return std::nullopt;
  SkippedExample skipped{json.at("data"), json.at("step"), json.at("example"), json.at("reason")};
  if (const auto files = json.find("files"); files != json.end() && files->is_array()) {
    skipped.files.emplace();
    for (const auto& file : *files)
      if (file.is_string()) skipped.files->push_back(file);
  }
  return skipped;
}

void remove_file(const std::string& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT)
    throw Error(Exit::storage, file, "cannot be removed");
}

}  // namespace

void remove_skipped(const std::string& file, int64_t step, const std::set<std::string>& data) {
  const std::string content = read_file_if_any(file).value_or("");
  std::string kept;
  for (std::string_view rest = content; !rest.empty();) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    rest.remove_prefix(line.size());
    const std::optional<SkippedExample> skipped = read_line(line);
    const auto owns = [&](const std::string& name) {
      return skipped->data == name || skipped->data.starts_with(name + ".");
    };
    if (!skipped || skipped->step != step || std::none_of(data.begin(), data.end(), owns))
      kept += line;
  }
  if (kept != content) write_file_atomically(file, kept);
}

std::string SkippedExamples::open(const std::string& file, int64_t last_step,
                                  std::function<void()> check_folder) {
  file_ = file;
  check_folder_ = std::move(check_folder);
  const std::optional<std::string> found = read_file_if_any(file);
  if (!found) return "";
  const std::string& content = *found;
  std::string kept;
  int64_t number = 0, damaged = 0, first_damaged = 0;
  for (std::string_view rest = content; !rest.empty();) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // a killed run has left an incomplete line
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    ++number;
    const std::optional<SkippedExample> skipped = read_line(line);
    if (!skipped) {
      if (damaged++ == 0) first_damaged = number;
    } else if (skipped->step <= last_step && remember(*skipped)) {
      kept += line;
    }
  }
  if (damaged > 0) {
    log::warn("{}:{}: dropped {}: not a skipped example", file, first_damaged,
              counted(damaged, "line"));
  }
  if (kept.empty()) {
    remove_file(file);
  } else if (kept != content) {
    write_file_atomically(file, kept);
  }
  return kept;
}

void SkippedExamples::adopt(std::string_view lines) {
  for (const std::string& line : split(lines, '\n')) {
    if (const auto skipped = read_line(line)) remember(*skipped);
  }
}

bool SkippedExamples::remember(const SkippedExample& skipped) {
  DataSet& data = sets_[skipped.data];
  if (!data.names.insert(skipped.example).second) return false;
  if (data.first.size() < kFirst) data.first.push_back(skipped);
  return true;
}

void SkippedExamples::add(const SkippedExample& skipped) {
  if (!remember(skipped) || file_.empty()) return;
  waiting_ += line_of(skipped);
  synced_ = false;
  try {
    write();
  } catch (const Error& error) {
    if (error.code() != Exit::storage) throw;
    if (!std::exchange(refused_, true))
      log::warn("{}; the entries are kept in memory and written later", error.what());
  }
}

void SkippedExamples::write() {
  if (!out_) {
    if (check_folder_) check_folder_();
    out_.emplace(file_);
  }
  out_->add(std::exchange(waiting_, ""));
  out_->flush();
  refused_ = false;
}

void SkippedExamples::sync() {
  if (synced_) return;
  retries_([this] { write(); });
  fsync_path(file_);
  synced_ = true;
}

bool SkippedExamples::contains(const std::string& data, const std::string& example) const {
  const auto found = sets_.find(data);
  return found != sets_.end() && found->second.names.contains(example);
}

int64_t SkippedExamples::count(const std::string& data) const {
  const auto found = sets_.find(data);
  return found == sets_.end() ? 0 : std::ssize(found->second.names);
}

std::set<std::string> SkippedExamples::examples(const std::string& data) const {
  const auto found = sets_.find(data);
  return found == sets_.end() ? std::set<std::string>() : found->second.names;
}

std::vector<SkippedSummary> SkippedExamples::summaries() const {
  std::vector<SkippedSummary> all;
  for (const auto& [name, data] : sets_) all.push_back({name, std::ssize(data.names), data.first});
  return all;
}

std::string SkippedExamples::text() const {
  int64_t total = 0;
  std::vector<std::string> parts;
  for (const auto& [name, data] : sets_) {
    total += std::ssize(data.names);
    parts.push_back(fmt::format("{}: {}", name, data.names.size()));
  }
  return fmt::format("{} example{} skipped so far ({}){}", human_count(total),
                     total == 1 ? " was" : "s were", join(parts, ", "),
                     file_.empty() ? "" : ", see " + file_);
}

}  // namespace bv

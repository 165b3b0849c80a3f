#include "lib/predict/evaluated_checkpoints.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/manifest.h"
#include "lib/ckpt/restored.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/report/log.h"
#include "lib/train/start.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/json_kind.h"
#include "lib/util/json_text.h"
#include "lib/util/parse_count.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr const char* kRemoved = "removed";  // the identity of no checkpoint
constexpr const char* kRun = "run";          // the key of the run; the other keys are steps

// Returns the run that an entry of the record describes; nullopt if the entry is not a run.
std::optional<RunOfRows> named_run(const nlohmann::json& entry) {
  RunOfRows run;
  for (const auto& [key, text] :
       {std::pair{"workdir", &run.workdir}, {"first_started", &run.first_started}}) {
    if (!entry.is_object() || !entry.contains(key) || !entry.at(key).is_string())
      return std::nullopt;
    *text = entry.at(key).get<std::string>();
  }
  return run;
}

// Returns the text of a checkpoint's manifest; nullopt if there is none, "" if it cannot be read:
// reading the checkpoint reports why.
std::optional<std::string> manifest_text(const std::string& folder) {
  try {
    return read_file_if_any(folder + "/" + kManifestName);
  } catch (const Error&) {
    return "";
  }
}

std::string manifest_hash(const std::string& text) {
  return text.empty() ? "" : fmt::format("{:016x}", hash64(text));
}

// Returns a hash of what the weights of a checkpoint depend on; "" if its manifest is damaged.
std::string weights_hash(const std::string& folder) {
  try {
    Manifest manifest = read_manifest(folder);
    std::string text = fmt::format("{}\n", manifest.step);
    for (const Manifest::File& file : manifest.files)
      text += fmt::format("{} {} {:016x}\n", file.name, file.bytes, fmt::join(file.checksums, " "));
    const Restored restored = {manifest.step, folder, {}, std::move(manifest.meta)};
    for (const RunStart& start : starts_of(restored)) {
      if (start.from <= restored.step) text += fmt::format("{} {}\n", start.from, start.time);
    }
    return fmt::format("{:016x}", hash64(text));
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

RunOfRows run_of_rows(const std::string& workdir) {
  std::error_code none;
  const std::filesystem::path whole = std::filesystem::absolute(workdir, none);
  const std::filesystem::path path = std::filesystem::weakly_canonical(whole, none);
  const nlohmann::json run = peek_run_json(Workdir(workdir).run_json());
  return {(none ? whole : path).string(), run.value("first_started", std::string())};
}

bool is_same_run(const RunOfRows& before, const RunOfRows& now) {
  if (before.workdir == now.workdir) return true;
  std::error_code none;
  // A copy of the workdir is another run, because the run and its copy may both continue.
  return !before.first_started.empty() && before.first_started == now.first_started &&
         (!file_exists(before.workdir) ||
          std::filesystem::equivalent(before.workdir, now.workdir, none));
}

EvaluatedCheckpoints::EvaluatedCheckpoints(std::string file, std::set<int64_t> rows)
    : file_(std::move(file)), rows_(std::move(rows)) {
  const auto text = read_file_if_any(file_);
  if (!text || rows_.empty()) return;
  const nlohmann::json record = shallow_json(*text);
  bool sound = record.is_object();
  for (auto entry = record.begin(); sound && entry != record.end(); ++entry) {
    if (entry.key() == kRun) {
      run_ = named_run(*entry);
      sound = run_.has_value();
      continue;
    }
    const auto step = parse_count(entry.key());
    const bool pair = entry->is_array() && entry->size() == 2;  // not in older records
    const nlohmann::json& identity = pair ? entry->front() : *entry;
    sound = step && identity.is_string() && (!pair || entry->back().is_number_integer());
    if (sound) identities_[*step] = identity.get<std::string>();
    if (sound && pair) started_[*step] = entry->back().get<int64_t>();
  }
  if (sound) return;
  identities_.clear();
  started_.clear();
  run_.reset();
  log::warn("{}: is damaged, so it is ignored", file_);
}

std::optional<std::string> EvaluatedCheckpoints::identity(const std::string& folder) {
  const auto text = manifest_text(folder);
  if (!text) return std::nullopt;
  const std::string weights = weights_hash(folder);
  return manifest_hash(*text) + (weights.empty() ? "" : " " + weights);
}

bool EvaluatedCheckpoints::is_same(std::string_view a, std::string_view b) {
  const size_t end_a = a.find(' '), end_b = b.find(' ');
  if (end_a != std::string_view::npos && end_b != std::string_view::npos)
    return a.substr(end_a) == b.substr(end_b);
  return a.substr(0, end_a) == b.substr(0, end_b);
}

std::optional<std::string> EvaluatedCheckpoints::new_identity(int64_t step,
                                                              const std::string& folder) {
  const auto manifest = manifest_identity(folder);  // before it is read: the run may replace it
  const auto seen = seen_.find(step);
  if (seen != seen_.end() && seen->second.manifest == manifest &&
      contains(step, seen->second.identity))
    return std::nullopt;
  const auto text = manifest_text(folder);
  if (!text) return std::nullopt;
  const std::string hash = manifest_hash(*text);
  const auto whole = contains(step, hash) ? std::optional(hash) : identity(folder);
  if (!whole || !contains(step, *whole)) return whole;
  seen_[step] = {manifest, *whole};
  return std::nullopt;
}

bool EvaluatedCheckpoints::contains(int64_t step, std::string_view identity) const {
  const auto skipped = skipped_.find(step);
  if (skipped != skipped_.end() && is_same(skipped->second, identity)) return true;
  const auto found = identities_.find(step);
  return rows_.contains(step) && (found == identities_.end() || is_same(found->second, identity));
}

std::optional<int64_t> EvaluatedCheckpoints::started(int64_t row) const {
  const auto found = started_.find(row);
  return found == started_.end() ? std::nullopt : std::optional(found->second);
}

void EvaluatedCheckpoints::add(int64_t step, const std::string& identity,
                               std::optional<int64_t> started) {
  rows_.insert(step);
  identities_[step] = identity;
  started_.erase(step);
  if (started) started_[step] = *started;
  write();
}

void EvaluatedCheckpoints::remove_from(int64_t step) {
  for (auto row = rows_.lower_bound(step); row != rows_.end(); row = rows_.erase(row))
    identities_[*row] = kRemoved;
  for (auto entry = identities_.lower_bound(step); entry != identities_.end(); ++entry)
    entry->second = kRemoved;
  started_.erase(started_.lower_bound(step), started_.end());
  write();
}

void EvaluatedCheckpoints::write() const {
  nlohmann::ordered_json record = nlohmann::ordered_json::object();
  if (run_) record[kRun] = {{"workdir", run_->workdir}, {"first_started", run_->first_started}};
  for (const auto& [each, text] : identities_) {
    nlohmann::ordered_json& entry = record[std::to_string(each)];
    entry = text;
    if (const auto time = started(each)) entry = {text, *time};
  }
  write_file_atomically(file_, json_text(record, 0) + "\n");
}

}  // namespace bv

#include "lib/ckpt/checkpoint_meta.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/util/error.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

using nlohmann::json;

struct Member {
  const char* pointer;  // a JSON pointer (RFC 6901)
  JsonKind kind;
  bool resuming = false;  // no run can continue without it
};

// The members that Trainer::checkpoint_meta() (trainer_save.cc) and, for `best` and `bad_step`,
// write_best() and write_bad_step() write.
constexpr Member kMembers[] = {
    {"/tool_version", JsonKind::text},
    {"/commit", JsonKind::text},
    {"/config", JsonKind::text},
    {"/compute_threads", JsonKind::count, true},
    {"/precision", JsonKind::text},
    {"/ranks", JsonKind::count},
    {"/device", JsonKind::text},
    {"/position", JsonKind::count},
    {"/examples_left_out", JsonKind::count},
    {"/skipped_steps", JsonKind::count},
    {"/rollbacks", JsonKind::count},
    {"/config_changes", JsonKind::count},
    {"/data", JsonKind::object},
    {"/data/input", JsonKind::text},
    {"/data/examples", JsonKind::count},
    {"/data/evals", JsonKind::object},
    {"/data/labels", JsonKind::object},
    {"/data/content", JsonKind::object},
    {"/synthetic", JsonKind::flag},
    {"/class_names", JsonKind::texts},
    {"/image", JsonKind::list},
    {"/image_values", JsonKind::list},
    {"/last_row", JsonKind::count},
    {"/row", JsonKind::list, true},
    {"/due_evals", JsonKind::texts},
    {"/best", JsonKind::object},
    {"/best/metric", JsonKind::text},
    {"/best/higher_is_better", JsonKind::flag},
    {"/best/step", JsonKind::count},
    {"/best/value", JsonKind::number},
    {"/bad_step", JsonKind::object},
    {"/bad_step/reason", JsonKind::text},
    {"/bad_step/update", JsonKind::flag},
    {"/bad_step/examples", JsonKind::texts},
    {"/bad_step/bad_examples", JsonKind::texts},
    {"/bad_step/batch", JsonKind::text},
    {"/chrono", JsonKind::object, true},
    {"/chrono/accum_program_time", JsonKind::number, true},
    {"/chrono/accum_train_time", JsonKind::number, true},
    {"/chrono/accum_pause_time", JsonKind::number, true},
    {"/chrono/accum_device_time", JsonKind::number},
    {"/chrono/accum_examples_seen", JsonKind::count, true},
};
constexpr int64_t kMostThreads = 4096;  // as for the key compute_threads

// Numbers of examples and steps of these sizes can be added without overflow.
constexpr const char* kStreamCounts[] = {"/position", "/examples_left_out", "/skipped_steps",
                                         "/last_row", "/chrono/accum_examples_seen"};

[[noreturn]] void refuse_meta(std::string_view pointer, std::string_view what) {
  std::string name(pointer);
  for (char& c : name) c = c == '/' ? '.' : c;
  throw Error::bare(Exit::usage, fmt::format("{}: meta{} {}", kManifestName, name, what));
}

void check_kind(const json& value, std::string_view pointer, JsonKind kind) {
  if (const std::string fault = json_fault(value, kind); !fault.empty())
    refuse_meta(pointer, fault);
}

// Entries are [name, value]; JSON has no NaN or infinity, so these are strings.
void check_row(const json& row) {
  static const std::set<std::string> kNotFinite = {"nan", "-nan", "inf", "-inf"};
  for (size_t i = 0; i < row.size(); ++i) {
    const json& entry = row[i];
    const std::string pointer = fmt::format("/row/{}", i);
    check_kind(entry, pointer, JsonKind::list);
    if (entry.size() != 2) refuse_meta(pointer, "does not hold a name and a value");
    check_kind(entry[0], pointer + "/0", JsonKind::text);
    if (!entry[1].is_string() || !kNotFinite.contains(entry[1].get<std::string>()))
      check_kind(entry[1], pointer + "/1", JsonKind::number);
  }
}

}  // namespace

void check_meta(const json& meta) {
  check_kind(meta, "", JsonKind::object);
  for (const Member& member : kMembers) {
    const json::json_pointer pointer(member.pointer);
    if (meta.contains(pointer)) check_kind(meta.at(pointer), member.pointer, member.kind);
  }
  for (const char* count : kStreamCounts) {
    const json::json_pointer pointer(count);
    if (!meta.contains(pointer)) continue;
    if (const auto number = meta.at(pointer).get<int64_t>(); number > limits::kStreamCount)
      refuse_meta(count,
                  fmt::format("is {}, at most {} is possible", number, limits::kStreamCount));
  }
  if (meta.contains("row")) check_row(meta.at("row"));
  if (meta.contains("image")) {
    if (meta.at("image").size() != 3) refuse_meta("/image", "does not hold three numbers");
    for (const json& size : meta.at("image")) check_kind(size, "/image", JsonKind::count);
  }
  if (meta.contains("image_values")) {
    if (meta.at("image_values").size() != 2)
      refuse_meta("/image_values", "does not hold two numbers");
    for (const json& end : meta.at("image_values"))
      check_kind(end, "/image_values", JsonKind::number);
  }
  if (meta.contains("data")) {
    for (const char* member : {"input", "evals"}) {
      if (!meta.at("data").contains(member))
        refuse_meta("/data", fmt::format("lacks '{}'", member));
    }
    for (const auto& [name, examples] : meta.at("data").at("evals").items())
      check_kind(examples, "/data/evals/" + name, JsonKind::count);
    for (const char* member : {"labels", "content"}) {
      const json hashes = meta.at("data").value(member, json::object());
      for (const auto& [name, hash] : hashes.items())
        check_kind(hash, fmt::format("/data/{}/{}", member, name), JsonKind::text);
    }
  }
  if (meta.contains("best")) {
    for (const char* member : {"metric", "higher_is_better", "step", "value"}) {
      if (!meta.at("best").contains(member))
        refuse_meta("/best", fmt::format("lacks '{}'", member));
    }
  }
  if (meta.contains("bad_step")) {
    for (const char* member : {"reason", "examples", "bad_examples"}) {
      if (!meta.at("bad_step").contains(member))
        refuse_meta("/bad_step", fmt::format("lacks '{}'", member));
    }
  }
  for (const char* member : {"compute_threads", "ranks"}) {
    const int64_t number = meta.value(member, int64_t{1});
    if (number < 1 || number > (std::string_view(member) == "ranks" ? INT32_MAX : kMostThreads))
      refuse_meta(std::string("/") + member, fmt::format("is {}", number));
  }
}

void check_resumable(const json& meta) {
  for (const Member& member : kMembers) {
    if (member.resuming && !meta.contains(json::json_pointer(member.pointer)))
      refuse_meta(member.pointer, "is missing, so no run can continue from this checkpoint");
  }
}

}  // namespace bv

// bvtrain ckpt ls|verify|diff|average|rm: manages the checkpoints of a run.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "app/commands.h"
#include "app/json_output.h"
#include "app/output_format.h"
#include "app/standard_output.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/command/checkpoint_average.h"
#include "lib/ckpt/command/checkpoint_diff.h"
#include "lib/ckpt/command/checkpoint_list.h"
#include "lib/ckpt/command/checkpoint_removal.h"
#include "lib/config/duration.h"
#include "lib/export/export.h"
#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/json_text.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"
#include "lib/util/text_table.h"

namespace bv {
namespace {

using Json = nlohmann::ordered_json;

// Returns the cells as aligned lines.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<TextColumn> columns(rows.empty() ? 0 : rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      columns[i].cells.push_back(printable(row[i], std::string::npos));
  }
  std::string text;
  for (const std::string& line : aligned(columns)) text += line + "\n";
  return text;
}

std::string age_text(std::time_t saved) {
  return saved == 0
             ? "-"
             : duration_text(std::max(0.0, std::difftime(std::time(nullptr), saved))) + " ago";
}

Json list_json(const CheckpointList& list) {
  Json out = {{"metric", list.metric.empty() ? Json() : Json(list.metric)},
              {"checkpoints", Json::array()}};
  for (const ListedCheckpoint& each : list.checkpoints) {
    out["checkpoints"].push_back({{"name", each.name},
                                  {"folder", each.folder},
                                  {"step", each.step ? Json(*each.step) : Json()},
                                  {"bytes", each.bytes},
                                  {"saved", each.saved == 0 ? Json() : Json(utc_text(each.saved))},
                                  {"value", each.value ? json_value(*each.value) : Json()},
                                  {"kept", each.why},
                                  {"fault", each.fault.empty() ? Json() : Json(each.fault)}});
  }
  return out;
}

Exit ls(const Arguments& arguments) {
  const CheckpointList list = list_checkpoints(arguments.ckpt.path);
  if (arguments.json) {
    print_json(list_json(list));
    return Exit::ok;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ListedCheckpoint& each : list.checkpoints) {
    const bool tells_step = CkptFolder::step_of(each.name).has_value();
    std::vector<std::string> remarks = each.why;
    if (!each.fault.empty()) remarks.push_back("damaged: " + each.fault);
    rows.push_back(
        {each.name + (each.step && !tells_step ? fmt::format(" (step {})", *each.step) : ""),
         human_bytes(static_cast<double>(each.bytes)), age_text(each.saved),
         each.value ? list.metric + " " + short_number(*each.value) : "-", join(remarks, ", ")});
  }
  print(table(rows));
  return Exit::ok;
}

Exit verify(const Arguments& arguments) {
  std::vector<std::string> folders;
  for (const std::string& path : arguments.ckpt.paths) {
    for (const std::string& folder : checkpoint_folders(path)) folders.push_back(folder);
  }
  size_t damaged = 0;
  for (const std::string& folder : folders) {
    const std::string fault = checkpoint_fault(folder, FaultSearch::checksums);
    if (!fault.empty() && !file_exists(folder)) continue;  // meanwhile the run has deleted it
    const std::string name = arguments.ckpt.paths.size() > 1
                                 ? folder
                                 : std::filesystem::path(folder).filename().string();
    const std::string state =
        fault.empty() ? "intact, " + human_bytes(static_cast<double>(folder_bytes(folder))) : fault;
    print(fmt::format("{}: {}\n", printable(name, std::string::npos), state));
    damaged += fault.empty() ? 0 : 1;
  }
  if (damaged > 0) {
    throw Error(Exit::storage, "bvtrain ckpt verify",
                fmt::format("{} of {} checkpoints damaged", damaged, folders.size()));
  }
  return Exit::ok;
}

Json diff_json(const CheckpointDiff& diff, const Restored& a, const Restored& b, size_t shown) {
  const auto about = [](const Restored& checkpoint) {
    return Json{{"folder", checkpoint.folder}, {"step", checkpoint.step}};
  };
  Json out = {{"a", about(a)},
              {"b", about(b)},
              {"config", Json::array()},
              {"only_a", diff.only_a},
              {"only_b", diff.only_b},
              {"other_form", Json::array()},
              {"largest", Json::array()},
              {"differing", diff.differing()},
              {"tensors", diff.tensors}};
  for (const ConfigChange& each : diff.config)
    out["config"].push_back({{"key", each.key()}, {"a", each.before}, {"b", each.after}});
  for (const CheckpointDiff::OtherForm& each : diff.other_form)
    out["other_form"].push_back({{"name", each.name}, {"a", each.a}, {"b", each.b}});
  for (size_t i = 0; i < shown; ++i) {
    const TensorDifference& each = diff.changed[i];
    out["largest"].push_back({{"name", each.name},
                              {"relative", json_value(each.relative)},
                              {"max_abs", json_value(each.max_abs)}});
  }
  return out;
}

std::string diff_text(const CheckpointDiff& diff, const Restored& a, const Restored& b,
                      size_t shown) {
  const auto safe = [](const std::string& text) { return printable(text, std::string::npos); };
  std::string text = fmt::format("a: {}, step {}\nb: {}, step {}\n", safe(a.folder), a.step,
                                 safe(b.folder), b.step);
  for (const ConfigChange& each : diff.config) text += "config: " + safe(each.text()) + "\n";
  for (const std::string& name : diff.only_a) text += "only in a: " + safe(name) + "\n";
  for (const std::string& name : diff.only_b) text += "only in b: " + safe(name) + "\n";
  for (const CheckpointDiff::OtherForm& each : diff.other_form)
    text += fmt::format("{}: {} in a, {} in b\n", safe(each.name), each.a, each.b);
  if (shown > 0) {
    std::vector<std::vector<std::string>> rows = {{"relative", "max abs", "tensor"}};
    for (size_t i = 0; i < shown; ++i) {
      const TensorDifference& each = diff.changed[i];
      rows.push_back(
          {fmt::format("{:.3g}", each.relative), fmt::format("{:.3g}", each.max_abs), each.name});
    }
    text += table(rows);
  }
  return text + (diff.differing() == 0
                     ? "bitwise equal\n"
                     : fmt::format("{} of {} tensors differ\n", diff.differing(), diff.tensors));
}

Exit diff(const Arguments& arguments) {
  const Restored a = Checkpointer::load(arguments.ckpt.path);
  const Restored b = Checkpointer::load(arguments.ckpt.other);
  const CheckpointDiff found = diff_checkpoints(a, b);
  const size_t shown = std::min(found.changed.size(), static_cast<size_t>(arguments.ckpt.top));
  if (arguments.json)
    print_json(diff_json(found, a, b, shown));
  else
    print(diff_text(found, a, b, shown));
  return Exit::ok;
}

Exit average(const Arguments& arguments) {
  const Arguments::Ckpt& given = arguments.ckpt;
  check_output_file(arguments.output);
  if (given.steps.empty() && given.last == 0)
    throw Error(Exit::usage, "bvtrain ckpt average", "give --steps or --last");
  const std::string format = choose_format(arguments.output, arguments.format,
                                           {{"npz", ".npz"}, {"safetensors", ".safetensors"}});
  refuse_remote_path(given.path);
  const std::string path = checkpoint_path(given.path);
  if (!file_exists(path)) throw Error(Exit::usage, path, "no such checkpoint");
  if (is_checkpoint_folder(path)) {
    throw Error(Exit::usage, path,
                "is one checkpoint; give the workdir or the ckpt/ folder of several");
  }
  const CkptFolder ckpt = CkptFolder::at(path);
  const std::vector<int64_t> steps =
      given.last > 0 ? last_steps(ckpt, given.last) : existing_steps(ckpt, given.steps);
  std::vector<std::string> folders;
  for (const int64_t step : steps) folders.push_back(ckpt.step(step));
  TrainedModel trained =
      load_trained_model(average_checkpoints(folders, arguments.ema), arguments.ema);
  trained.card.version = BV_VERSION;
  export_weights(trained, format, arguments.output);
  log::info("Wrote {} parameters, the mean of the checkpoints of steps {}, as {} to {}",
            trained.params.size(), fmt::join(steps, ", "), format, arguments.output);
  return Exit::ok;
}

Exit rm(const Arguments& arguments) {
  const Arguments::Ckpt& given = arguments.ckpt;
  if (given.steps.empty() && !given.all_but_newest)
    throw Error(Exit::usage, "bvtrain ckpt rm", "give --steps or --all-but-newest");
  refuse_remote_path(given.path);
  Workdir workdir(given.path);
  const CkptFolder ckpt = workdir.ckpt();
  std::error_code error;
  if (!std::filesystem::is_directory(ckpt.path(), error))
    throw Error(Exit::usage, given.path, "is not a workdir: it has no folder ckpt/");
  const bool dry = given.dry_run || arguments.dry_run != DryRun::no;
  // Before the workdir is claimed, because computing the checksums may take long.
  const std::vector<int64_t> before = ckpt.steps();
  const std::vector<int64_t> steps =
      given.all_but_newest ? all_but_newest(ckpt) : removable_steps(ckpt, given.steps);
  if (!dry) {
    workdir.claim();
    require_unchanged(ckpt, before);
  }
  uint64_t freed = 0;
  const std::vector<RemovedCheckpoint> removed = remove_checkpoints(ckpt, steps, dry);
  for (const RemovedCheckpoint& each : removed) {
    freed += each.freed;
    print(fmt::format("{} {}: {}\n", dry ? "would remove" : "removed",
                      CkptFolder::step_name(each.step),
                      human_bytes(static_cast<double>(each.freed))));
  }
  print(fmt::format("{} {}\n", dry ? "would free" : "freed",
                    human_bytes(static_cast<double>(freed))));
  return Exit::ok;
}

}  // namespace

Exit ckpt_command(const Arguments& arguments) {
  if (arguments.part == "ls") return ls(arguments);
  if (arguments.part == "verify") return verify(arguments);
  if (arguments.part == "diff") return diff(arguments);
  if (arguments.part == "average") return average(arguments);
  if (arguments.part == "rm") return rm(arguments);
  throw Error(Exit::usage, "bvtrain ckpt", "give one of ls, verify, diff, average and rm");
}

}  // namespace bv

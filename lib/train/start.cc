#include "lib/train/start.h"

#include <algorithm>
#include <chrono>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/weights_file.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/input/check/data_sections.h"
#include "lib/train/data_changes.h"
#include "lib/train/run_changes.h"
#include "lib/train/weights/weights.h"
#include "lib/util/file.h"

namespace bv {
namespace {

// Compares a checkpoint with the state that the recipe's step would have. Returns the result.
std::string check_checkpoint(const Recipe& shapes, const Restored& from) {
  StepConfig options = read_step(shapes.config, *shapes.model, shapes.length);
  TrainStep step(*shapes.model, *shapes.task, std::move(options), shapes.seed, shapes.precision);
  load_run_state(step, from);
  check_step(from, shapes.length.total_steps);
  return fmt::format("{}: the checkpoint of step {} fits", from.folder, from.step);
}

}  // namespace

void load_run_state(TrainStep& step, const Restored& from) {
  try {
    step.load_state(from.tensors, from.folder, from.pieced);
  } catch (const Error& error) {
    if (error.code() != Exit::usage) throw;
    throw Error(error.code(), error.where(),
                fmt::format("{}; a run with this config can only start from the weights: "
                            "'model_init: {}' in a new workdir",
                            error.message(), from.folder));
  }
}

void peek_start(const Config& config) {
  for (const char* key : {"resume", "model_init"}) {
    attempt(config, [&] {
      if (const auto path = config.get(key, ""); !path.empty()) peek_weights(path);
    });
  }
}

void check_step(const Restored& from, int64_t total_steps) {
  if (from.step <= total_steps) return;
  throw Error(Exit::usage, from.folder,
              fmt::format("this checkpoint is at step {}, after the {} steps of this run",
                          from.step, total_steps));
}

std::vector<RunStart> starts_of(const Restored& checkpoint) {
  constexpr int64_t kLatest = int64_t{1} << 53;
  const auto number = [](const nlohmann::json& value) {
    return value.is_number_integer() ? value.get<int64_t>() : -1;
  };
  std::vector<RunStart> starts;
  for (const nlohmann::json& each : checkpoint.meta.value("starts", nlohmann::json::array())) {
    if (!each.is_array() || each.size() != 2) continue;
    const RunStart start = {number(each[0]), number(each[1])};
    if (start.from >= 0 && start.time >= 0 && start.time < kLatest) starts.push_back(start);
  }
  return starts;
}

void add_start(std::vector<RunStart>& starts, int64_t from) {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  // The host of the start before may have had a later clock.
  const int64_t least = starts.empty() ? 0 : starts.back().time + 1;
  std::erase_if(starts, [&](const RunStart& each) { return each.from >= from; });
  const int64_t time = std::chrono::duration_cast<milliseconds>(now).count();
  starts.push_back({from, std::max(time, least)});
}

void check_best(const Selection& selection, const Workdir& workdir) {
  check_best(selection.best, workdir);
  check_best(selection.by_eval, workdir);
}

void check_metric_of_best(const std::vector<BestSeries>& all, const Workdir& workdir) {
  for (const BestSeries& series : all) {
    const WatchedMetric& watched = series.watched;
    const std::string folder = workdir.ckpt().best(series.name);
    const auto found = read_best(folder);
    if (found &&
        (found->metric != watched.metric || found->higher_is_better != watched.higher_is_better)) {
      const auto text = [](const auto& each) {
        return fmt::format("{} {}", each.higher_is_better ? "highest" : "lowest", each.metric);
      };
      throw Error(Exit::usage, watched.place,
                  fmt::format("{}: {} is the checkpoint with the {}; give the {} a unique `name`, "
                              "or move the folder away",
                              watched.key, folder, text(*found), text(watched)));
    }
  }
}

void check_best(const std::vector<BestSeries>& all, const Workdir& workdir) {
  check_metric_of_best(all, workdir);
  const CkptFolder ckpt = workdir.ckpt();
  for (const BestSeries& series : all) {
    const std::string folder = ckpt.best(series.name);
    if (file_exists(folder) && ckpt.steps().empty()) {
      throw Error(Exit::usage, folder,
                  fmt::format("is the best checkpoint of a run, but no other is left, so the run "
                              "would start from the beginning and replace it; continue from it in "
                              "another workdir with 'resume: {}:best', or move it away",
                              workdir.dir()));
    }
  }
}

void check_outside_data(const Config& config, const Workdir& workdir) {
  if (workdir.ckpt().steps().empty())
    check_outside_data(config, workdir.dir(), workdir.dir(), "a --workdir");
}

std::optional<Restored> peek_checkpoint(const Config& config, const Workdir* workdir) {
  if (workdir != nullptr && !workdir->ckpt().steps().empty())
    return Checkpointer::peek(workdir->dir(), /*resumes=*/true);
  const auto path = config.get("resume", "");
  return !path.empty() && is_checkpoint(path) ? Checkpointer::peek(path, /*resumes=*/true)
                                              : std::nullopt;
}

ClassNames classes_of(const std::optional<Restored>& checkpoint) {
  if (!checkpoint || !checkpoint->meta.contains("class_names")) return {};
  return {checkpoint->meta.at("class_names").get<std::vector<std::string>>(),
          fmt::format("the checkpoint {}", checkpoint->folder)};
}

std::string check_start(const Recipe& shapes, const Workdir* workdir, bool accept_changes) {
  if (workdir) {
    check_outside_data(shapes.config, *workdir);
    check_best(shapes.selection, *workdir);
    if (const auto found = Checkpointer::latest(*workdir, {.resumes = true})) {
      const ConfigChanges changes = changes_since(*found, shapes, data_summary(shapes));
      changes.report();
      changes.require(accept_changes, workdir->dir(), /*finished=*/false);
      return check_checkpoint(shapes, *found);
    }
    if (!finished_at(*workdir)) require_checkpoints(*workdir);
  }
  const StartFrom& from = shapes.start;
  if (!from.resume.empty()) {
    if (is_checkpoint(from.resume))
      return "resume " +
             check_checkpoint(shapes, Checkpointer::load(from.resume, {.resumes = true}));
    require_finite(plan_weights(from.resume, *shapes.model, {}), from.resume);
    return fmt::format("resume {}: all arrays fit (parameters only)", from.resume);
  }
  if (from.model_init.empty()) return "from scratch";
  require_finite(plan_weights(from.model_init, *shapes.model, from.dont_load.patterns,
                              from.dont_load.place.text()),
                 from.model_init);
  return fmt::format("model_init {}: all arrays fit{}", from.model_init,
                     from.dont_load.patterns.empty() ? "" : ", except those of dont_load");
}

}  // namespace bv

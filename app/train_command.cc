#include <unistd.h>

#include <cerrno>

#include "app/commands.h"
#include "app/failure.h"
#include "app/json_output.h"
#include "app/launch.h"
#include "app/standard_output.h"
#include "app/time_limit.h"
#include "app/version.h"
#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/workdir/earlier_run.h"
#include "lib/ckpt/workdir/shared_workdir.h"
#include "lib/compare/run_status.h"
#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/device/device_name.h"
#include "lib/distributed/check_agreement.h"
#include "lib/distributed/group.h"
#include "lib/distributed/store.h"
#include "lib/distributed/watch/heartbeat.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/chrono.h"
#include "lib/report/log.h"
#include "lib/report/run_result.h"
#include "lib/train/data_changes.h"
#include "lib/train/dry_run.h"
#include "lib/train/start.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/crash_point.h"
#include "lib/util/json_text.h"
#include "lib/util/rng.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

constexpr double kLockPatience = 60;  // seconds

// Returns the number of ranks of the run that --dry-run describes. This host may have fewer
// devices: cuda:64 counts as 64 ranks.
int planned_ranks(const Arguments& arguments) {
  const Devices devices = parse_devices(arguments.devices);
  const bool number = devices.kind == Devices::Kind::cuda && devices.indices.size() == 1;
  const int here = number ? std::max(devices.indices.front(), 1) : devices.count;
  return here * std::max(arguments.nnodes, 1);
}

// Returns a device of the kind that the run would train on, for --dry-run and --explain. This host
// need not have it.
c10::Device planned_device(const Arguments& arguments) {
  Devices devices = parse_devices(arguments.devices);
  if (devices.kind == Devices::Kind::automatic) devices = resolve_devices(devices);
  return devices.kind == Devices::Kind::cuda ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
}

// Throws Error(Exit::usage) unless all ranks read the same config and data: they would otherwise
// train different models together. Warns if their devices differ.
// `data`: data_summary(recipe); not used in a group of one.
void check_ranks(Group& group, const Recipe& recipe, const nlohmann::json& data, bool writes) {
  check_agreement(group, {{"version", BV_VERSION},
                          {"--workdir", writes ? "a folder" : "none"},
                          {"config", fmt::format("{:016x}", hash64(recipe.config.yaml()))},
                          // `auto` may mean something else on another host.
                          {"device", recipe.device.is_cpu() ? "cpu" : "cuda"},
                          {"precision", recipe.precision_choice.name()},
                          // BVTRAIN_BYTE_IMAGES may differ.
                          {"images", recipe.image_normalization ? "bytes" : "float32"}});
  check_same_data(group, data);
  for (const std::string& text : disagreements(group, device_name(recipe.device))) {
    if (group.rank() > 0) continue;
    log::warn(
        "{}: they may round differently, so the ranks' copies of the weights may drift apart by "
        "rounding errors (docs/distributed.md)",
        text);
  }
}

// Returns rank 0's class names on every rank: other ranks may have no access to the workdir.
ClassNames agreed_classes(Group& group, const ClassNames& mine) {
  if (group.size() == 1) return mine;
  const nlohmann::json text = {{"names", mine.names}, {"owner", mine.owner}};
  const auto agreed =
      nlohmann::json::parse(group.gather_text(json_text(text), "class names").at(0));
  return {agreed.at("names"), agreed.at("owner")};
}

// Returns whether a run that stopped early may continue because its config has changed. Its last
// launch may have saved nothing, so the config of the checkpoint may be older than that launch.
bool may_go_on(const Workdir& workdir, const std::optional<Restored>& checkpoint,
               const Recipe& recipe, const nlohmann::json& data) {
  if (last_config_hash(workdir) == config_hash(recipe.config.json())) return false;
  return checkpoint && changes_end(changes_since(*checkpoint, recipe, data));
}

// Calls work(), which throws Stopped after a signal. The other ranks wait for this one, so that it
// must tell them.
template <class Work>
void tell_if_stopped(const Group& group, const Work& work) {
  try {
    work();
  } catch (const Stopped& stopped) {
    if (group.size() > 1) abort_group(stopped.code, kStoppedBySignal);
    throw;
  }
}

// Rank 0 claims the workdir. Returns on every rank whether the run there has already finished. Rank
// 0 first reads the weights that the run starts from, which may take long.
bool claim(Workdir& workdir, Trainer& trainer, const std::optional<Restored>& checkpoint,
           const Recipe& recipe, const nlohmann::json& data, Group& group, bool restarted) {
  int64_t finished = 0;
  if (group.rank() == 0) {
    check_outside_data(recipe.config, workdir);
    trainer.load_start();
    // Between two generations of ranks, another command may hold the lock for a moment.
    tell_if_stopped(group, [&] { workdir.claim(restarted ? kLockPatience : 0); });
    const std::optional<Workdir::Done> done = finished_at(workdir);
    const bool at_end = done && done->step >= recipe.length.total_steps;
    // A run that stopped early continues if the config now asks for that.
    const bool early =
        done && !done->early.empty() && !may_go_on(workdir, checkpoint, recipe, data);
    finished = at_end || early;
    if (finished == 0) check_best(recipe.selection, workdir);
    if (finished == 0) require_checkpoints(workdir);
    if (!workdir.ckpt().steps().empty()) trainer.check_changes(checkpoint, finished != 0);
    if (finished) {
      log::info("The run in {} finished already, at step {}{}", workdir.dir(), done->step,
                early ? ": it " + done->early : "");
    }
  }
  if (group.all_max(std::array{finished}, "workdir").at(0) != 0) return true;
  if (recipe.step->sharded()) tell_if_stopped(group, [&] { check_shared(group, workdir); });
  return false;
}

void log_grad_accumulation(const Recipe& recipe) {
  const int64_t micro_batches = recipe.grad_accum_steps;
  const int64_t own = recipe.length.batch_size / recipe.ranks.count;
  const int first = recipe.ranks.at_start;
  if (micro_batches == 1) return;
  log::info("Each process computes its {} examples of a step in {} micro-batches of {}{}", own,
            micro_batches, own / micro_batches,
            first > 0 && first != recipe.ranks.count
                ? fmt::format(": the run began with {} processes", first)
                : "");
}

// Records the current exception. With several ranks it also ends the process before any destructor
// runs: destructors may wait for a checkpoint or for the other ranks.
void end_failed(Trainer& trainer, const Group& group) {
  const Failure failure = failure_at_hand();
  if (group.size() > 1) trainer.flush_rows();
  trainer.record_failure(failure.code, failure.line);
  if (group.size() > 1) fail(failure);
}

Exit train(const Arguments& arguments, const Config& config, Workdir& workdir, Group& group,
           c10::Device device, int first_ranks, bool restarted) {
  const bool writes = !arguments.workdir.empty();
  std::optional<Group::Phase> start(std::in_place, group, kIndexing);  // until the first step
  if (group.rank() == 0) crash_point("start.data");
  std::optional<Restored> checkpoint;  // rank 0 only
  if (group.rank() == 0) {
    // The class numbers come from the checkpoint, and the config is compared with it.
    if (writes) restore_replaced(workdir.ckpt());
    checkpoint = peek_checkpoint(config, writes ? &workdir : nullptr);
  }
  Recipe recipe(config, arguments.synthetic, /*meta=*/false, group, device, first_ranks,
                agreed_classes(group, classes_of(checkpoint)));
  if (group.rank() == 0) {
    for (const std::string& line : warnings(config)) log::warn("{}", line);
    log_grad_accumulation(recipe);
  }
  nlohmann::json data;
  if (writes || group.size() > 1) data = data_summary(recipe);
  check_ranks(group, recipe, data, writes);
  recipe.data->open_cache(group);
  start.emplace(group, "start");
  TrainerOptions options = {
      arguments.argv,      BV_VERSION, build_commit(), arguments.cleanup, arguments.accept_changes,
      arguments.synthetic, data};
  options.before_first_step = [&start] { start.reset(); };
  std::optional<Trainer> trainer;
  while (true) {
    trainer.emplace(recipe, writes ? &workdir : nullptr, options, group);
    try {
      const bool first = !options.before;
      if (first && writes && claim(workdir, *trainer, checkpoint, recipe, data, group, restarted))
        return Exit::ok;
      if (!writes && group.rank() == 0) log::warn("no --workdir given: nothing will be saved");
      return trainer->run();
    } catch (const RolledBack&) {
      start.emplace(group, "start");
      options.before = trainer->process();
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      end_failed(*trainer, group);
      throw;
    }
  }
}

std::shared_ptr<Group> join_group(const RankLayout& layout, c10::Device device) {
  GroupOptions options = group_options(environment_map());
  if (!device.is_cpu()) options.cuda = device.index();
  options.stop = [] { return stop_requested() != Exit::ok; };
  try {
    return Group::join(layout, options);
  } catch (const Interrupted&) {
    log::info("Stopped by a signal; nothing was saved");
    log::flush();
    abort_group(stop_requested(), kStoppedBySignal);
    throw Stopped{stop_requested()};
  }
}

Exit train_in_group(const Arguments& arguments, const Config& config, Workdir& workdir) {
  const Devices devices = resolve_devices(parse_devices(arguments.devices));
  const RankLayout layout = find_rank_layout(arguments, devices);
  if (layout.launches) return launch_ranks(arguments, config, layout);
  const c10::Device device = own_device(devices, layout.place());
  if (!device.is_cpu()) use_cuda(device.index());
  if (layout.size == 1) {
    return train(arguments, config, workdir, Group::single(), device, layout.first_size,
                 layout.restarts > 0);
  }
  log::set_rank(layout.rank);
  const auto group = join_group(layout, device);
  if (layout.rank == 0) log::info("{}", describe(layout));
  const Exit code =
      train(arguments, config, workdir, *group, device, layout.first_size, layout.restarts > 0);
  group->finish(/*complete=*/code == Exit::ok);
  return code;
}

// Whether this host can list the folder, or it does not exist.
bool may_list(const std::string& dir) {
  return ::access(dir.c_str(), R_OK | X_OK) == 0 || errno != EACCES;
}

}  // namespace

Exit train_command(const Arguments& arguments) {
  if (arguments.config.empty()) {
    throw Error(
        Exit::usage, "bvtrain",
        "no --config given; try --config configs/digits_cnn.yaml --workdir out/digits, or --help");
  }
  check_launch_flags(arguments);
  if (!arguments.max_time.empty()) parse_time_limit(arguments.max_time);
  Workdir workdir(arguments.workdir);
  const bool dry = arguments.dry_run != DryRun::no;
  const bool trains = arguments.trains();
  if (trains && !arguments.workdir.empty()) workdir.check_writable();
  if (dry && !arguments.workdir.empty()) {
    workdir.check_path();
    warn_of_host([&] { workdir.check_writable(); });
  }
  const bool given = !arguments.workdir.empty() && (trains || may_list(arguments.workdir));

  const Config config = load_config(arguments.config, arguments.overrides);
  if (!given || workdir.ckpt().steps().empty()) peek_start(config);
  if (trains) {
    set_time_limit(arguments);
    const Exit code = train_in_group(arguments, config, workdir);
    if (code == Exit::stopped) requeue_job(arguments);
    return code;
  }
  if (dry) {
    const DryRunSummary summary =
        dry_run(config, given ? &workdir : nullptr,
                {arguments.synthetic, arguments.dry_run == DryRun::full, arguments.accept_changes,
                 planned_ranks(arguments), planned_device(arguments)});
    for (const std::string& line : warnings(config)) log::warn("{}", line);
    const Devices devices = parse_devices(arguments.devices);
    if (devices.kind == Devices::Kind::cuda) warn_of_host([&] { resolve_devices(devices); });
    if (arguments.json)
      print_json(summary.json());
    else
      print(summary.text());
    return Exit::ok;
  }
  // On the meta device: --explain allocates no parameters.
  try {
    const Recipe recipe(config, arguments.synthetic, /*meta=*/true, Group::single(),
                        planned_device(arguments));
  } catch (const Error&) {
    print(explain(config));  // the messages refer to this table
    throw;
  }
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  print(explain(config));
  return Exit::ok;
}

}  // namespace bv

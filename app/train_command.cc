#include <unistd.h>

#include <cerrno>

#include "app/commands.h"
#include "app/failure.h"
#include "app/json_output.h"
#include "app/launch.h"
#include "app/standard_output.h"
#include "app/version.h"
#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/distributed/group.h"
#include "lib/distributed/store.h"
#include "lib/distributed/watch/heartbeat.h"
#include "lib/distributed/watch/watch.h"
#include "lib/report/log.h"
#include "lib/report/log_warnings.h"
#include "lib/train/claim.h"
#include "lib/train/data_changes.h"
#include "lib/train/dry_run.h"
#include "lib/train/start.h"
#include "lib/train/time_limit.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/crash_point.h"
#include "lib/util/signals.h"
#include "lib/util/version_text.h"

namespace bv {
namespace {

// Returns the number of ranks of the run that --dry-run describes. This host may have fewer
// devices.
int planned_ranks(const Arguments& arguments) {
  return parse_devices(arguments.devices).count * std::max(arguments.nnodes, 1);
}

// Returns a device of the kind that the run would train on, for --dry-run and --explain. This host
// need not have it.
c10::Device planned_device(const Arguments& arguments) {
  Devices devices = parse_devices(arguments.devices);
  if (devices.kind == Devices::Kind::automatic) devices = resolve_devices(devices);
  return devices.kind == Devices::Kind::cuda ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
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
void end_failed(Trainer& trainer, Group& group) {
  const Failure failure = failure_at_hand();
  const Group::Phase failing(group, kFailing);
  trainer.report_failure(failure.code, failure.line);
  if (group.size() > 1) trainer.flush_rows();
  trainer.record_failure(failure.code, failure.line);
  if (group.size() > 1) fail(failure);
}

Exit train(const Arguments& arguments, const Config& config, Workdir& workdir, Group& group,
           c10::Device device, const RankLayout& layout) {
  const bool writes = !arguments.workdir.empty();
  check_versions(group, version_text(BV_VERSION, build_commit()));
  std::optional<Group::Phase> start(std::in_place, group, kIndexing);  // until the first step
  if (group.rank() == 0) crash_point("start.data");
  FoundRun found;  // rank 0 only
  if (group.rank() == 0) {
    if (writes) {
      workdir.restore_unless_taken();
      found.steps = workdir.ckpt().steps();
    }
    // The class numbers come from the checkpoint, and the config is compared with it.
    found.checkpoint = peek_checkpoint(config, writes ? &workdir : nullptr);
  }
  Recipe recipe(config, arguments.synthetic, /*meta=*/false, group, device, layout.first_size,
                agreed_classes(group, classes_of(found.checkpoint)));
  if (group.rank() == 0) {
    log_warnings(config);
    log_grad_accumulation(recipe);
  }
  nlohmann::json data;
  if (writes || group.size() > 1) data = data_summary(recipe);
  check_ranks(group, recipe, data, writes);
  check_cache_outside_data(config);
  recipe.data->open_cache(group);
  start.emplace(group, "start");
  TrainerOptions options = {.argv = arguments.argv,
                            .tool_version = BV_VERSION,
                            .commit = build_commit(),
                            .cleanup = arguments.cleanup,
                            .accept_changes = arguments.accept_changes,
                            .synthetic = arguments.synthetic,
                            .data_summary = data,
                            .before_first_step = [&start] { start.reset(); }};
  std::optional<Trainer> trainer;
  while (true) {
    trainer.emplace(recipe, writes ? &workdir : nullptr, options, group);
    try {
      const bool first = !options.before;
      if (first && writes &&
          claim_workdir(workdir, *trainer, found, recipe, data, group, layout.restarts > 0))
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

// Says on rank 0 that a run was stopped before its first step.
template <class Run>
Exit explain_stop(const Group& group, const Run& run) {
  try {
    return run();
  } catch (const Stopped&) {
    if (group.rank() == 0) {
      log::info("Stopped by {} before the first step; nothing was saved",
                stopped_by_time() ? "the time limit" : "a signal");
    }
    throw;
  }
}

Exit train_in_group(const Arguments& arguments, const Config& config, Workdir& workdir,
                    const Devices& devices, const RankLayout& layout) {
  if (layout.launches) return launch_ranks(arguments, config, layout);
  const c10::Device device = own_device(devices, layout.place());
  if (!device.is_cpu()) use_cuda(device.index());
  const auto train_with = [&](Group& group) {
    return explain_stop(group,
                        [&] { return train(arguments, config, workdir, group, device, layout); });
  };
  if (layout.size == 1) return train_with(Group::single());
  log::set_rank(layout.rank);
  const auto group = join_group(layout, device);
  if (layout.rank == 0) log::info("{}", describe(layout));
  const Exit code = train_with(*group);
  group->finish(/*complete=*/code == Exit::ok);
  return code;
}

// Trains within the time limit. Afterwards it requeues the slurm job, if the flags say so.
Exit train_within_limit(const Arguments& arguments, const Config& config, Workdir& workdir) {
  const Devices devices = resolve_devices(parse_devices(arguments.devices));
  const RankLayout layout = find_rank_layout(arguments, devices);
  const TimeLimit limit = {arguments.max_time, arguments.requeue, arguments.workdir, layout};
  set_time_limit(limit);
  try {
    const Exit code = train_in_group(arguments, config, workdir, devices, layout);
    if (code == Exit::stopped) requeue_job(limit);
    return code;
  } catch (const Stopped& stopped) {
    if (stopped.code == Exit::stopped) requeue_job(limit);
    throw;
  }
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
  const bool has_workdir = !arguments.workdir.empty() && (trains || may_list(arguments.workdir));

  const Config config = load_config(arguments.config, arguments.overrides);
  if (!has_workdir || workdir.ckpt().steps().empty()) peek_start(config);
  if (trains) return train_within_limit(arguments, config, workdir);
  if (dry) {
    const DryRunSummary summary =
        dry_run(config, has_workdir ? &workdir : nullptr,
                {arguments.synthetic, arguments.dry_run == DryRun::full, arguments.accept_changes,
                 planned_ranks(arguments), planned_device(arguments)});
    log_warnings(config);
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
  log_warnings(config);
  print(explain(config));
  return Exit::ok;
}

}  // namespace bv

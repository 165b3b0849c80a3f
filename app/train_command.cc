#include <cstdio>

#include "app/commands.h"
#include "app/launch.h"
#include "lib/dist/group.h"
#include "lib/report/log.h"
#include "lib/train/dry_run.h"
#include "lib/train/start.h"
#include "lib/train/trainer.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

void refuse_cuda(const Arguments& arguments) {
  if (!arguments.devices.starts_with("cuda")) return;
  throw Error(Exit::usage, "--devices " + arguments.devices,
              "this build trains on CPUs only; expected cpu, cpu:N or auto");
}

// Of the run that --dry-run looks at. Without the devices at hand, cuda:64 means 64 of them there.
int pretended_ranks(const Arguments& arguments) {
  const dist::Devices devices = dist::parse_devices(arguments.devices);
  const bool number = devices.kind == dist::Devices::Kind::cuda && devices.indices.size() == 1;
  const int here = number ? std::max(devices.indices.front(), 1) : devices.count;
  return here * std::max(arguments.nnodes, 1);
}

// Ranks that start from different files would train different models together.
void check_ranks(dist::Group& group, const Recipe& recipe) {
  dist::check_agreement(group, {{"version", BV_VERSION},
                                {"config", fmt::format("{:016x}", hash64(recipe.config.yaml()))},
                                {"training examples", std::to_string(recipe.length.data_size)}});
}

// Rank 0 takes the workdir. Returns whether the run in it is finished already, to all ranks.
bool claim(Workdir& workdir, Trainer& trainer, const Recipe& recipe, dist::Group& group) {
  int64_t finished = 0;
  if (group.rank() == 0) {
    trainer.load_start();
    workdir.claim();
    finished = workdir.finished() && *workdir.finished() >= recipe.length.total_steps;
    if (finished) log::info("{} finished already, at step {}", workdir.dir(), *workdir.finished());
  }
  return group.all_max(std::array{finished}, "workdir").at(0) != 0;
}

Exit train(const Arguments& arguments, const Config& config, Workdir& workdir, dist::Group& group) {
  Recipe recipe(config, arguments.synthetic, /*meta=*/false, group.size() > 1 ? &group : nullptr);
  if (group.rank() == 0) {
    for (const std::string& line : warnings(config)) log::warn("{}", line);
  }
  check_ranks(group, recipe);
  const bool writes = !arguments.workdir.empty();
  Trainer trainer(recipe, writes ? &workdir : nullptr,
                  {arguments.argv, BV_VERSION, arguments.cleanup}, group);
  if (!writes) {
    if (group.rank() == 0) log::warn("no --workdir given: nothing will be saved");
  } else if (claim(workdir, trainer, recipe, group)) {
    return Exit::ok;
  }
  return trainer.run();
}

Exit train_in_group(const Arguments& arguments, const Config& config, Workdir& workdir) {
  const dist::Place place = find_place(arguments);
  if (place.launches) return launch_ranks(arguments, config, place);
  if (place.size == 1) return train(arguments, config, workdir, *dist::Group::alone());
  log::set_rank(place.rank);
  const auto group = dist::Group::join(place, dist::group_options(dist::environment_map()));
  if (place.rank == 0) log::info("{}", describe(place));
  const Exit code = train(arguments, config, workdir, *group);
  group->finish();
  return code;
}

}  // namespace

Exit train_command(const Arguments& arguments) {
  if (arguments.config.empty()) {
    throw Error(
        Exit::usage, "bvtrain",
        "no --config given; try --config configs/digits_cnn.yaml --workdir out/digits, or --help");
  }
  const bool trains = arguments.dry_run == DryRun::no && !arguments.explain;
  if (trains) refuse_cuda(arguments);
  Workdir workdir(arguments.workdir);
  if (trains && !arguments.workdir.empty()) workdir.check_writable();

  const Config config = load_config(arguments.config, arguments.overrides);
  if (arguments.workdir.empty() || workdir.ckpt_steps().empty()) peek_start(config);
  if (trains) return train_in_group(arguments, config, workdir);
  if (arguments.dry_run != DryRun::no) {
    const std::string summary =
        dry_run(config, arguments.synthetic, arguments.dry_run == DryRun::full,
                arguments.workdir.empty() ? nullptr : &workdir, pretended_ranks(arguments));
    for (const std::string& line : warnings(config)) log::warn("{}", line);
    std::fputs(summary.c_str(), stdout);
    return Exit::ok;
  }
  const Recipe recipe(config, arguments.synthetic);
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  std::fputs(explain(config).c_str(), stdout);
  return Exit::ok;
}

}  // namespace bv

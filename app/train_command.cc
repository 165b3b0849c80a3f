#include <cstdio>

#include "app/commands.h"
#include "lib/report/log.h"
#include "lib/train/dry_run.h"
#include "lib/train/trainer.h"

namespace bv {
namespace {

void check_devices(const std::string& devices) {
  if (devices == "cpu" || devices == "auto") return;
  throw Error(Exit::usage, "--devices " + devices,
              "this build trains on one CPU process only; expected cpu or auto");
}

}  // namespace

Exit train_command(const Arguments& arguments) {
  if (arguments.config.empty()) {
    throw Error(
        Exit::usage, "bvtrain",
        "no --config given; try --config configs/digits_cnn.yaml --workdir out/digits, or --help");
  }
  check_devices(arguments.devices);
  const bool writes =
      arguments.dry_run == DryRun::no && !arguments.explain && !arguments.workdir.empty();
  Workdir workdir(arguments.workdir);
  if (writes) workdir.check_writable();

  const Config config = load_config(arguments.config, arguments.overrides);
  if (arguments.dry_run != DryRun::no) {
    const std::string summary =
        dry_run(config, arguments.synthetic, arguments.dry_run == DryRun::full);
    for (const std::string& line : warnings(config)) log::warn("{}", line);
    std::fputs(summary.c_str(), stdout);
    return Exit::ok;
  }
  Recipe recipe(config, arguments.synthetic);
  for (const std::string& line : warnings(config)) log::warn("{}", line);
  if (arguments.explain) {
    std::fputs(explain(config).c_str(), stdout);
    return Exit::ok;
  }
  Trainer trainer(recipe, writes ? &workdir : nullptr,
                  {arguments.argv, BV_VERSION, arguments.cleanup});
  if (writes) {
    trainer.load_start();
    workdir.claim();
    if (workdir.finished() && *workdir.finished() >= recipe.length.total_steps) {
      log::info("{} finished already, at step {}", workdir.dir(), *workdir.finished());
      return Exit::ok;
    }
  } else {
    log::warn("no --workdir given: nothing will be saved");
  }
  return trainer.run();
}

}  // namespace bv

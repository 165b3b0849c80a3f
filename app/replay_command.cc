// bvtrain replay: finds where values become non-finite. Repeats the bad step from a folder that a
// run has left, or a run from its last checkpoint.
#include <cstdlib>

#include "app/commands.h"
#include "app/json_output.h"
#include "app/standard_output.h"
#include "lib/predict/replay_step.h"
#include "lib/report/log.h"
#include "lib/train/trainer/replay.h"

namespace bv {
namespace {

void print_bad_step(const BadStep& bad, bool json) {
  if (json)
    print_json(bad.json());
  else
    print(bad.text());
}

Exit replay_folder(const Arguments& arguments) {
  const char* usual = std::getenv("BVTRAIN_WORKDIR");
  const bool workdir = !arguments.workdir.empty() && !(usual && arguments.workdir == usual);
  for (const auto& [given, flag] :
       {std::pair(workdir, "--workdir"), std::pair(!arguments.overrides.empty(), "--set"),
        std::pair(arguments.replay.steps > 0, "--steps")}) {
    if (given)
      throw Error(Exit::usage, flag,
                  "applies to `replay --workdir` only; leave it out with the folder of a step");
  }
  print_bad_step(replay_step(arguments.replay.folder), arguments.json);
  return Exit::diverged;
}

}  // namespace

Exit replay_command(const Arguments& arguments) {
  if (!arguments.replay.folder.empty()) return replay_folder(arguments);
  if (arguments.workdir.empty()) {
    throw Error(Exit::usage, "bvtrain replay",
                "give --workdir, or the folder of a bad step, such as D/post-mortem/step-12");
  }
  // A step mixes float images in place, so the batch then holds what the model received. Byte
  // images would be left unmixed.
  ::setenv("BVTRAIN_BYTE_IMAGES", "0", /*overwrite=*/1);
  Workdir workdir(arguments.workdir);
  const Replay result = replay(workdir, arguments.overrides, arguments.replay.steps);
  if (!result.bad) {
    const int64_t first = result.first_step + 1, last = result.last_step;
    if (arguments.json)
      print_json({{"finite", true}, {"first_step", first}, {"last_step", last}});
    else
      print(fmt::format("all values of the steps {} to {} are finite\n", first, last));
    return Exit::ok;
  }
  print_bad_step(*result.bad, arguments.json);
  const std::string folder = workdir.post_mortem(result.bad->step);
  try {
    workdir.claim();  // the run may write the folder of the same step
  } catch (const Error& error) {
    log::warn("{} is not written: {}", folder, error.what());
    return Exit::diverged;
  }
  write_bad_step(folder, *result.bad, &result.weights);
  log::info("The batch, the weights before the step and their norms are in {}", folder);
  return Exit::diverged;
}

}  // namespace bv

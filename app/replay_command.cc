// bvtrain replay: repeats a run from its last checkpoint to find where values stop being finite.
#include <cstdlib>

#include "app/commands.h"
#include "app/json_output.h"
#include "app/standard_output.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/report/log.h"
#include "lib/train/trainer/replay.h"
#include "lib/util/file.h"

namespace bv {

Exit replay_command(const Arguments& arguments) {
  if (arguments.workdir.empty()) throw Error(Exit::usage, "bvtrain replay", "give --workdir");
  // A step mixes float images in place. So the batch is afterwards what the model got, which bytes
  // would not be.
  ::setenv("BVTRAIN_BYTE_IMAGES", "0", /*overwrite=*/1);
  const Workdir workdir(arguments.workdir);
  const Replay result = replay(workdir, arguments.overrides, arguments.replay_steps);
  if (!result.bad) {
    print(fmt::format("all values of the steps {} to {} are finite\n", result.first_step + 1,
                      result.last_step));
    return Exit::ok;
  }
  const std::string folder = workdir.post_mortem(result.bad->step);
  make_folders(folder);
  write_npz(folder + "/batch.npz", result.bad->batch);
  write_file_atomically(folder + "/report.json", result.bad->json().dump(2) + "\n");
  if (arguments.json)
    print_json(result.bad->json());
  else
    print(result.bad->text());
  log::info("The batch and the lengths of all parameters are in {}", folder);
  return Exit::diverged;
}

}  // namespace bv

#include "lib/help/exit_codes.h"

namespace bv {

const std::vector<ExitText>& exit_codes() {
  static const std::vector<ExitText> codes = {
      {Exit::ok, "finished", "The command completed, now or in an earlier run."},
      {Exit::internal, "internal error",
       "A bug in bvtrain. Please report the line that it printed."},
      {Exit::usage, "bad usage",
       "The command line, config, data set, weights or launch environment is wrong. Nothing was "
       "trained. Correct what the message says and run the command again."},
      {Exit::data, "data error",
       "During the run, more examples were broken than skip_errors allows, or a label was out of "
       "range. For predict: no image could be read. For data check: an example is broken. Correct "
       "the data and run the command again."},
      {Exit::diverged, "diverged",
       "The loss or a gradient became NaN or infinite. The same command fails again: lower lr, or "
       "set grad_clip_norm or a warm-up. For predict: no output of the model is finite. For "
       "replay: it found the step whose values are not finite."},
      {Exit::storage, "storage failed",
       "A file could not be written, or a disk could not be read. Free some space or repair the "
       "disk, then run the command again: it continues from the last checkpoint. For ckpt verify: "
       "a checkpoint is damaged."},
      {Exit::memory, "out of memory",
       "The host or device ran out of memory. Raise grad_accum_steps, or lower input.batch_size."},
      {Exit::peer, "another process failed",
       "Another process of the run failed, or did not reach a collective in time. Its own message "
       "says why. Fix the cause and run the command again. For eval --follow: the run failed, or "
       "its files are gone."},
      {Exit::stopped, "stopped early",
       "The run stopped before a time limit (--max-time, or the end of the slurm job) or by "
       "SIGUSR1, and saved a checkpoint if it had completed a step. Run the same command again to "
       "continue."},
      {Exit::sigint, "stopped by SIGINT",
       "Ctrl-C. A run saved a checkpoint first: run the same command again to continue. Any other "
       "command ended at once."},
      {Exit::no_reader, "no reader",
       "The program that read standard output, such as head, closed the pipe. This is fine unless "
       "it should have read more."},
      {Exit::sigterm, "stopped by SIGTERM",
       "SIGTERM or SIGHUP: kill, a scheduler, or a closed terminal. A run saved a checkpoint "
       "first: "
       "run the same command again to continue. Any other command ended at once."},
  };
  return codes;
}

}  // namespace bv

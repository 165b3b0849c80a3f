// The program bvtrain: parses the command line, runs one command and turns every failure into one
// line on stderr and an exit code.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <string_view>

#include "app/commands.h"
#include "app/failure.h"
#include "app/standard_output.h"
#include "app/version.h"
#include "lib/device/heap.h"
#include "lib/device/large_blocks.h"
#include "lib/distributed/open_files.h"
#include "lib/report/log.h"
#include "lib/util/debug_on_crash.h"
#include "lib/util/file.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

Exit run(int argc, char** argv) {
  Arguments arguments;
  if (!parse_arguments(argc, argv, arguments)) return Exit::ok;
  if (!arguments.trains()) end_on_signals();
  if (arguments.version) {
    print_version();
    return Exit::ok;
  }
  if (!arguments.list.empty()) return list_command(arguments);
  if (arguments.debug_on_crash) wait_for_debugger_on_crash();
  log::start();
  switch (arguments.verb) {
    case Arguments::Verb::export_weights:
      return export_command(arguments);
    case Arguments::Verb::predict:
      return predict_command(arguments);
    case Arguments::Verb::eval:
      return eval_command(arguments);
    case Arguments::Verb::replay:
      return replay_command(arguments);
    case Arguments::Verb::bench:
      return bench_command(arguments);
    case Arguments::Verb::compare:
      return compare_command(arguments);
    case Arguments::Verb::ckpt:
      return ckpt_command(arguments);
    case Arguments::Verb::data:
      return data_command(arguments);
    case Arguments::Verb::init:
      return init_command(arguments);
    case Arguments::Verb::help:
      return help_command(arguments);
    case Arguments::Verb::schema:
      return schema_command();
    case Arguments::Verb::completion:
      return completion_command(arguments);
    case Arguments::Verb::train:
      break;
  }
  return train_command(arguments);
}

// Blocks the signals that stop a run before the dynamic linker initializes LibTorch's static
// objects, which is most of the start-up time. A signal that arrives meanwhile is delivered when
// install_signal_handlers() unblocks it.
void block_signals() {
  const sigset_t signals = stop_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

// Ends the process if the current folder has been deleted. Otherwise the initializer of MKL would
// end it, with a message that blames LibTorch.
void check_current_folder() {
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof(folder)) != nullptr || errno != ENOENT) return;
  constexpr std::string_view kText =
      "bvtrain: error: the current folder has been deleted; change to one that exists\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  _exit(static_cast<int>(Exit::usage));
}

void before_libraries(int, char**, char**) {
  block_signals();
  check_current_folder();
}
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const g_before_libraries)(int, char**, char**) = &before_libraries;

// Ends the process without destroying LibTorch's static objects, which would take every rank a
// tenth of a second. run() has closed everything that must be closed. Reports a failure if stdout
// could not be written.
[[noreturn]] void end(Exit code) {
  log::flush();
  code = end_stdout(code);
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}

}  // namespace
}  // namespace bv

int main(int argc, char** argv) {
  using namespace bv;
  open_standard_descriptors();  // before anything opens a file
  keep_freed_memory();
  keep_large_tensors();
  raise_open_files();
  install_signal_handlers();
  try {
    end(run(argc, argv));
  } catch (const Stopped& stopped) {
    end(stopped.code);
  } catch (...) {
    end(fail(failure_at_hand()));
  }
}

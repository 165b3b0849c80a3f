// bvtrain: parses the command line, runs one verb, turns every failure into one line and an exit
// code.
#include <c10/util/Exception.h>

#include <cstdio>
#include <new>

#include "app/commands.h"
#include "lib/report/log.h"
#include "lib/train/signals.h"
#include "lib/util/text.h"

namespace {

using namespace bv;

Exit run(int argc, char** argv) {
  Arguments arguments;
  if (!parse_arguments(argc, argv, arguments)) return Exit::ok;
  if (arguments.version) {
    print_version();
    return Exit::ok;
  }
  if (!arguments.list.empty()) return list_command(arguments.list);
  log::start();
  switch (arguments.verb) {
    case Arguments::Verb::export_weights:
      return export_command(arguments);
    case Arguments::Verb::bench:
      return bench_command(arguments);
    case Arguments::Verb::train:
      break;
  }
  return train_command(arguments);
}

int fail(Exit code, const std::string& line) {
  log::clear_progress();
  log::flush();
  std::fprintf(stderr, "%s\n", line.c_str());
  return static_cast<int>(code);
}

constexpr const char* kMemoryHint =
    "error: out of memory; try a smaller input.batch_size or a smaller model (--dry-run prints "
    "sizes)";

}  // namespace

int main(int argc, char** argv) {
  install_signal_handlers();
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const Stopped& stopped) {
    return static_cast<int>(stopped.code);
  } catch (const std::bad_alloc&) {
    return fail(Exit::memory, kMemoryHint);
  } catch (const c10::OutOfMemoryError& error) {
    return fail(Exit::memory, kMemoryHint);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    if (what.find("not enough memory") != std::string::npos) return fail(Exit::memory, kMemoryHint);
    return fail(Exit::internal, "error: " + split(what, '\n')[0]);
  } catch (const std::exception& error) {
    return fail(Exit::internal, std::string("error: ") + error.what());
  }
}

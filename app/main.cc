// bvtrain: parses the command line, runs one verb, turns every failure into one line and an exit
// code.
#include <c10/util/Exception.h>
#include <malloc.h>

#include <cstdio>
#include <limits>
#include <new>

#include "app/commands.h"
#include "lib/dist/group.h"
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
    case Arguments::Verb::predict:
      return predict_command(arguments);
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
  dist::leave_group(code, line);  // a rank tells the others why it ends; does not return then
  return static_cast<int>(code);
}

constexpr const char* kMemoryHint =
    "error: out of memory; try a smaller input.batch_size or a smaller model (--dry-run prints "
    "sizes)";

// A step frees and takes the same large blocks again and again. Kept by the heap instead of being
// given back each time, they are not faulted in anew: a sixth of the time of a convolutional net's
// step. One arena for all threads, or each would keep its own: the resident size stays flat.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // bytes; the most that glibc takes
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
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

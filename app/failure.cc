#include "app/failure.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <string>
#include <system_error>

#include "lib/device/out_of_memory.h"
#include "lib/distributed/group.h"
#include "lib/report/console.h"
#include "lib/report/log.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kMemoryHint =
    "error: out of memory; raise grad_accum_steps, or lower input.batch_size or the model's size "
    "(`bvtrain bench memory` shows what uses the memory)";

constexpr const char* kThreadHint =
    "error: can't start another thread; raise the limit on processes (ulimit -u)";

}  // namespace

Failure failure_at_hand() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) return {Exit::memory, kMemoryHint};
    const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
    if (of_system != nullptr &&
        of_system->code() == std::errc::resource_unavailable_try_again)  // std::thread throws this
      return {Exit::usage, kThreadHint};
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string what =
        of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    return {Exit::internal, "error: " + printable(split(what, '\n')[0], std::string::npos)};
  } catch (...) {
    return {Exit::internal, "error: an object that is not a std::exception was thrown"};
  }
}

Exit fail(const Failure& failure) {
  log::clear_progress();
  log::write_detail(failure.line);  // standard error may drop it
  log::flush();
  std::fflush(stdout);  // they may be the same file: what was printed before comes first
  console::write(failure.line + "\n");
  abort_group(failure.code, failure.line);  // does not return in a group
  return failure.code;
}

}  // namespace bv

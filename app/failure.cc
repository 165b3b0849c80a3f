#include "app/failure.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <new>

#include "lib/distributed/group.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kMemoryHint =
    "error: out of memory; try a smaller input.batch_size or a smaller model (--dry-run prints "
    "sizes)";

}  // namespace

Failure failure_at_hand() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {Exit::memory, kMemoryHint};
  } catch (const c10::OutOfMemoryError&) {
    return {Exit::memory, kMemoryHint};
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    if (what.find("not enough memory") != std::string::npos) return {Exit::memory, kMemoryHint};
    return {Exit::internal, "error: " + split(what, '\n')[0]};
  } catch (const std::exception& error) {
    return {Exit::internal, std::string("error: ") + error.what()};
  } catch (...) {
    return {Exit::internal, "error: an object that is not a std::exception was thrown"};
  }
}

int fail(const Failure& failure) {
  log::clear_progress();
  log::flush();
  std::fprintf(stderr, "%s\n", failure.line.c_str());
  abort_group(failure.code, failure.line);  // does not return in a group
  return static_cast<int>(failure.code);
}

}  // namespace bv

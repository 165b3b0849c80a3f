#include "lib/input/failure.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

namespace bv {
namespace {

// The message without "[room] ", "error: " and the example's name, first line only.
std::string_view bare(std::string_view what, std::string_view name) {
  what = what.substr(0, what.find('\n'));
  constexpr std::string_view kRoom = "abcdefghijklmnopqrstuvwxyz._";
  if (what.starts_with('[')) {
    const size_t end = what.find_first_not_of(kRoom, 1);
    if (end != what.npos && what.substr(end).starts_with("] ")) what.remove_prefix(end + 2);
  }
  for (const std::string_view prefix :
       {std::string_view("error"), name, std::string_view("error")}) {
    if (what.starts_with(prefix) && what.substr(prefix.size()).starts_with(": ")) {
      what.remove_prefix(prefix.size() + 2);
    }
  }
  return what;
}

}  // namespace

Failure current_failure(const Dataset& data, int64_t index) {
  const std::string name = data.describe(index);
  const auto failure = [&](Exit code, bool fatal, std::string_view what) {
    return Failure{.index = index,
                   .fatal = fatal,
                   .code = code,
                   .text = fmt::format("{}: {}", name, bare(what, name))};
  };
  try {
    throw;
  } catch (const Error& error) {
    const bool usage = error.code() == Exit::usage;
    return failure(usage ? Exit::data : error.code(), error.code() != Exit::data, error.what());
  } catch (const std::bad_alloc&) {
    return failure(Exit::memory, true, "out of memory");
  } catch (const c10::Error& error) {
    return failure(Exit::data, false, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failure(Exit::data, false, error.what());
  } catch (...) {
    return failure(Exit::internal, true, "unknown exception");
  }
}

}  // namespace bv

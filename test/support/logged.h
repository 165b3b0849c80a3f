// What code writes to the log.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "lib/report/log.h"
#include "test/support/folder.h"

namespace bv::test {

// Returns what `call` logs.
inline std::string logged(const std::function<void()>& call) {
  static const TempFolder folder;  // the log stays open
  std::filesystem::remove(folder / "log");
  log::open_file(folder / "log");
  call();
  log::flush();
  return read_text(folder / "log");
}

}  // namespace bv::test

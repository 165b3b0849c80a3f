#include "test/support/browser.h"

#include <cstdio>
#include <cstdlib>

#include "test/support/process.h"

namespace bv::test {
namespace {

bool has_browser() {
  return std::getenv("CHROMIUM") != nullptr ||
         std::system("command -v chromium google-chrome >/dev/null 2>&1") == 0;
}

}  // namespace

std::string page_problems(const std::vector<std::string>& pages) {
  if (!has_browser()) {
    const char* required = std::getenv("BVTRAIN_REQUIRE_BROWSER");
    if (required != nullptr && std::string(required) == "1") return "chromium is not installed";
    std::printf("skipped: chromium is not installed, so no page is opened in a browser\n");
    return "";
  }
  std::vector<std::string> command{"env", "python3", BV_SOURCE_DIR "/scripts/check_pages.py"};
  command.insert(command.end(), pages.begin(), pages.end());
  const Finished finished = Process("/usr/bin/env", command, {}).wait();
  if (finished.code == 0) return "";
  return finished.out + finished.err + "check_pages.py ended with " + std::to_string(finished.code);
}

}  // namespace bv::test

// Checks HTML pages in a real browser.
#pragma once

#include <string>
#include <vector>

namespace bv::test {

// Opens HTML pages in headless Chromium (scripts/check_pages.py lists the checks) and returns
// one line for each problem; empty if there is none. Without Chromium it prints a line and returns
// "", or, with BVTRAIN_REQUIRE_BROWSER=1, returns that it is missing.
std::string page_problems(const std::vector<std::string>& pages);

}  // namespace bv::test

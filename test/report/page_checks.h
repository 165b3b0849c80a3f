// Checks of report pages and charts as text.
#pragma once

#include <string>
#include <vector>

#include "lib/report/page/report.h"
#include "test/support/text.h"

namespace bv::test {

// Returns "" if every element is closed in order, attributes are quoted, and text has no stray < or
// &. Otherwise returns what is wrong.
inline std::string tag_problem(const std::string& page) {
  std::vector<std::string> open;
  size_t at = 0;
  while (at < page.size()) {
    const size_t next = page.find_first_of("<&", at);
    if (next == std::string::npos) break;
    if (page[next] == '&') {
      const size_t end = page.find(';', next);
      if (end == std::string::npos || end - next > 8) return "stray & at " + page.substr(next, 40);
      at = end + 1;
      continue;
    }
    size_t i = next + 1;
    const bool closing = page[i] == '/';
    if (closing) ++i;
    const size_t name_end = page.find_first_of(" />\n", i);
    const std::string name = page.substr(i, name_end - i);
    if (name.empty()) return "stray < at " + page.substr(next, 40);
    bool quoted = false;
    for (i = name_end; i < page.size() && (quoted || page[i] != '>'); ++i) {
      if (page[i] == '"') quoted = !quoted;
      if (page[i] == '<') return "< inside of a tag at " + page.substr(next, 60);
    }
    if (i >= page.size()) return "unclosed tag " + name;
    const bool alone = page[i - 1] == '/' || name == "!DOCTYPE" || name == "meta" || name == "img";
    if (closing) {
      if (open.empty() || open.back() != name)
        return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else if (!alone) {
      open.push_back(name);
    }
    at = i + 1;
    if (name == "style" && !closing) at = page.find("</style>", at);
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

// Counts the points of each path of an SVG, in the order of the paths. A path writes one M or L for
// each of its points.
inline std::vector<size_t> path_points(const std::string& svg) {
  std::vector<size_t> counts;
  for (size_t at = 0; (at = svg.find(" d=\"", at)) != std::string::npos;) {
    at += 4;
    const std::string d = svg.substr(at, svg.find('"', at) - at);
    counts.push_back(count(d, "M") + count(d, "L"));
  }
  return counts;
}

// Returns the report of a run with this history.
inline std::string page_of(const History& history, const EvalDetails& details = {}) {
  Report report;
  report.title = "out/run";
  report.config_yaml = "a: 1\n";
  report.steps_per_epoch = 10;
  report.history = &history;
  if (!details.evaluator.empty()) report.details[details.evaluator] = details;
  return render_report(report);
}

}  // namespace bv::test

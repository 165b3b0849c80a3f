#include "lib/report/page/report_skipped.h"

#include <fmt/format.h>

#include "lib/report/page/html.h"
#include "lib/util/text.h"

namespace bv {

std::string render_skipped(const std::vector<SkippedSummary>& skipped) {
  if (skipped.empty()) return "";
  std::string out =
      "<section><h2>Skipped examples</h2>\n<p class=\"hint\">They could not be read. All of them "
      "are in skipped.jsonl.</p>\n";
  for (const SkippedSummary& data : skipped) {
    out += fmt::format(
        "<h3>{}: {} skipped</h3>\n<div class=\"scroll\"><table class=\"pairs\"><thead><tr>"
        "<th>example</th><th>reason</th><th>first skipped at step</th></tr></thead><tbody>\n",
        escape_html(data.data), human_count(data.count));
    for (const SkippedExample& each : data.first) {
      out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escape_html(each.example),
                         escape_html(each.reason), human_count(each.step));
    }
    out += "</tbody></table></div>\n";
    const int64_t more = data.count - std::ssize(data.first);
    if (more > 0) out += fmt::format("<p class=\"hint\">and {} more</p>\n", human_count(more));
  }
  return out + "</section>\n";
}

}  // namespace bv

// report.html: one self-contained page about a run. It has no scripts, loads nothing from elsewhere
// and follows the reader's light or dark setting.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/eval_details.h"
#include "lib/report/history.h"
#include "lib/report/page/facts.h"
#include "lib/report/picture.h"
#include "lib/report/skipped_examples.h"

namespace bv {

// What the earlier starts of a run did, up to the step from which this start continues.
struct EarlierTime {
  int64_t last_step = -1;  // -1: there was no earlier start
  double seconds = 0;      // wall time
};

struct Report {
  std::string title;
  std::string config_yaml = {};
  EarlierTime earlier = {};
  double steps_per_epoch = 0;                       // 0 if unknown
  const History* history = nullptr;                 // null is the same as an empty one
  std::map<std::string, EvalDetails> details = {};  // by evaluator
  Facts facts = {};                                 // what was known when the run started
  Facts notes = {};                                 // what became known later
  std::vector<SkippedSummary> skipped = {};         // by data set
  LoggedImages images = {};                         // the last training images that were logged
};

// Returns the page: training loss per step and per epoch, the metrics of every evaluator with their
// best values, confusion matrices, accuracy per class, some wrongly classified images, where the
// run comes from, and the resolved config. The page is smaller than 2 MB whatever the run: curves
// are thinned, and lists that would be too long end with a line that says so.
std::string render_report(const Report& report);

// Returns the first part of a page, as HTML: its head, its heading and the line below that.
// `title`: the heading, as plain text. `line`: HTML. `style`: more CSS rules than those of the
// report and its charts.
std::string page_start(const std::string& title, std::string_view style, const std::string& line);

}  // namespace bv

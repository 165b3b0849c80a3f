// bvtrain compare: a table of many runs (lib/compare).
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "app/commands.h"
#include "app/output_format.h"
#include "app/standard_output.h"
#include "lib/ckpt/file_writer.h"
#include "lib/compare/comparison.h"
#include "lib/compare/comparison_data.h"
#include "lib/compare/comparison_page.h"
#include "lib/compare/comparison_text.h"
#include "lib/compare/find_runs.h"
#include "lib/report/log.h"

namespace bv {
namespace {

// Returns the terminal width in columns. Without a terminal, $COLUMNS or else 120.
size_t text_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const long given = columns != nullptr ? std::strtol(columns, nullptr, 10) : 0;
  return given > 0 ? static_cast<size_t>(given) : 120;
}

CompareOptions compare_options(const Arguments::Compare& given) {
  CompareOptions options;
  options.sort = given.sort;
  options.value = given.best ? MetricValue::best : MetricValue::last;
  if (!given.better.empty()) options.lower_is_better = given.better == "lower";
  options.metrics = given.metrics;
  return options;
}

}  // namespace

Exit compare_command(const Arguments& arguments) {
  const Arguments::Compare& given = arguments.compare;
  check_output_file(given.html, "--html");
  std::vector<std::string> warnings;
  std::vector<RunRecord> runs;
  for (const std::string& workdir : find_runs(given.paths, warnings)) {
    if (auto run = read_run(workdir, !given.html.empty(), warnings))
      runs.push_back(std::move(*run));
  }
  for (const std::string& line : warnings) log::warn("{}", line);
  if (runs.empty()) throw Error(Exit::usage, "bvtrain compare", "none of these is a run");
  Comparison comparison = compare(std::move(runs), compare_options(given));
  for (const std::string& line : comparison.warnings) log::warn("{}", line);
  comparison.warnings.insert(comparison.warnings.begin(), warnings.begin(), warnings.end());

  if (!given.html.empty()) {
    replace_file(given.html, [&](FileWriter& file) { file.write(comparison_page(comparison)); });
    log::info("Wrote the curves and the table of {} runs to {}", comparison.runs.size(),
              given.html);
  }
  if (given.format == "csv")
    write_stdout(comparison_csv(comparison));
  else if (given.format == "json")
    write_stdout(comparison_json(comparison));
  else
    print(comparison_text(comparison, text_width()));
  return Exit::ok;
}

}  // namespace bv

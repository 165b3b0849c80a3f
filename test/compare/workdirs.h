// Folders that look like the workdirs of runs.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "lib/compare/comparison.h"
#include "lib/compare/find_runs.h"
#include "test/support/folder.h"

namespace bv::test {

struct Workdirs {
  TempFolder dir;

  // Writes a run of 40 steps that has measured `accuracies`, one each 10 steps.
  void run(const std::string& name, const std::string& config,
           const std::vector<double>& accuracies, bool finished = true) const {
    dir.write(name + "/config.yaml", "total_steps: 40\n" + config);
    std::string rows;
    int step = 0;
    for (const double accuracy : accuracies) {
      step += 10;
      rows += fmt::format(
          "{{\"step\": {}, \"training_loss\": {}, \"val/prec@1\": {}, \"progress\": {}}}\n", step,
          2 - accuracy, accuracy, step / 40.0);
    }
    dir.write(name + "/metrics.jsonl", rows);
    if (!finished) return;
    dir.write(name + "/DONE", "40\n");
    dir.make(name + "/ckpt/step-40");
  }
  std::vector<RunRecord> records(std::vector<std::string>* warnings = nullptr) const {
    std::vector<std::string> ignored;
    std::vector<std::string>& lines = warnings != nullptr ? *warnings : ignored;
    std::vector<RunRecord> runs;
    for (const std::string& workdir : find_runs({dir.path()}, lines)) {
      if (auto run = read_run(workdir, /*with_curves=*/true, lines))
        runs.push_back(std::move(*run));
    }
    return runs;
  }
  Comparison compared(const CompareOptions& options = {}) const {
    return compare(records(), options);
  }
};

}  // namespace bv::test

// Runs the real bvtrain binary ($BVTRAIN) in a child process, and reads what it wrote.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "test/support/folder.h"
#include "test/support/process.h"

namespace bv::test {

// A running bvtrain.
class Child : public Process {
 public:
  explicit Child(const std::vector<std::string>& args, const Environment& environment = {});
};

// Runs bvtrain to its end. Starts it as start_prestarted() does where that is possible. A test that
// has changed this process's limits or cores needs Child, which starts it in the usual way.
Finished run(const std::vector<std::string>& args, const Environment& environment = {});

// Waits until `path` exists. Returns false after kWatchdog seconds.
bool wait_for_file(const std::string& path);

// Returns the path of a file of the repository.
std::string source_file(const std::string& name);

// One line of metrics.jsonl: maps each name to its number as a string.
using TextRow = std::map<std::string, std::string>;
std::vector<TextRow> metric_rows(const std::string& workdir);
// metric_rows() without times, rates and memory, which differ from run to run.
std::vector<TextRow> repeatable_rows(const std::string& workdir);

}  // namespace bv::test

// Runs the real bvtrain binary ($BVTRAIN) in a child process.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/shared.h"

namespace bv::test {

struct Finished {
  int code = -1;  // exit code, or 128 + signal
  std::string out, err;
  double seconds = 0;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// A started child; the destructor kills what still runs.
class Child {
 public:
  Child(const std::vector<std::string>& args, const Environment& environment = {});
  ~Child();
  int pid() const { return pid_; }
  void kill(int signal);
  Finished wait();

 private:
  int pid_ = -1;
  std::string out_file_, err_file_;
  double started_ = 0;
};

Finished run(const std::vector<std::string>& args, const Environment& environment = {});

// A fresh folder, removed at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string source_file(const std::string& name);  // of the repository
void write(const std::string& file, const std::string& text);
bool exists(const std::string& path);

// One line of metrics.jsonl: name -> the number's text.
using TextRow = std::map<std::string, std::string>;
std::vector<TextRow> metric_rows(const std::string& workdir);
// Without the names of time, rate and memory, which no two runs share.
std::vector<TextRow> repeatable_rows(const std::string& workdir);

}  // namespace bv::test

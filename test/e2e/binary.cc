#include "test/e2e/binary.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lib/util/file.h"

namespace bv::test {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string temp_name(const std::string& stem) {
  std::string name = (std::filesystem::temp_directory_path() / (stem + "XXXXXX")).string();
  const int fd = mkstemp(name.data());
  if (fd < 0) throw std::runtime_error("mkstemp");
  close(fd);
  return name;
}

}  // namespace

Child::Child(const std::vector<std::string>& args, const Environment& environment)
    : out_file_(temp_name("bvtrain-out-")), err_file_(temp_name("bvtrain-err-")), started_(now()) {
  const char* binary = std::getenv("BVTRAIN");
  if (!binary) throw std::runtime_error("BVTRAIN is not set to the binary");
  std::vector<std::string> argv{binary};
  argv.insert(argv.end(), args.begin(), args.end());
  std::vector<char*> pointers;
  for (std::string& arg : argv) pointers.push_back(arg.data());
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(open(out_file_.c_str(), O_WRONLY), 1);
    dup2(open(err_file_.c_str(), O_WRONLY), 2);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  unlink(out_file_.c_str());
  unlink(err_file_.c_str());
}

void Child::kill(int signal) { ::kill(pid_, signal); }

Finished Child::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  Finished finished;
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = read_file(out_file_);
  finished.err = read_file(err_file_);
  finished.seconds = now() - started_;
  return finished;
}

Finished run(const std::vector<std::string>& args, const Environment& environment) {
  return Child(args, environment).wait();
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "bvtrain-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string source_file(const std::string& name) { return std::string(BV_SOURCE_DIR) + "/" + name; }

void write(const std::string& file, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

std::vector<TextRow> metric_rows(const std::string& workdir) {
  std::vector<TextRow> rows;
  std::ifstream lines(workdir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    TextRow row;
    // dump() of a parsed double is the shortest text that reads back: equal text, equal bits.
    const auto parsed = nlohmann::json::parse(line);
    for (const auto& [name, value] : parsed.items()) row[name] = value.dump();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<TextRow> repeatable_rows(const std::string& workdir) {
  std::vector<TextRow> rows = metric_rows(workdir);
  for (TextRow& row : rows) {
    std::erase_if(row, [](const auto& entry) {
      const std::string& name = entry.first;
      return name == "uptime" || name.starts_with("z/") || name.starts_with("y/") ||
             name.starts_with("img/sec") || name.starts_with("core_hours") || name == "mfu" ||
             name == "data_wait";
    });
  }
  return rows;
}

}  // namespace bv::test

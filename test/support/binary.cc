#include "test/support/binary.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "test/support/prestarted.h"

namespace bv::test {
namespace {

std::string binary() {
  const char* path = std::getenv("BVTRAIN");
  if (!path) throw std::runtime_error("BVTRAIN is not set to the binary");
  return path;
}

std::vector<std::string> command(const std::vector<std::string>& args) {
  std::vector<std::string> all{binary()};
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

}  // namespace

Child::Child(const std::vector<std::string>& args, const Environment& environment)
    : Process(binary(), command(args), environment) {}

Finished run(const std::vector<std::string>& args, const Environment& environment) {
  if (auto child = start_prestarted(binary(), command(args), environment)) return child->wait();
  return Child(args, environment).wait();
}

bool wait_for_file(const std::string& path) {
  return wait_until([&] { return exists(path); });
}

std::string source_file(const std::string& name) { return std::string(BV_SOURCE_DIR) + "/" + name; }

std::vector<TextRow> metric_rows(const std::string& workdir) {
  std::vector<TextRow> rows;
  std::ifstream lines(workdir + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    TextRow row;
    // dump() of a parsed double is the shortest text that reads back as that double: equal texts
    // mean equal bits.
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
             name == "memory_gb/sec" || name == "data_wait" || name == "steps_per_sec";
    });
  }
  return rows;
}

}  // namespace bv::test

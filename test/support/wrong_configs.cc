#include "test/support/wrong_configs.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "test/support/text.h"

namespace bv::test {
namespace {

std::pair<std::string, std::string> assignment(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw std::runtime_error("no '=' in: " + text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string with_tabs(std::string line) { return replace_all(std::move(line), "<TAB>", "\t"); }

void add_line(WrongConfig& config, int part, const std::string& line) {
  if (part == 1) {
    config.text += with_tabs(line) + "\n";
  } else if (part == 2) {
    if (!line.empty()) config.expected += (config.expected.empty() ? "" : "\n") + line;
  } else if (line.starts_with("env ")) {
    config.environment.push_back(assignment(line.substr(4)));
  } else if (line.starts_with("set ")) {
    config.sets.push_back(assignment(line.substr(4)));
  } else if (line.starts_with("without ")) {
    config.without.push_back(line.substr(8));
  } else {
    throw std::runtime_error("expected 'env', 'set', 'without' or '-----', got: " + line);
  }
}

}  // namespace

std::vector<WrongConfig> read_wrong_configs(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::vector<WrongConfig> all;
  int part = 0;  // the head, the config, the messages
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== ")) {
      if (!all.empty() && part != 2) throw std::runtime_error("no messages: " + all.back().name);
      all.push_back({.name = line.substr(4)});
      part = 0;
    } else if (all.empty()) {
      continue;
    } else if (line == "-----") {
      ++part;
    } else {
      add_line(all.back(), part, line);
    }
  }
  return all;
}

WrongEnvironment::WrongEnvironment(const WrongConfig& config) {
  for (const auto& [name, value] : config.environment) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    names_.push_back(name);
  }
}

WrongEnvironment::~WrongEnvironment() {
  for (const std::string& name : names_) unsetenv(name.c_str());
}

}  // namespace bv::test

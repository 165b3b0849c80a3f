// Catalogues of wrong configs with their expected messages, as text files:
//
//   === a name
//   env NAME=value       optional, any number: an environment variable
//   set lr=fast          optional, any number: --set of the command line
//   without wd           optional, any number: a key that is not taken from a base config
//   -----
//   lr: fast
//   -----
//   x.yaml:1:5: error: lr: expected a number, got 'fast'
//
// In a config, <TAB> stands for a tab. Lines before the first case are comments.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bv::test {

struct WrongConfig {
  std::string name;
  std::vector<std::pair<std::string, std::string>> environment = {}, sets = {};
  std::vector<std::string> without = {};
  std::string text = {};      // the config
  std::string expected = {};  // lines, joined by '\n'
};

std::vector<WrongConfig> read_wrong_configs(const std::string& file);

// Sets the variables of a case, and removes them again.
class WrongEnvironment {
 public:
  explicit WrongEnvironment(const WrongConfig& config);
  ~WrongEnvironment();

 private:
  std::vector<std::string> names_;
};

}  // namespace bv::test

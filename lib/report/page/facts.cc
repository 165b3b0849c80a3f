#include "lib/report/page/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/util/text.h"

namespace bv {
namespace {

std::string start_text(const nlohmann::json& run) {
  const std::string started = run.value("started", "");
  const auto restarts = run.value("restarts", int64_t{0});
  if (restarts == 0) return started;
  return fmt::format("{}; restarted {}, last at {} from step {}",
                     run.value("first_started", started), counted(restarts, "time"), started,
                     run.value("first_step", int64_t{0}));
}

}  // namespace

void set_fact(Facts& facts, const std::string& label, const std::string& text) {
  const auto found = std::find_if(facts.begin(), facts.end(),
                                  [&](const auto& fact) { return fact.first == label; });
  if (text.empty()) {
    if (found != facts.end()) facts.erase(found);
  } else if (found != facts.end()) {
    found->second = text;
  } else {
    facts.emplace_back(label, text);
  }
}

Facts run_facts(const nlohmann::json& run) {
  std::string command;
  for (const std::string& argument : run.value("argv", std::vector<std::string>{})) {
    command += (command.empty() ? "" : " ") + shell_word(argument);
  }
  Facts facts;
  set_fact(facts, "Command", command);
  set_fact(facts, "Version", run.value("version", ""));
  set_fact(facts, "Commit", run.value("commit", ""));
  set_fact(facts, "Host", run.value("host", ""));
  set_fact(facts, "Started", start_text(run));
  return facts;
}

}  // namespace bv

// What the report contains about a run besides its measurements.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bv {

// Labels and texts in the order in which the report lists them, such as {"Host", "node7"}. A text
// may have several lines.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Replaces the text of `label`, or adds it at the end. An empty text removes the label.
void set_fact(Facts& facts, const std::string& label, const std::string& text);

// Returns the facts in run.json (lib/ckpt/workdir/workdir.h): the command as one can type it, the
// version and commit of the program, the host, and when the run was first and last started.
Facts run_facts(const nlohmann::json& run);

}  // namespace bv

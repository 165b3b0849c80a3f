// The parts of the report that show the state of the run: cards with its main numbers, the table of
// metrics, and the facts about the run.
#pragma once

#include <string>

#include "lib/report/page/report.h"

namespace bv {

// Returns the last step, the epoch and the share of the run as a sentence.
std::string run_progress(const History& history);
// Returns cards with the last values of the main metrics.
std::string render_cards(const EarlierTime& earlier, const History& history);
// Returns a table with the last and the best value of each metric of the evaluators, and of the
// training loss. Empty if there is none.
std::string render_metrics(const History& history);
// Returns a list of the facts, together with what the history says about time and waiting.
std::string render_facts(const Report& report, const History& history);

}  // namespace bv

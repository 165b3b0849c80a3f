// Evaluates the checkpoints of a run with its evaluators, in a separate process: what `bvtrain
// eval` does. It may run at the same time as the run, on the same host or on another one that sees
// the workdir. Modelled on JAXline's evaluation jobs (its train.py, `evaluate`).
//
// A checkpoint is evaluated as the run itself evaluates: in the same precision, with the same batch
// size and number of threads. If the run has one process, the metrics are then the same bit for
// bit.
#pragma once

#include <cstdint>
#include <string>

#include "lib/predict/run_evaluators.h"
#include "lib/report/row.h"

namespace bv {

// Evaluates one checkpoint: a path as Checkpointer::load() takes it. Logs a line for each evaluator
// and returns all metrics. Throws Error(Exit::usage), and Stopped after a signal.
struct Evaluation {
  int64_t step = 0;
  Row metrics;
};
Evaluation evaluate_checkpoint(const EvaluateRequest& request, const std::string& checkpoint);

struct NewRows {
  int64_t evaluated = 0;  // checkpoints
  bool complete = false;  // every checkpoint has a row
  bool any = false;       // the output has a row, of this call or of an earlier one
};

// Evaluates each checkpoint of the workdir that has no row in `output` yet, and writes a row for
// it: output/metrics.jsonl, tb/, report.html. A row is written as a whole after all evaluators of a
// checkpoint, so each checkpoint has one row even if this process is killed. A checkpoint that the
// run deletes meanwhile, or that is damaged, is skipped with a warning; the next call tries it
// again. If a run continues from an earlier checkpoint or starts over, it trains some steps again:
// this call then replaces the rows of these steps, even if the run now saves at other steps. If it
// evaluates a step after later ones, it replaces the rows of those too. Without request.config, it
// uses the evaluators of the newest checkpoint for all checkpoints that have no row yet.
// `output` must not have rows of other evaluators or of another run, or files of a run, and must
// not become a class of the run's data. Its rows must have all evaluators that the request names.
//
// Throws as evaluate_checkpoint() does. Also throws Error(Exit::usage) if there is no row because
// all checkpoints were skipped or because the run has finished without one, and
// Error(Exit::storage). With request.follow, throws Error(Exit::peer) if the run's files are gone,
// if the run failed or if it was killed: at once if it failed with code 2 or 4, otherwise after
// request.patience.
NewRows evaluate_new_checkpoints(const EvaluateRequest& request, const std::string& output);

}  // namespace bv

// The model and the task of a trained run, built from what its checkpoint records.
#pragma once

#include <memory>

#include "lib/ckpt/restored.h"
#include "lib/config/config.h"
#include "lib/model/model.h"
#include "lib/tasks/task.h"

namespace bv {

struct TrainedParts {
  std::shared_ptr<Model> model;  // with the task's buffers; its weights are not initialized
  std::unique_ptr<Task> task;
  ModelEnv env;  // what the model was built for
};

// `config` is that of the run. Records problems with it. Throws Error(Exit::usage) if `from` does
// not record the size of the images.
TrainedParts make_trained_parts(const Config& config, const Restored& from);

}  // namespace bv

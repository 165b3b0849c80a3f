#include "lib/train/eval_job.h"

#include <algorithm>

namespace bv {
namespace {

EvalJob read_eval(const std::string& name, const Config& config, const EvalDefaults& defaults,
                  const RunLength& length) {
  EvalJob job;
  job.name = name;
  job.pred = config.get("pred", "predict");
  if (std::find(defaults.predictions.begin(), defaults.predictions.end(), job.pred) ==
      defaults.predictions.end()) {
    config.problem("pred",
                   unknown_name_message("prediction function", job.pred, defaults.predictions));
  }
  config.section("pred_kw").done();  // no prediction function takes arguments
  job.prefix = config.get("prefix", (name + "/").c_str());
  job.skip_first = config.get<bool>("skip_first", false);
  job.ema = config.get<bool>("ema", false);
  if (job.ema && !defaults.has_ema) {
    config.problem("ema",
                   "the run keeps no averaged weights; add 'ema: {decay: 0.999}' at the top level");
  }
  if (const auto every = duration_every(config, "log", length)) {
    job.due.emplace(*every, length.total_steps, /*last=*/true, /*first=*/false);
  }
  EvalEnv env;
  env.name = name;
  env.batch_size = defaults.batch_size;
  env.threads = defaults.threads;
  env.seed = defaults.seed;
  env.data = defaults.data;
  env.group = defaults.group;
  const std::string type = config.get("type", name.c_str());
  job.evaluator =
      Evaluator::Registry::make(type, config, config.place(config.has("type") ? "type" : ""), env);
  return job;
}

}  // namespace

std::vector<EvalJob> read_evals(const Config& evals, const EvalDefaults& defaults,
                                const RunLength& length) {
  std::vector<EvalJob> jobs;
  for (const auto& [name, config] : evals.items()) {
    const bool built = attempt(config, [&, &name = name, &config = config] {
      jobs.push_back(read_eval(name, config, defaults, length));
    });
    if (!built) config.mark_read();
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const EvalJob& a, const EvalJob& b) { return a.name < b.name; });
  return jobs;
}

}  // namespace bv

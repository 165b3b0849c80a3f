#include "lib/train/eval_job.h"

#include <algorithm>

#include "lib/evals/common/eval_input.h"

namespace bv {
namespace {

EvalEnv eval_env(const std::string& name, const EvalDefaults& defaults) {
  EvalEnv env;
  env.name = name;
  env.batch_size = defaults.batch_size;
  env.threads = defaults.threads;
  env.seed = defaults.seed;
  env.data = defaults.data;
  env.group = defaults.group;
  return env;
}

EvalJob read_eval(const std::string& name, const Config& config, const EvalDefaults& defaults,
                  const RunLength& length) {
  EvalJob job;
  job.name = name;
  job.pred = config.get("pred", "predict");
  const auto& known = defaults.predictions;
  if (!known.empty() && std::find(known.begin(), known.end(), job.pred) == known.end()) {
    config.problem("pred", unknown_name_message("prediction function", job.pred, known));
  }
  config.section("pred_kw").done();  // no prediction function takes arguments
  job.prefix = config.get("prefix", (name + "/").c_str());
  job.skip_first = config.get<bool>("skip_first", false);
  job.ema = config.get<bool>("ema", false);
  if (job.ema && !defaults.has_ema) {
    config.problem("ema",
                   "the run keeps no averaged weights; add 'ema: {decay: 0.999}' at the top level");
  }
  attempt(config, [&] {
    if (const auto every = duration_every(config, "log", length))
      job.due.emplace(*every, length.total_steps, /*last=*/true, /*first=*/false);
  });
  const std::string type = config.get("type", name.c_str());
  job.evaluator = Evaluator::Registry::make(
      type, config, config.place(config.has("type") ? "type" : ""), eval_env(name, defaults));
  return job;
}

}  // namespace

std::vector<EvalJob> read_evals(const Config& evals, const EvalDefaults& defaults,
                                const RunLength& length) {
  std::vector<EvalJob> jobs;
  for (const auto& item : evals.items()) {
    const std::string& name = item.first;
    const Config& config = item.second;
    const size_t problems = problem_count(evals);
    const bool built =
        attempt(config, [&] { jobs.push_back(read_eval(name, config, defaults, length)); });
    if (built) jobs.back().sound = problem_count(evals) == problems;
    // The keys that most evaluators share are checked although this one could not be built.
    if (!built && config.has("data"))
      attempt(config, [&] { EvalInput(config, eval_env(name, defaults)); });
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const EvalJob& a, const EvalJob& b) { return a.name < b.name; });
  return jobs;
}

}  // namespace bv

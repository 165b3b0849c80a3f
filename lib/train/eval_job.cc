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

// Checks the data of an evaluator with which something else is wrong, so that it is not probed.
void check_data(const Config& config, const EvalEnv& env) {
  if (!config.has("data")) return;
  attempt(config, [&] {
    EvalInput input(config, env);
    if (input.prepared()) input.data();
  });
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
  const std::vector<std::string> types = Evaluator::Registry::names();
  if (!config.has("type") && std::find(types.begin(), types.end(), type) == types.end())
    config.fail("", "has no 'type', such as classification");
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
    if (problem_count(evals) == problems) continue;
    if (built) jobs.back().sound = false;
    check_data(config, eval_env(name, defaults));
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const EvalJob& a, const EvalJob& b) { return a.name < b.name; });
  return jobs;
}

}  // namespace bv

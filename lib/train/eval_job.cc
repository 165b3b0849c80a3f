#include "lib/train/eval_job.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/input/pipeline.h"
#include "lib/report/page/report_charts.h"
#include "lib/util/file_name.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable eval_job_keys(
    "evals.*",
    {"Each entry of `evals` is an evaluator that measures the model. You choose its name: up to 64 "
     "letters, digits and _ - . @ +, not beginning with a dot. With one of the keys `log_*` it "
     "runs before the training, at intervals and after the last step. Without them only `bvtrain "
     "eval` runs it, or a run that has no step to train. Its metrics are called `<name>/<metric>`, "
     "and the evaluators of one step run in alphabetical order.",
     "type: classification\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|onehot(10, key=\"label\", key_result=\"labels\")|"
     "keep(\"image\", \"labels\")\n"
     "loss_name: softmax_xent\n"
     "log_epochs: 1",
     "evaluators/common.py from_config"},
    {{"type", "string", "= the name of the entry",
      "Kind of evaluator. It may be omitted if the entry is named after a kind, such as `knn`. "
      "`bvtrain --list evals` prints all kinds.",
      "classification"},
     {"log_{steps,examples,epochs,percent,seconds}", "float", "none",
      "Interval between two evaluations during training. Give it in one unit; `percent` is a "
      "fraction of the whole run, from 0 to 1. The last step is always evaluated. If another "
      "evaluation is due less than a quarter of an interval before the last step, it is skipped, "
      "unless the interval is in seconds. Seconds count training time, without evaluations and "
      "saves of checkpoints. Without an interval, or with 0, only `bvtrain eval` runs "
      "the evaluator.",
      "1000"},
     {"pred", "'predict' | 'loss'", "predict",
      "What the evaluator gets for each example: with `predict` the model's outputs (logits), and "
      "with `loss` the loss, which the evaluator `mean` averages."},
     {"pred_kw", "map", "{}", "Arguments for `pred`. It must be empty, because neither takes any."},
     {"prefix", "string", "= the name of the entry and /",
      "Prefix of the name of each metric. With `prefix: ''` metrics have their bare names; two "
      "evaluators must then not have the same metric.",
      "val_"},
     {"skip_first", "bool", "false",
      "Whether to skip the evaluation before the training, for instance because it takes long. It "
      "still runs if the run has no step to train."},
     {"ema", "bool", "false",
      "Whether to evaluate the averaged weights, which are often better, instead of the current "
      "ones. The run must keep them: add `ema: {decay: 0.999}` at the top level.",
      "", "-"},
     {"tta", "map", "none",
      "Test-time augmentation: outputs are averaged over several augmented views of each image.",
      "{mirror: true}", "-"}});
const KeyTable pred_keys("evals.*.pred_kw", {"Arguments for `pred`. It must be empty."}, {});

// Throws if `name` must not be part of a file name. The evaluator `save`, for example, writes
// "<name>-000000100.npz".
void check_name(const std::string& name, const Config& config) {
  if (is_file_name(name)) return;
  throw Error(
      Exit::usage, config.place(),
      fmt::format("evals: '{}' cannot name an evaluator: {}", printable(name), kFileNameRule));
}

// Returns the prefix of the metric names, which appear in log lines.
std::string read_prefix(const std::string& name, const Config& config) {
  std::string prefix = config.get("prefix", (name + "/").c_str());
  if (std::any_of(prefix.begin(), prefix.end(), [](unsigned char c) { return std::iscntrl(c); }))
    config.problem("prefix", "must not have control characters");
  return prefix;
}

EvalEnv eval_env(const std::string& name, const EvalDefaults& defaults) {
  EvalEnv env = defaults.env;
  env.name = name;
  return env;
}

// Opens the data of an evaluator that is not probed. Its classes may be its own, as those of `knn`.
void check_data(const Config& config, EvalEnv env) {
  if (!config.has("data")) return;
  env.data.classes.reset();
  attempt(config, [&] {
    EvalInput input(config, env);
    if (input.prepared()) input.data();
  });
}

// Records a problem if `pred` does not give the output that the evaluator reads. Without that
// output the first evaluation would end the run. `known`: the prediction functions of the task.
void check_output(const Config& config, const EvalJob& job, const std::string& type,
                  const std::vector<PredictionFunction>& known) {
  const std::string wanted = job.evaluator->output();
  std::string given, right;
  for (const PredictionFunction& function : known) {
    if (job.pred == function.name) given = function.output;
    if (wanted == function.output) right = function.name;
  }
  if (wanted.empty() || given.empty() || given == wanted) return;
  config.problem("pred", fmt::format("the evaluator '{}' reads '{}', which '{}' does not give; {}",
                                     type, wanted, job.pred,
                                     right.empty() ? "no prediction function of the task does"
                                                   : "write pred: " + right));
}

// Compares an evaluator with the task of the run, whose outputs it would misunderstand. Records a
// problem if the values can never mean anything, and a warning if they may.
void check_task(const Config& config, const std::string& type, const EvalDefaults& defaults,
                const RunLength& length) {
  const char* const key = config.has("type") ? "type" : "";
  const bool one_class = type == "classification" || type == "calibration";
  if (type == "regression" && defaults.task == "classify") {
    const char* const why =
        "regression measures numbers, but the outputs of task: classify are logits of classes; to "
        "predict numbers, use task: regress";
    // Without training, the weights may be those of another program that predicts numbers.
    if (length.no_training)
      config.warn(key, why);
    else
      config.problem(key, why);
  } else if (defaults.task == "regress" && (one_class || type == "class_metrics")) {
    config.warn(key,
                fmt::format("{} measures classes, but task: regress predicts numbers: it takes "
                            "the target with the largest number for the class; use regression",
                            type));
  } else if (defaults.env.multilabel && one_class) {
    config.warn(key, fmt::format("{} expects one class per image, but the task has multilabel: "
                                 "true: images without a class do not count, and any class of an "
                                 "image is right; use class_metrics",
                                 type));
  }
}

// Whether the evaluator may leave out broken examples. It then has the metric `errors`. This looks
// at the key but does not mark it as read: an evaluator that has no such key must report it as
// unknown.
bool may_skip_errors(const Config& config) {
  const char* key = "skip_errors";
  return config.has(key) && config.json(key) != "0" && config.json(key) != "false";
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", printable(near));
}

// Warns of each null in `evals`: one that turned off an evaluator is no longer there. `names` are
// those of the evaluators.
void warn_of_nulls(const Config& evals, const std::vector<std::string>& names) {
  for (const std::string& name : evals.keys()) {
    if (evals.has(name)) continue;
    evals.warn(name, fmt::format("null turns off the evaluator of this name, but there is none{}",
                                 did_you_mean(name, names)));
  }
}

// Whether evaluators have a mapping `key`.
bool is_section_of_evaluators(std::string_view key) {
  return std::any_of(key_tables().begin(), key_tables().end(), [&](const KeyTable& table) {
    return (table.place == "evals.*" || table.place.starts_with("evals.*: ")) &&
           std::any_of(table.keys.begin(), table.keys.end(), [&](const KeyText& row) {
             return row.name == key && row.type.find("map") != std::string_view::npos;
           });
  });
}

// Records a problem if an evaluator has the path of a mapping of another one, as "val.data" has
// next to "val": config.yaml could not tell them apart.
void check_paths(const Config& evals, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const std::string other = name.substr(0, dot);
      const std::string key = name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
      if (std::find(names.begin(), names.end(), other) == names.end() ||
          !is_section_of_evaluators(key))
        continue;
      evals.problem(name, fmt::format("cannot name an evaluator, because the evaluator '{}' has "
                                      "the key '{}'; choose another name",
                                      other, key));
    }
  }
}

EvalJob read_eval(const std::string& name, const Config& config, const EvalDefaults& defaults,
                  const RunLength& length, const std::vector<std::string>& names) {
  check_name(name, config);
  EvalJob job;
  job.name = name;
  job.pred = config.get("pred", "predict");
  std::vector<std::string> known;
  for (const PredictionFunction& function : defaults.predictions) known.push_back(function.name);
  if (!known.empty() && std::find(known.begin(), known.end(), job.pred) == known.end()) {
    config.problem("pred", unknown_name_message("prediction function", job.pred, known));
  }
  config.section("pred_kw").done();  // no prediction function takes arguments
  job.prefix = read_prefix(name, config);
  job.skip_first = config.get<bool>("skip_first", false);
  if (config.has("tta")) job.tta = read_tta(config.section("tta"));
  job.ema = config.get<bool>("ema", false);
  if (job.ema && !defaults.has_ema) {
    config.problem("ema",
                   "the run keeps no averaged weights; add 'ema: {decay: 0.999}' at the top level");
  }
  attempt(config, [&] {
    if (const auto every = duration_every(config, "log", length); every && *every)
      job.due.emplace(*every, length.total_steps, /*last=*/true, /*first=*/false);
  });
  job.skips_errors = may_skip_errors(config);
  const std::string type = config.get("type", name.c_str());
  const std::vector<std::string> types = Evaluator::Registry::names();
  if (!config.has("type") && std::find(types.begin(), types.end(), type) == types.end()) {
    // --set of a misspelt evaluator makes a new one.
    const Place place = config.place();
    const bool made_by_set = place.line == 0 && place.key.empty();
    std::vector<std::string> others = names;
    std::erase(others, name);
    config.fail("", fmt::format("has no 'type', such as classification{}",
                                made_by_set ? did_you_mean(name, others) : ""));
  }
  job.evaluator = Evaluator::Registry::make(
      type, config, config.place(config.has("type") ? "type" : ""), eval_env(name, defaults));
  check_output(config, job, type, defaults.predictions);
  check_task(config, type, defaults, length);
  return job;
}

// Warns if an evaluator augments its images at random. Its config must be sound.
void warn_of_random_ops(const Config& config) {
  for (const char* key : {"pp_fn", "pp_train", "pp_eval"}) {
    if (!config.has(key)) continue;
    const std::vector<std::string> ops = Pipeline(config, key).random_ops();
    if (ops.empty()) continue;
    config.warn(
        key,
        fmt::format(
            "this evaluator measures randomly augmented examples, because of {}; remove the random "
            "ops, for example use resize_small and central_crop instead of a random crop",
            join(ops, ", ")));
  }
}

void check_metric_names(const Config& evals, const std::vector<EvalJob>& jobs) {
  MetricOwners owners;
  for (const EvalJob& job : jobs) {
    auto names = job.evaluator->metrics().value_or(std::vector<std::string>());
    if (job.skips_errors) names.emplace_back("errors");
    for (const std::string& name : names) {
      const std::string why = claim_metric(job.prefix + name, job.name, owners);
      if (why.empty()) continue;
      evals.section(job.name).problem("", why);
      break;
    }
  }
}

// Two evaluators get the same file if they are copies or share a YAML anchor.
void check_files(const Config& evals, const std::vector<EvalJob>& jobs) {
  std::map<std::string, std::string> owners;  // by file
  for (const EvalJob& job : jobs) {
    const std::string file = job.evaluator->outfile();
    if (file.empty()) continue;
    const std::string& owner = owners.emplace(file, job.name).first->second;
    if (owner == job.name) continue;
    evals.section(job.name).problem(
        "outfile",
        fmt::format("evaluator '{}' writes the same file; give each evaluator its own", owner));
  }
}

}  // namespace

std::optional<std::vector<std::string>> written_metrics(const EvalJob& job) {
  auto names = job.evaluator->metrics();
  if (names && job.skips_errors) names->emplace_back("errors");
  return names;
}

MetricOwners owners_of_shared_prefixes(const std::vector<EvalJob>& jobs) {
  MetricOwners owners;
  for (const EvalJob& job : jobs) {
    const bool shared = std::any_of(jobs.begin(), jobs.end(), [&](const EvalJob& other) {
      return &other != &job && other.prefix == job.prefix;
    });
    const auto names = shared ? written_metrics(job) : std::nullopt;
    for (const std::string& name : names.value_or(std::vector<std::string>()))
      owners.emplace(job.prefix + name, job.name);
  }
  return owners;
}

std::string claim_metric(const std::string& metric, const std::string& evaluator,
                         MetricOwners& owners) {
  // Evaluators too have metrics that end in "errors".
  const bool of_training =
      metric == "input/errors" || (is_trainers_own(metric) && !metric.ends_with("errors"));
  const std::string& owner = owners.emplace(metric, evaluator).first->second;
  if (!of_training && owner == evaluator) return "";
  return fmt::format("measures '{}', which is also a metric of {}: give it another `prefix`",
                     metric, of_training ? "the training" : fmt::format("evaluator '{}'", owner));
}

Row run_evaluator(const EvalJob& job, EvalContext context, MetricOwners& owners,
                  const Measure& measure) {
  std::optional<int64_t> left_out;
  context.left_out = [&left_out, tell = std::move(context.left_out)](
                         const std::string& data, int64_t count,
                         const std::vector<FailedExample>& failed) {
    left_out = left_out.value_or(0) + count;
    tell(data, count, failed);
  };
  Row values;
  const Measure emit = [&](std::string_view name, double value) {
    const std::string& metric = values.emplace_back(job.prefix + std::string(name), value).first;
    const std::string clash = claim_metric(metric, job.name, owners);
    if (!clash.empty()) throw Error::in("evals." + job.name, Exit::usage, clash);
    measure(metric, value);
  };
  job.evaluator->run(context, emit);
  if (left_out) emit("errors", static_cast<double>(*left_out));
  return values;
}

bool lacks_name(const Config& evals) {
  const auto keys = {"type", "pp_fn", "loss_name"};
  return std::any_of(keys.begin(), keys.end(),
                     [&](const char* key) { return evals.has(key) && !evals.is_map(key); });
}

std::vector<EvalJob> read_evals(const Config& evals, const EvalDefaults& defaults,
                                const RunLength& length) {
  std::vector<EvalJob> jobs;
  if (lacks_name(evals)) {
    evals.mark_read();
    evals.problem("", "an evaluator needs a name: write 'evals: {val: {type: ..., ...}}'");
    return jobs;
  }
  const auto items = evals.items();
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.first);
  warn_of_nulls(evals, names);
  check_paths(evals, names);
  for (const auto& item : items) {
    const std::string& name = item.first;
    const Config& config = item.second;
    const size_t problems = problem_count(evals);
    const bool built =
        attempt(config, [&] { jobs.push_back(read_eval(name, config, defaults, length, names)); });
    if (problem_count(evals) == problems && defaults.classes_known) {
      warn_of_random_ops(config);
      continue;
    }
    if (built) jobs.back().sound = false;
    check_data(config, eval_env(name, defaults));
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const EvalJob& a, const EvalJob& b) { return a.name < b.name; });
  check_metric_names(evals, jobs);
  check_files(evals, jobs);
  return jobs;
}

}  // namespace bv

// distance (also proj.distill.distance): distances between the outputs of a student and a teacher.
// Follows big_vision's evaluators/proj/distill/distance.py, `dist` and class Evaluator.
//
// The student is the model, or a stored array; the teacher's outputs are stored with the data.
// Outputs are flattened to one vector per example.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/common/stored_arrays.h"
#include "lib/evals/evaluator.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr TableText kDistanceText = {
    "Measures the distance between the outputs of the model (student) and those of another model "
    "(teacher), which are stored with the data. Each entry of `distances` gives the metrics "
    "`<entry>/avg`, `<entry>/min` and `<entry>/max` over the examples and `<entry>/all`, their "
    "number. `<entry>` joins its keys and values, as in `kind=agree_k=5`.",
    "type: distance\n"
    "data: {name: npz, fname: teacher.npz}\n"
    "pp_fn: value_range(-1, 1)|keep(\"image\", \"logits\")\n"
    "what: [logits, logits]\n"
    "distances: [{kind: kl, t: 2}, {kind: agree, k: 5}]",
    "evaluators/proj/distill/distance.py Evaluator"};
constexpr KeyText kDistanceKeys[] = {
    {"distances", "list of map of evals.*.distances", "required",
     "Distances to measure, at least one. Each has a `kind` and at most one argument.",
     "[{kind: kl, t: 2}, {kind: agree, k: 5}]"},
    {"what", "[string, string]", "[logits, logits]",
     "What to compare: the name of an output or activation of the model, and that of the data's "
     "feature with the teacher's output. With `file` both are names of arrays. Each example is "
     "flattened to one vector.",
     "[pre_logits, teacher_features]"},
    {"file", "string", "none",
     "An npz file with the outputs of student and teacher, one row per example. Give it instead of "
     "`data`, `pp_fn`, `batch_size` and the other keys of the data; the model is then not used.",
     "outputs.npz", "-"},
    {"data", "map of input.data", "none",
     "Data set with the images and the teacher's outputs, with the same keys as `input.data`. It "
     "is required unless `file` is given.",
     "{name: npz, fname: teacher.npz}"},
    {"pp_fn", "string", "\"\"",
     "Preprocessing of each example: ops as in `input.pp`, without random augmentation. They must "
     "keep the image and the teacher's output.",
     "value_range(-1, 1)|keep(\"image\", \"logits\")"},
};
const KeyTable distance_keys("evals.*: distance", kDistanceText, {}, kDistanceKeys,
                             kEvalLoaderKeys);
const KeyTable distance_full_name_keys("evals.*: proj.distill.distance", kDistanceText, {},
                                       kDistanceKeys, kEvalLoaderKeys);
const KeyTable one_distance_keys(
    "evals.*.distances",
    {"A distance between the student's vector S and the teacher's vector T. `l2` is sum((S - "
     "T)^2), `euclidean` is sqrt(sum((S - T)^2) + epsilon), and `logsoftmax_euclidean` is the same "
     "for the logarithms of softmax(S) and softmax(T). `kl` is t^2 KL(softmax(T / t) || softmax(S "
     "/ t)). `hard` is the cross entropy of S with the best class of T as the label, smoothed by "
     "ls, minus the entropy of this label. `agree` is 1 if the best class of T is among the k best "
     "classes of S, and 0 otherwise.",
     "kind: agree\nk: 5", "evaluators/proj/distill/distance.py dist"},
    {{"kind", "'agree' | 'euclidean' | 'hard' | 'kl' | 'l2' | 'logsoftmax_euclidean'", "required",
      "Kind of distance. Use `kl`, `hard` or `agree` for the outputs of classifiers and "
      "`euclidean` or `l2` for other vectors."},
     {"k", "int >= 1", "1",
      "Only for `agree`: the teacher's best class must be among this many best classes of the "
      "student. At most the number of classes."},
     {"epsilon", "float >= 0", "1e-12",
      "Only for `euclidean` and `logsoftmax_euclidean`: the number added under the root.", "", "-"},
     {"t", "float > 0", "1",
      "Only for `kl`: the temperature. A higher one gives more weight to classes that the teacher "
      "considers unlikely."},
     {"ls", "float 0..<1", "0",
      "Only for `hard`: the fraction of the label spread evenly over the other classes, at least 0 "
      "and below 1. `label_smoothing` spreads it over all classes."}});

// student, teacher: (n, d) float64. Returns (n) float64.
using Measured = std::function<at::Tensor(const at::Tensor& student, const at::Tensor& teacher)>;

struct Distance {
  std::string name;
  Measured measure;
};

at::Tensor norm_of(const at::Tensor& difference, double epsilon) {
  return difference.square().sum(1).add(epsilon).sqrt();
}

// The cross entropy minus the entropy of the labels: `softmax_xent(..., kl=True)` in utils.py.
at::Tensor softmax_xent_kl(const at::Tensor& logits, const at::Tensor& labels) {
  return (labels * (labels.clamp_min(1e-8).log() - logits.log_softmax(1))).sum(1);
}

Measured read_hard(const Config& config) {
  const auto ls = config.get<double>("ls", 0.0);
  if (!(ls >= 0 && ls < 1)) config.problem("ls", "must be at least 0 and below 1");
  return [ls, place = config.place("ls")](const at::Tensor& s, const at::Tensor& t) {
    if (ls > 0 && t.size(1) < 2) {
      throw Error(Exit::usage, place,
                  "distance 'hard': ls is spread over the other classes, but the vectors have 1 "
                  "entry");
    }
    at::Tensor labels = at::zeros_like(t).scatter_(1, t.argmax(1, /*keepdim=*/true), 1.0);
    if (ls > 0) {
      const double off = ls / static_cast<double>(t.size(1) - 1);
      labels = (1 - ls) * labels + off * (1 - labels);
    }
    return softmax_xent_kl(s, labels);
  };
}

Measured read_kl(const Config& config) {
  const auto temperature = config.get<double>("t", 1.0);
  if (!(temperature > 0)) config.problem("t", "must be positive");
  return [temperature](const at::Tensor& s, const at::Tensor& t) {
    return temperature * temperature *
           softmax_xent_kl(s / temperature, (t / temperature).softmax(1));
  };
}

Measured read_agree(const Config& config) {
  const auto k = config.get<int64_t>("k", 1);
  if (k < 1) config.problem("k", "must be positive");
  return [k, place = config.place("k")](const at::Tensor& s, const at::Tensor& t) {
    if (k > s.size(1)) {
      throw Error(
          Exit::usage, place,
          fmt::format("distance 'agree': k is {}, but the vectors have {} entries", k, s.size(1)));
    }
    // The sort is stable, so that the first of several equal entries counts.
    const at::Tensor order = at::argsort(s, /*stable=*/true, /*dim=*/1, /*descending=*/true);
    return order.slice(1, 0, k).eq(t.argmax(1, /*keepdim=*/true)).any(1).to(at::kDouble);
  };
}

Measured read_euclidean(const Config& config, bool of_log_probabilities) {
  const auto epsilon = config.get<double>("epsilon", 1e-12);
  if (!(epsilon >= 0)) config.problem("epsilon", "must not be negative");
  return [=](const at::Tensor& s, const at::Tensor& t) {
    return norm_of(of_log_probabilities ? s.log_softmax(1) - t.log_softmax(1) : s - t, epsilon);
  };
}

Measured read_l2(const Config&) {
  return [](const at::Tensor& s, const at::Tensor& t) { return (s - t).square().sum(1); };
}

struct Kind {
  const char* name;
  const char* argument;  // besides `kind`
  Measured (*read)(const Config&);
};
const Kind kKinds[] = {
    {"agree", "k", read_agree},
    {"euclidean", "epsilon", [](const Config& config) { return read_euclidean(config, false); }},
    {"hard", "ls", read_hard},
    {"kl", "t", read_kl},
    {"l2", "", read_l2},
    {"logsoftmax_euclidean", "epsilon",
     [](const Config& config) { return read_euclidean(config, true); }},
};

Distance read_distance(const Config& config) {
  const auto name = config.get<std::string>("kind");
  std::vector<std::string> known;
  const Kind* kind = nullptr;
  for (const Kind& each : kKinds) {
    known.emplace_back(each.name);
    if (name == each.name) kind = &each;
  }
  if (!kind) config.fail("kind", unknown_name_message("kind of distance", name, known));
  // The name must not depend on the order of the keys.
  std::vector<std::string> pairs = {"kind=" + name};
  for (const std::string& key : config.keys()) {
    if (key == "kind" || !config.has(key)) continue;
    if (key != kind->argument)
      config.fail(key, fmt::format("the distance '{}' takes no '{}'", name, key));
    pairs.push_back(fmt::format("{}={}", key, config.get<std::string>(key)));
  }
  return {join(pairs, "_"), kind->read(config)};
}

class DistanceEvaluator : public Evaluator {
 public:
  DistanceEvaluator(const Config& config, const EvalEnv& env)
      : name_(env.name), what_(config.get("what", std::vector<std::string>{"logits", "logits"})) {
    if (what_.size() != 2) config.fail("what", "must be [student, teacher]");
    for (const Config& each : config.sections("distances"))
      distances_.push_back(read_distance(each));
    if (distances_.empty()) config.problem("distances", "missing: a list of {kind, ...}");
    if (config.has("file"))
      arrays_.emplace(config);
    else
      input_.emplace(config, env);
  }

  Batch probe(int64_t n) override {
    if (arrays_) {
      check_entries(stored().first.size(1));
      return {};
    }
    Batch batch = input_->probe(n);
    teacher_of(batch);
    return batch;
  }
  int64_t examples() const override { return arrays_ ? rows_ : input_->examples(); }
  uint64_t fingerprint() const override { return input_ ? input_->fingerprint() : 0; }
  uint64_t content() const override { return arrays_ ? arrays_->content() : input_->content(); }
  std::string output() const override { return ""; }
  std::vector<std::string> activations() const override {
    return arrays_ ? std::vector<std::string>() : std::vector<std::string>{what_[0]};
  }
  void check_outputs(const Batch& batch, const Outputs& outputs) const override {
    const at::Tensor& student = outputs.at(what_[0]);
    check_shapes(student, teacher_of(batch));
    check_entries(student[0].numel());
  }

  std::optional<std::vector<std::string>> metrics() const override {
    std::vector<std::string> names;
    for (const Distance& distance : distances_) {
      for (const char* what : {"all", "avg", "min", "max"})
        names.push_back(distance.name + "/" + what);
    }
    return names;
  }

  void run(const EvalContext& context, const Measure& emit) override {
    std::vector<std::vector<at::Tensor>> values(distances_.size());
    std::vector<at::Tensor> ids;
    const auto add = [&](const at::Tensor& student, const at::Tensor& teacher) {
      for (size_t i = 0; i < distances_.size(); ++i)
        values[i].push_back(distances_[i].measure(student, teacher));
    };
    if (arrays_) {
      const auto [student, teacher] = stored();
      add(student, teacher);
    } else {
      input_->for_each(context, [&](const Batch& batch) {
        const at::Tensor rows = batch.at("_mask").nonzero().squeeze(1);
        const at::Tensor student = context.predict(batch, {what_[0]}).at(what_[0]);
        const at::Tensor& teacher = teacher_of(batch);
        check_shapes(student, teacher);
        const auto flat = [&](const at::Tensor& all) {
          return all.index_select(0, rows).reshape({rows.numel(), -1}).to(at::kDouble);
        };
        if (rows.numel() > 0) add(flat(student), flat(teacher));
        ids.push_back(batch.at("_id").index_select(0, rows));
      });
      const at::Tensor places = at::cat(ids);
      for (auto& parts : values) {
        const at::Tensor own = parts.empty() ? at::zeros({0}, at::kDouble) : at::cat(parts);
        parts = {gather_rows(*context.group, own, places)};
      }
    }
    for (size_t i = 0; i < distances_.size(); ++i) report(distances_[i].name, values[i], emit);
  }

 private:
  static void report(const std::string& name, const std::vector<at::Tensor>& parts,
                     const Measure& emit) {
    check(!parts.empty(), "distance '{}' of no example", name);
    const at::Tensor all = at::cat(parts);  // (n)
    emit(name + "/all", static_cast<double>(all.numel()));
    emit(name + "/avg", all.mean().item<double>());
    emit(name + "/min", all.min().item<double>());
    emit(name + "/max", all.max().item<double>());
  }

  // Throws if the student and the teacher do not have vectors of the same length.
  void check_shapes(const at::Tensor& student, const at::Tensor& teacher) const {
    if (student.size(0) == teacher.size(0) && student[0].numel() == teacher[0].numel()) return;
    throw Error(
        Exit::usage, "",
        fmt::format("evaluator '{}': the student's '{}' is {}, the teacher's '{}' {}", name_,
                    what_[0], shape_text(student.sizes()), what_[1], shape_text(teacher.sizes())));
  }

  // Measures zeros of this length with each distance, which throws if it does not take the length.
  void check_entries(int64_t entries) const {
    const at::Tensor zeros = at::zeros({1, entries}, at::kDouble);
    for (const Distance& distance : distances_) distance.measure(zeros, zeros);
  }

  const at::Tensor& teacher_of(const Batch& batch) const {
    const auto found = batch.find(what_[1]);
    if (found != batch.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, value] : batch) names.push_back(name);
    throw Error(Exit::usage, "",
                fmt::format("evaluator '{}': pp_fn gives no '{}', which holds the teacher's output "
                            "(it gives {})",
                            name_, what_[1], join(names, ", ")));
  }

  std::pair<at::Tensor, at::Tensor> stored() {
    std::pair<at::Tensor, at::Tensor> both = {arrays_->matrix(what_[0], /*flatten=*/true),
                                              arrays_->matrix(what_[1], /*flatten=*/true)};
    if (both.first.sizes() != both.second.sizes()) {
      arrays_->refuse(fmt::format("'{}' is {}, but '{}' is {}", what_[0],
                                  shape_text(both.first.sizes()), what_[1],
                                  shape_text(both.second.sizes())));
    }
    rows_ = both.first.size(0);
    return both;
  }

  const std::string name_;
  const std::vector<std::string> what_;
  std::vector<Distance> distances_;
  std::optional<StoredArrays> arrays_;
  std::optional<EvalInput> input_;
  int64_t rows_ = 0;
};

const Register<Evaluator, DistanceEvaluator> registered_distance("distance");
const Register<Evaluator, DistanceEvaluator> registered_distance_full_name("proj.distill.distance");

}  // namespace
}  // namespace bv

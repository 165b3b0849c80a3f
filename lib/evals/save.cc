// save: writes the inputs and predictions of a data set to an npz file, in data order and without
// padding. Follows big_vision's evaluators/save.py, class Evaluator.
//
// All arrays of the file are in memory at once. The file appears only when it is complete.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/key_table.h"
#include "lib/config/named_files.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/common/ranks.h"
#include "lib/evals/evaluator.h"
#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable save_keys(
    "evals.*: save",
    {"Writes the examples of a data set and the model's outputs for them to an npz "
     "file, in the order of the data. The arrays are called `inputs/<feature>` and "
     "`outputs/<name>`. `inputs/_id` is the index of each example in the data. "
     "There are no metrics. All arrays are in memory at once.",
     "type: save\n"
     "data: {name: digits, split: test}\n"
     "pp_fn: value_range(-1, 1)|keep(\"image\", \"label\")\n"
     "inputs: [_id, label]\n"
     "outputs: [logits, pre_logits]",
     "evaluators/save.py Evaluator"},
    {{"outfile", "string", "= {workdir}/<name>-{step:09d}.npz",
      "File to write, which must end in `.npz` and be on a local disk. It must not be "
      "one that the config names, such as a data set, or that another evaluator writes. "
      "{workdir} and {step} are replaced by the run's folder and step, {step:09d} by the "
      "step in nine digits. Without {step} each evaluation replaces the file. If "
      "{workdir} is used, a run without a workdir writes nothing, and neither does "
      "`bvtrain eval` with `--ckpt` or `--best`.",
      "\"{workdir}/outputs-{step:09d}.npz\""},
     {"inputs", "list of string", "= all",
      "Features to write. Leave out the images to keep the file small.", "[_id, label]", "-"},
     {"outputs", "list of string", "= the outputs of `pred`",
      "Model outputs and activations to write. A wrong name gives an error that "
      "lists the valid ones.",
      "[logits, pre_logits]", "-"}},
    kEvalDataKeys, kEvalLoaderKeys);

constexpr const char* kNamed = "is a file that the config names; choose another name";
constexpr size_t kMostDigits = 20;  // of {step:0<width>d}

// Returns the width in "step:09d", 0 for "step", and nullopt for anything else.
std::optional<size_t> step_width(const std::string& placeholder) {
  if (placeholder == "step") return 0;
  if (!placeholder.starts_with("step:0") || !placeholder.ends_with("d")) return std::nullopt;
  const std::string digits = placeholder.substr(6, placeholder.size() - 7);
  if (digits.empty() || digits.size() > 2 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  const size_t width = std::stoul(digits);
  return width <= kMostDigits ? std::optional(width) : std::nullopt;
}

// Returns `pattern` with its placeholders filled in. Throws Error(Exit::usage) for an unknown one.
std::string fill(const std::string& pattern, const std::string& workdir, int64_t step) {
  std::string out, rest = pattern;
  for (size_t open; (open = rest.find_first_of("{}")) != std::string::npos;) {
    const size_t close = rest.find('}', open);
    const bool whole = rest[open] == '{' && close != std::string::npos;
    const std::string name = whole ? rest.substr(open + 1, close - open - 1) : "";
    const std::optional<size_t> width = step_width(name);
    if (name != "workdir" && !width) {
      throw Error(Exit::usage, "",
                  fmt::format("unknown placeholder '{{{}}}'; known: {{workdir}}, {{step}}, "
                              "{{step:09d}}",
                              name));
    }
    out += rest.substr(0, open) + (width ? fmt::format("{:0{}d}", step, *width) : workdir);
    rest.erase(0, close + 1);
  }
  return out + rest;
}

// One array of the file, which grows batch by batch.
struct Column {
  at::Tensor rows;
  void add(const std::string& name, const at::Tensor& values, const at::Tensor& keep, int64_t first,
           int64_t size) {
    if (!rows.defined()) {
      std::vector<int64_t> shape = values.sizes().vec();
      shape[0] = size;
      rows = at::empty(shape, values.scalar_type());
    }
    check(values.sizes().slice(1) == rows.sizes().slice(1), "'{}' changes its shape", name);
    rows.narrow(0, first, keep.numel()).copy_(values.index_select(0, keep));
  }
};

class Save : public Evaluator {
 public:
  Save(const Config& config, const EvalEnv& env)
      : name_(env.name),
        outfile_(config.get("outfile", "{workdir}/" + env.name + "-{step:09d}.npz")),
        inputs_(config.maybe<std::vector<std::string>>("inputs")),
        outputs_(config.maybe<std::vector<std::string>>("outputs")),
        named_(named_files(config, "outfile")),
        input_(config, env) {
    if (!outfile_.ends_with(".npz")) config.problem("outfile", "must end in .npz");
    try {
      refuse_remote_path(outfile_);
      const std::string file = fill(outfile_, "", 0);
      if (!in_workdir() && is_among(file, named_)) config.problem("outfile", kNamed);
    } catch (const Error& error) {
      config.problem("outfile", error.message());
    }
  }

  Batch probe(int64_t n) override {
    Batch batch = input_.probe(n);
    for (const std::string& name : inputs_.value_or(std::vector<std::string>())) {
      if (name != "_id" && !batch.contains(name)) refuse("pp_fn gives no", name, batch);
    }
    return batch;
  }
  int64_t examples() const override { return input_.examples(); }
  uint64_t fingerprint() const override { return input_.fingerprint(); }
  uint64_t content() const override { return input_.content(); }
  std::string output() const override { return ""; }
  std::string outfile() const override { return outfile_; }
  std::vector<std::string> activations() const override {
    return outputs_.value_or(std::vector<std::string>());
  }

  std::optional<std::vector<std::string>> metrics() const override {
    return std::vector<std::string>();
  }

  void run(const EvalContext& context, const Measure&) override {
    if (context.workdir.empty() && in_workdir()) {
      log::warn(
          "evaluator '{}' writes nothing: there is no folder for {{workdir}} in a run without a "
          "workdir, and in bvtrain eval with --ckpt or --best; give an outfile without {{workdir}}",
          name_);
      return;
    }
    const std::string file = fill(outfile_, context.workdir, context.step);
    if (is_among(file, named_)) throw Error(Exit::usage, file, kNamed);
    std::map<std::string, Column> columns;
    std::vector<at::Tensor> ids;
    int64_t rows = 0;
    input_.for_each(context, [&](const Batch& batch) {
      const at::Tensor keep = batch.at("_mask").nonzero().squeeze(1);
      for (const auto& [name, values] : pick(batch, context.predict(batch, activations()))) {
        if (values.dim() == 0 || values.size(0) != batch.at("_mask").size(0))
          throw Error(Exit::usage, "",
                      fmt::format("evaluator '{}': '{}' has no value per example", name_, name));
        columns[name].add(name, values, keep, rows, input_.examples());
      }
      ids.push_back(batch.at("_id").index_select(0, keep));
      rows += keep.numel();
    });
    NamedTensors arrays;
    const at::Tensor places = at::cat(ids);
    for (auto& [name, column] : columns) {
      arrays[name] = gather_rows_on_first(*context.group, column.rows.narrow(0, 0, rows), places);
      column.rows = at::Tensor();
    }
    if (context.group->rank() > 0) return;
    if (!arrays.empty()) rows = arrays.begin()->second.size(0);
    // If the workdir is gone, make_folders() would create an empty one.
    if (in_workdir() && context.check_folder) context.check_folder();
    const std::string folder = std::filesystem::path(file).parent_path().string();
    if (!folder.empty()) make_folders(folder);
    write_npz(file, arrays);
    log::info("Saved {} examples in {}", human_count(rows), file);
  }

 private:
  bool in_workdir() const { return outfile_.find("{workdir}") != std::string::npos; }

  // Returns the arrays of a batch that are to be written, under their names in the file.
  std::map<std::string, at::Tensor> pick(const Batch& batch, const Outputs& outputs) const {
    std::map<std::string, at::Tensor> arrays;
    for (const auto& [name, values] : batch) {
      const bool wanted =
          !inputs_ || std::find(inputs_->begin(), inputs_->end(), name) != inputs_->end();
      if (wanted && name != "_mask") arrays["inputs/" + name] = values;
    }
    for (const auto& [name, values] : outputs) {
      const bool wanted =
          !outputs_ || std::find(outputs_->begin(), outputs_->end(), name) != outputs_->end();
      if (wanted) arrays["outputs/" + name] = values;
    }
    return arrays;
  }

  [[noreturn]] void refuse(const char* why, const std::string& name, const Batch& batch) const {
    std::vector<std::string> names;
    for (const auto& [each, value] : batch) names.push_back(each);
    throw Error(
        Exit::usage, "",
        fmt::format("evaluator '{}': {} '{}' (it gives {})", name_, why, name, join(names, ", ")));
  }

  const std::string name_, outfile_;
  const std::optional<std::vector<std::string>> inputs_, outputs_;
  const std::vector<std::string> named_;  // what may be files that the config names
  EvalInput input_;
};

const Register<Evaluator, Save> registered_save("save");

}  // namespace
}  // namespace bv

#include "lib/init/recipe_yaml.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lib/init/yaml_text.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/util/descriptor.h"
#include "lib/util/file.h"
#include "lib/util/printable.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the ops after those of the image: `labels` from the class number, unless the source gives
// them.
std::string label_ops(const DataFindings& found) {
  return found.task == LabelTask::classify
             ? R"(|onehot(num_classes, key="label", key_result="labels")|keep("image", "labels"))"
             : R"(|keep("image", "labels"))";
}

// Returns the string as comment lines. A name from the data cannot end a comment.
std::string comment(const std::string& text, const std::string& indent = "") {
  std::string lines;
  for (const std::string& line : split(text, '\n'))
    lines += indent + "#" + (line.empty() ? "" : " ") + printable(line, 400) + "\n";
  return lines;
}

// Returns the section `data`.
std::string data_yaml(const DataFindings& found, const DataKeys& keys, const std::string& split) {
  std::string text = "{name: " + found.data.source;
  for (const auto& [key, value] : keys) text += ", " + key + ": " + yaml_text(value);
  for (const auto& [key, value] : found.labels.yaml()) text += ", " + key + ": " + value;
  return text + ", split: " + (found.sliced ? json_string(split) : yaml_text(split)) + "}";
}

// Returns a pp string as a YAML scalar: plain, unless an op from a weights file prevents that.
std::string pp_yaml(const std::string& pp) {
  const bool plain =
      std::all_of(pp.begin(), pp.end(), [](char c) { return c >= ' ' && c <= '~'; }) &&
      pp.find(": ") == std::string::npos && pp.find(" #") == std::string::npos &&
      pp.find("${") == std::string::npos;
  return plain ? pp : yaml_text(pp);
}

const DataKeys& validation_keys(const DataFindings& found) {
  return found.data.validation.empty() ? found.data.train : found.data.validation;
}

std::string head(const DataFindings& found, const StarterRecipe& recipe,
                 const std::string& output) {
  std::string text = training_command(found, output) + "\n\n";
  text += fmt::format("Written by bvtrain init {}: {}", shell_word(found.folder), found.data.kind);
  text += fmt::format(", {} images", human_count(found.examples));
  if (!found.classes.empty())
    text += fmt::format(" of {}", found.classes.size() == 1
                                      ? "one class"
                                      : human_count(std::ssize(found.classes)) + " classes");
  if (!found.targets.empty()) {
    text += fmt::format(" with {}", found.targets.size() == 1
                                        ? "the target " + printable(found.targets[0].name)
                                        : human_count(std::ssize(found.targets)) + " targets");
  }
  text += fmt::format(".\nThe recipe is {}: {} epochs, {} steps.\n", recipe.about,
                      human_count(recipe.epochs),
                      human_count(recipe.total_steps(found.train_examples)));
  text +=
      "Paths are relative to the folder in which the command runs. bvtrain help KEY explains a "
      "key.";
  return comment(text) + "\n";
}

// Returns the number of outputs and what they mean.
std::string outputs(const DataFindings& found) {
  if (found.task == LabelTask::multilabel) {
    return fmt::format(
        "num_classes: {}\ntask_kw: {{multilabel: true}}  # several classes per image, or none\n",
        found.classes.size());
  }
  if (found.task == LabelTask::regress) {
    return fmt::format("num_classes: {}  # the number of targets\ntask: regress\n",
                       found.targets.size());
  }
  return "num_classes: auto  # that of the data\n";
}

std::string length(const DataFindings& found, const StarterRecipe& recipe) {
  return "seed: 0\n" + outputs(found) +
         "# Halve the epochs for a quick look; more may help if the loss still falls at the "
         "end.\n" +
         fmt::format("total_epochs: {}\n\n", recipe.epochs);
}

std::string input(const DataFindings& found, const StarterRecipe& recipe,
                  const PretrainedModel* pretrained) {
  std::string text = "input:\n";
  if (found.sliced) {
    text += comment(
        "There is no folder or file of validation data, so a fixed part of the images "
        "is kept for it.\nThe part is the same in every run, whatever the seed.",
        "  ");
  }
  text += "  data: " + data_yaml(found, found.data.train, found.train) + "\n";
  text += fmt::format("  batch_size: {}\n", recipe.batch_size);
  if (found.any_broken()) {
    text += comment(
        "Some images cannot be read. skipped.jsonl in the workdir lists those that "
        "training meets.",
        "  ");
    text += "  skip_errors: true\n";
  }
  if (pretrained && !pretrained->scaling_note.empty())
    text += comment(pretrained->scaling_note, "  ");
  if (!recipe.size_note.empty()) text += comment(recipe.size_note, "  ");
  if (!recipe.pp_hint.empty()) text += comment(recipe.pp_hint, "  ");
  return text + "  pp: " + pp_yaml(recipe.train_pp + label_ops(found)) + "\n\n";
}

std::string model(const DataFindings& found, const StarterRecipe& recipe,
                  const PretrainedModel* pretrained) {
  const bool targets = found.task == LabelTask::regress;
  std::string text;
  if (pretrained && !pretrained->heads_note.empty()) text += comment(pretrained->heads_note);
  text += "model_name: " + yaml_text(recipe.model_name) + "\nmodel: " + recipe.model + "\n";
  if (!pretrained) return text + "\n";
  text += "model_init: " + yaml_text(pretrained->path) + "\n";
  std::vector<std::string> patterns;
  // The scale of the targets in the file, if there is one, is that of other data.
  if (targets) patterns.push_back(json_string("buffers/targets/.*"));
  for (const std::string& pattern : pretrained->fresh) patterns.push_back(json_string(pattern));
  text += fmt::format("model_load: {{dont_load: [{}]}}  # the head for the new {} starts fresh\n",
                      join(patterns, ", "), targets ? "targets" : "classes");
  return text + "\n";
}

std::string optimizer(const DataFindings& found, const StarterRecipe& recipe, bool fine_tuning) {
  std::string text =
      fmt::format("loss: {}\n", found.task == LabelTask::regress      ? "mse"
                                : found.task == LabelTask::multilabel ? "sigmoid_xent"
                                                                      : "softmax_xent");
  if (recipe.label_smoothing > 0)
    text += fmt::format("label_smoothing: {}\n", recipe.label_smoothing);
  text +=
      "# If the loss is not finite or jumps, divide lr by 3. If you change batch_size, change lr "
      "by the\n# same factor.\n";
  text += recipe.optimizer;
  if (fine_tuning) {
    text +=
        "# On a CPU it is much quicker to train the head alone. Replace the schedule by\n"
        "#   schedule:\n"
        "#     - [\"head/.*\", {decay_type: cosine, warmup_percent: 0.1}]\n"
        "#     - [\".*\", null]\n"
        "# and lr by 0.03.\n";
  }
  if (recipe.ema > 0)
    text +=
        fmt::format("ema: {{decay: {}}}  # averaged weights; evaluators use them\n", recipe.ema);
  return text + "\n";
}

std::string imbalance(const DataFindings& found) {
  if (!found.imbalanced() || found.task != LabelTask::classify) return "";
  const FoundClass& most = *found.most_frequent();
  const FoundClass& least = *found.rarest();
  const std::string often = printable(most.name);
  const double share = static_cast<double>(most.examples) / static_cast<double>(found.examples);
  return comment(
      fmt::format("The classes are not balanced: '{}' has {} images, '{}' has {}. A model that "
                  "always\nanswers '{}' reaches prec@1 {:.2f}, so look at the accuracy of each "
                  "class in report.html.\nMore images of the rare classes help most.",
                  often, human_count(most.examples), printable(least.name),
                  human_count(least.examples), often, share),
      "  ");
}

// Returns the keys of an evaluator that depend on the task.
std::string metrics(const DataFindings& found) {
  if (found.task == LabelTask::regress) return "    type: regression\n";
  if (found.task == LabelTask::classify)
    return "    type: classification\n    loss_name: softmax_xent\n";
  return std::string("    type: class_metrics\n    metrics: [map, auroc_macro, f1_macro]\n") +
         (found.soft_labels ? "    soft_labels: true\n" : "");
}

std::string evaluators(const DataFindings& found, const StarterRecipe& recipe, int64_t every) {
  std::string text = "evals:\n" + imbalance(found);
  const bool test = is_named(found.validation, kTestNames) && !found.sliced;
  const std::string name = test ? "test" : "val";
  text += fmt::format("  {}:{}\n", name, found.test.empty() ? "" : " &val");
  text += metrics(found);
  text += "    data: " + data_yaml(found, validation_keys(found), found.validation) + "\n";
  text += "    pp_fn: " + pp_yaml(recipe.eval_pp + label_ops(found)) + "\n";
  text += fmt::format("    log_epochs: {}\n", every);
  if (found.any_broken()) text += "    skip_errors: true\n";
  if (recipe.ema > 0) text += "    ema: true\n";
  if (!found.test.empty()) {
    text += "  # Only at the end, so that no choice is based on test data.\n";
    text += "  test: {<<: *val, data: " + data_yaml(found, found.data.train, found.test) +
            ", log_epochs: null, log_percent: 1, skip_first: true}\n";
  }
  return text;
}

}  // namespace

std::string training_command(const DataFindings& found, const std::string& output) {
  std::string workdir = "out/" + std::filesystem::path(output).stem().string();
  if (found.data.source == "image_folder" && adds_classes(workdir, found.folder))
    workdir = "../" + workdir;
  return fmt::format("bvtrain --config {} --workdir {}", shell_word(output), shell_word(workdir));
}

std::string recipe_yaml(const DataFindings& found, const StarterRecipe& recipe,
                        const PretrainedModel* pretrained, const std::string& output) {
  const int64_t steps = std::max<int64_t>(1, recipe.total_steps(found.train_examples));
  constexpr int64_t kEvaluations = 20, kRows = 100;
  const int64_t every = (recipe.epochs + kEvaluations - 1) / kEvaluations;
  return head(found, recipe, output) + length(found, recipe) + input(found, recipe, pretrained) +
         model(found, recipe, pretrained) + optimizer(found, recipe, pretrained != nullptr) +
         fmt::format(
             "log_training_steps: {}\n"
             "ckpt_epochs: {}  # an interrupted run continues from here\n\n",
             std::clamp<int64_t>(steps / kRows, 1, 50), every) +
         evaluators(found, recipe, every);
}

void write_new_file(const std::string& output, const std::string& content) {
  const int fd = retry_interrupted(
      [&] { return ::open(output.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (fd < 0) {
    if (errno == EEXIST)
      throw Error(Exit::usage, output, "exists already; choose another --output");
    throw Error(Exit::storage, output, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  const DeletedOnSignal guard(output);
  int failed = write_all(fd, content);
  if (::close(fd) != 0 && failed == 0) failed = errno;
  if (failed == 0) return;
  ::unlink(output.c_str());
  throw Error(Exit::storage, output, fmt::format("cannot be written: {}", std::strerror(failed)));
}

}  // namespace bv

#include "lib/init/init_report.h"

#include <algorithm>

#include "lib/init/recipe_yaml.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kShownClasses = 12;
constexpr size_t kShownBroken = 5;

std::string class_text(const FoundClass& one, bool with_validation) {
  std::string text = fmt::format("{} {}", printable(one.name), human_count(one.examples));
  return with_validation ? text + fmt::format("+{}", human_count(one.validation)) : text;
}

std::string classes_text(const DataFindings& found) {
  if (found.classes.empty()) return "classes     not known without reading every example\n";
  std::vector<std::string> shown;
  const bool all = found.classes.size() <= kShownClasses;
  for (size_t i = 0; i < found.classes.size(); ++i) {
    const bool left_out = !all && i >= kShownClasses - 2 && i + 1 < found.classes.size();
    if (left_out && shown.back() != "...") shown.emplace_back("...");
    if (!left_out) shown.push_back(class_text(found.classes[i], !found.sliced));
  }
  std::string text = fmt::format("classes     {}{}: {}\n", human_count(std::ssize(found.classes)),
                                 found.sliced ? "" : ", training+validation", join(shown, ", "));
  if (found.without_class > 0) {
    text += fmt::format("            without any class: {} of {} images\n",
                        human_count(found.without_class), human_count(found.examples));
  }
  if (found.imbalanced()) {
    text +=
        fmt::format("            not balanced: most images {}, fewest {}\n",
                    class_text(*found.most_frequent(), false), class_text(*found.rarest(), false));
  }
  return text;
}

// Returns a line for each target, up to kShownClasses.
std::string targets_text(const DataFindings& found) {
  std::string text;
  for (size_t t = 0; t < found.targets.size() && t < kShownClasses; ++t) {
    const FoundTarget& one = found.targets[t];
    text +=
        fmt::format("{:<12}{}: {} to {}, mean {}\n", t == 0 ? "targets" : "", printable(one.name),
                    json_number(one.least), json_number(one.most), short_number(one.mean));
  }
  if (found.targets.size() > kShownClasses) {
    text += fmt::format("            and {} more\n",
                        human_count(std::ssize(found.targets) - int64_t{kShownClasses}));
  }
  return text;
}

std::string images_text(const SampledImages& images) {
  const std::string colour = images.channels == 1   ? "grey"
                             : images.channels == 3 ? "colour"
                                                    : fmt::format("{} channels", images.channels);
  if (images.equal) return fmt::format("images      {}, {}", size_text(images.typical), colour);
  return fmt::format("images      {} to {}, typically {}, {}", size_text(images.smallest),
                     size_text(images.largest), size_text(images.typical), colour);
}

// Returns the lines about broken files. A file that both the source and decoding found broken has
// one line.
std::vector<std::string> broken_lines(const DataFindings& found) {
  std::vector<std::string> lines = found.broken;
  for (const std::string& line : found.images.broken) {
    const std::string file = line.substr(0, line.find(": "));
    const bool known = std::any_of(
        found.broken.begin(), found.broken.end(),
        [&](const auto& other) { return other.find(file + ": ") != std::string::npos; });
    if (!known) lines.push_back(line);
  }
  return lines;
}

std::string broken_text(const DataFindings& found) {
  std::string text;
  const std::vector<std::string> lines = broken_lines(found);
  if (found.broken_files > 0) {
    text += fmt::format("broken      {} file{}, found by their first and last bytes\n",
                        human_count(found.broken_files), found.broken_files == 1 ? "" : "s");
  }
  if (!found.images.broken.empty()) {
    text += fmt::format("broken      {} of {} images that were decoded\n",
                        found.images.broken.size(), found.images.tried);
  }
  for (size_t i = 0; i < lines.size() && i < kShownBroken; ++i)
    text += "            " + printable(lines[i], 300) + "\n";
  if (lines.size() > kShownBroken) text += "            and more\n";
  return text;
}

}  // namespace

std::string findings_text(const DataFindings& found) {
  std::string text = fmt::format("{}: {}\n", printable(found.folder, 300), found.data.kind);
  text +=
      fmt::format("training    {}: {} images\n", found.train, human_count(found.train_examples));
  text += fmt::format("validation  {}: {} images\n", found.validation,
                      human_count(found.validation_examples));
  text += found.task == LabelTask::regress ? targets_text(found) : classes_text(found);
  text += images_text(found.images);
  const int64_t all = found.examples + (found.sliced ? 0 : found.validation_examples);
  text += fmt::format(" ({} of {} decoded{})\n", human_count(found.images.tried), human_count(all),
                      found.images.broken.empty() ? ", none broken" : "");
  text += broken_text(found);
  for (const std::string& note : found.notes) text += "note        " + printable(note, 300) + "\n";
  return text;
}

nlohmann::ordered_json findings_json(const DataFindings& found, const StarterRecipe& recipe,
                                     const std::string& output) {
  using Json = nlohmann::ordered_json;
  const auto sides = [](const ImageSides& size) { return Json{size.width, size.height}; };
  Json classes = Json::array();
  for (const FoundClass& one : found.classes) {
    Json entry = {{"name", one.name}, {"examples", one.examples}};
    if (!found.sliced) entry["validation"] = one.validation;
    classes.push_back(std::move(entry));
  }
  Json targets = Json::array();
  for (const FoundTarget& one : found.targets) {
    targets.push_back(
        {{"name", one.name}, {"min", one.least}, {"mean", one.mean}, {"max", one.most}});
  }
  const SampledImages& images = found.images;
  const Json broken = broken_lines(found);
  return {{"folder", found.folder},
          {"kind", found.data.kind},
          {"source", found.data.source},
          {"examples", found.examples},
          {"train", {{"split", found.train}, {"examples", found.train_examples}}},
          {"validation", {{"split", found.validation}, {"examples", found.validation_examples}}},
          {"task", task_name(found.task)},
          {"classes", classes},
          {"imbalanced", found.imbalanced()},
          {"without_class", found.without_class},
          {"targets", targets},
          {"images",
           {{"decoded", images.tried},
            {"channels", images.channels},
            {"smallest", sides(images.smallest)},
            {"largest", sides(images.largest)},
            {"typical", sides(images.typical)}}},
          {"broken_files", found.broken_files},
          {"broken_decoded", images.broken.size()},
          {"broken", broken},
          {"notes", found.notes},
          {"warnings", found.warnings},
          {"recipe",
           {{"model_name", recipe.model_name},
            {"image", sides(recipe.image)},
            {"batch_size", recipe.batch_size},
            {"epochs", recipe.epochs},
            {"steps", recipe.total_steps(found.train_examples)}}},
          {"output", output},
          {"command", training_command(found, output)}};
}

}  // namespace bv

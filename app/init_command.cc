// bvtrain init: inspects a folder of images and writes a config that trains on it (lib/init).
#include <filesystem>

#include "app/commands.h"
#include "app/json_output.h"
#include "app/standard_output.h"
#include "lib/init/data_findings.h"
#include "lib/init/init_report.h"
#include "lib/init/label_request.h"
#include "lib/init/pretrained.h"
#include "lib/init/recipe_yaml.h"
#include "lib/init/starter_recipe.h"
#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the name of a folder, also of "." and "photos/".
std::string default_output(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(folder, error);
  const std::string name = error ? "" : path.filename().string();
  return (name.empty() ? "data" : name) + ".yaml";
}

std::string joined_lines(const std::string& lines) { return join(split(lines, '\n'), " "); }

}  // namespace

Exit init_command(const Arguments& arguments) {
  const Arguments::Init& given = arguments.init;
  const std::string output =
      arguments.output.empty() ? default_output(given.folder) : arguments.output;
  // Checked before the work, and again when the file is written.
  if (file_exists(output))
    throw Error(Exit::usage, output, "exists already; choose another --output");
  const std::string folder = std::filesystem::path(output).parent_path().string();
  if (!folder.empty() && !folder_exists(folder))
    throw Error(Exit::usage, "--output " + output, fmt::format("there is no folder '{}'", folder));
  DataFindings found =
      inspect_data(given.folder, {.columns = given.label, .task = label_task(given.task)});
  std::optional<PretrainedModel> pretrained;
  if (!given.from.empty()) pretrained = inspect_weights(given.from);
  const PretrainedModel* from = pretrained ? &*pretrained : nullptr;
  const StarterRecipe recipe = choose_recipe(found, from);
  if (from) {
    require_loadable(*from, recipe.image);
    for (const std::string& note : {from->scaling_note, from->heads_note})
      if (!note.empty()) found.warnings.push_back(from->path + ": " + joined_lines(note));
    if (!recipe.size_note.empty()) found.notes.push_back(joined_lines(recipe.size_note));
  }
  write_new_file(output, recipe_yaml(found, recipe, from, output));
  for (const std::string& line : found.warnings) log::warn("{}", line);
  if (arguments.json) {
    print_json(findings_json(found, recipe, output));
    return Exit::ok;
  }
  const std::string text =
      fmt::format("{}\nWrote {}: {}; {} epochs, {} steps of {} images. To train:\n  {}\n",
                  findings_text(found), printable(output, std::string::npos), recipe.about,
                  human_count(recipe.epochs), human_count(recipe.total_steps(found.train_examples)),
                  recipe.batch_size, printable(training_command(found, output), std::string::npos));
  print(text);
  return Exit::ok;
}

}  // namespace bv

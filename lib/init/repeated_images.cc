#include "lib/init/repeated_images.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "lib/util/text.h"

namespace bv {
namespace {

// The images that the rows of a file name.
struct NamedImages {
  std::set<std::string> names;
  int64_t repeated = 0;  // rows that name an image again
};

// `source`: csv or jsonl, with all rows of its file in each split.
NamedImages images_in(const Source& source) {
  NamedImages images;
  for (int64_t i = 0; i < source.size(0); ++i) {
    const auto files = source.files_of(0, i);
    if (!files || files->empty()) continue;
    // ./a.jpg is a.jpg.
    const std::string name = std::filesystem::path(files->at(0)).lexically_normal().string();
    images.repeated += !images.names.insert(name).second;
  }
  return images;
}

}  // namespace

void warn_of_repeated_images(const Source& train, const Source& validation, DataFindings& found) {
  if (found.data.source != "csv" && found.data.source != "jsonl") return;
  const std::string file = train.labels_file(0);
  const NamedImages images = images_in(train);
  if (images.repeated > 0) {
    found.warnings.push_back(fmt::format(
        "{}: {} {} the same image as an earlier row; each row counts as an image of its own{}{}",
        file, counted(images.repeated, "row"), images.repeated == 1 ? "names" : "name",
        found.sliced ? ", so training and validation data may share images" : "",
        found.labels.multilabel ? "; write all classes of an image into one cell, such as cat;dog"
                                : ""));
  }
  if (&validation == &train) return;
  const NamedImages own = images_in(validation);
  const auto shared = std::count_if(own.names.begin(), own.names.end(),
                                    [&](const auto& name) { return images.names.contains(name); });
  if (shared > 0) {
    found.warnings.push_back(fmt::format(
        "{} has {} that {} has too, so metrics do not show how good the model is on new images",
        validation.labels_file(0), counted(shared, "image"), file));
  }
}

}  // namespace bv

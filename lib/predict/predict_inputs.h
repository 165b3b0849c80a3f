// The images that `bvtrain predict --input` names, as a data source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/input/source.h"

namespace bv {

// Opens image files, folders (every *.jpg, *.jpeg, *.png and *.webp below them, sorted; links are
// followed, but each folder below it is read once; hidden files and folders are left out), or a
// single .npz file with the array `image` (n, ...), whose other arrays of n rows become features;
// integers `label` of shape (n, 1) are read as (n). The path "-" stands for the files that
// standard input lists (lib/predict/file_list.h). A missing file, or a broken link in a folder,
// becomes an example that fails. If none of the paths on the command line exists, this function
// throws. The source has one split. An example is {"image", "label"}; the label is 0 unless the
// .npz file has labels, so that an evaluator's pp_fn, which may one-hot encode labels, runs.
// labels() returns only labels of an .npz file, and only if they are one integer for each image.
// Throws Error(Exit::usage), also if the .npz file has labels for another number of images.
std::shared_ptr<const Source> open_inputs(const std::vector<std::string>& paths);

}  // namespace bv

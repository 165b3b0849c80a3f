// Warnings about the files and the classes of a data set, for users who may have meant something
// else.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/input/dataset.h"
#include "lib/input/pipeline.h"

namespace bv {

// Returns one line for each thing that a run with these ops ignores in a split: the EXIF
// orientation of images, files of other types, folders inside class folders, and images next to
// them. "val: 3 files of other types were ignored (2 .txt, 1 .csv)".
std::vector<std::string> data_notes(const Dataset& data, const Pipeline& pp);
// The same for one split. `split` is its name.
std::vector<std::string> split_notes(const std::string& split, const FileNotes& notes,
                                     const Pipeline& pp);

// Returns a one-line warning if evaluation data have examples of classes that are not in `trained`,
// the labels of the training data. Empty if there are none, or if the labels are not known. Without
// class names the labels must be class numbers.
std::string untrained_classes(const Dataset& data, const std::set<int64_t>& trained);

// Reads up to 16 examples and returns one line for each thing that the ops do not use of their
// image files: the EXIF orientation, unless the source has counted it for data_notes(), and the
// lower 8 bits of 16-bit PNG files. Returns no lines if the first op does not decode.
std::vector<std::string> sampled_notes(const Dataset& data, const Pipeline& pp);
// Returns the line about PNG files with 16 bits per channel. `images`: how many were inspected;
// `deep`: how many of these have 16 bits.
std::string deep_png_note(int64_t deep, int64_t images);

}  // namespace bv

// What `bvtrain init` finds in labels that are one class per image.
#pragma once

#include <string>

#include "lib/init/data_findings.h"
#include "lib/input/dataset.h"
#include "lib/input/source.h"

namespace bv {

// Fills in the names and counts of the classes, if the source knows its labels. Throws
// Error(Exit::usage) if there is one class only, or if validation data have a class that training
// data lack.
void read_classes(const Source& source, const Source& validation, const std::string& train_split,
                  const std::string& validation_split, DataFindings& found);

// Adds warnings about classes without training or validation images, also with several classes per
// image.
void add_class_warnings(const Dataset& train, const Dataset& validation, DataFindings& found);

// Returns a note if the classes may be something else: regression targets, several labels in a
// cell, or a different name for each image; "" otherwise.
std::string note_of_other_labels(const Source& source, const DataFindings& found);

}  // namespace bv

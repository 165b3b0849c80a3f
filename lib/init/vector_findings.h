// What `bvtrain init` finds in labels that are vectors: targets of a regression, or several classes
// per image.
#pragma once

#include <memory>
#include <string>

#include "lib/init/data_findings.h"
#include "lib/input/source.h"

namespace bv {

// Reads the labels of the split `split` of `source`, the training data, and those of the validation
// data, which are in `other` unless the training data is sliced. Fills in targets or classes, and
// divides the split by folds if a slice of it is not a fair sample. Throws Error(Exit::usage) if
// rows are broken, or if there is nothing to learn.
void read_label_vectors(const std::shared_ptr<const Source>& source,
                        const std::shared_ptr<const Source>& other, const std::string& split,
                        DataFindings& found);

}  // namespace bv

// Images that several rows of CSV or JSON Lines files name.
#pragma once

#include "lib/init/data_findings.h"
#include "lib/input/source.h"

namespace bv {

// Adds a warning if several rows of the training data name the same image, and one if validation
// data from another file has images of the training data. `validation` is the same source if there
// is no other file.
void warn_of_repeated_images(const Source& train, const Source& validation, DataFindings& found);

}  // namespace bv

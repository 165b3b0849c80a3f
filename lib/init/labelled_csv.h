// The CSV file whose labels the user of `bvtrain init` has chosen with --label and --task.
#pragma once

#include <string>
#include <utility>

#include "lib/init/data_findings.h"
#include "lib/init/label_request.h"

namespace bv {

// Returns the CSV files of a folder that are its training and validation data, and the keys of
// their labels, without `classes`. Other kinds of data in the folder do not matter. Throws
// Error(Exit::usage) if there is no CSV file with an image column and these columns.
std::pair<DetectedData, LabelKeys> labelled_csv(const std::string& folder,
                                                const LabelRequest& request);

// Fills in found.labels.classes: the classes that occur in the training and validation files, so
// that all data sets of a run have the same columns. The cells of found.labels.columns hold several
// classes. If those of the training file hold only 0 and 1, or only numbers such as 0.5, the column
// itself is taken as one class. Throws Error(Exit::usage) if there are too many classes for a
// config, or if rows are broken.
void list_classes(DataFindings& found);

// Adds notes that say how unclear cells are read: white space that divides cells, and a single
// column of 0 and 1, which becomes one class.
void note_odd_cells(DataFindings& found);

}  // namespace bv

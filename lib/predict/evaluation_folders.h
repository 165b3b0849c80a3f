// The folders that `bvtrain eval` accepts: that of the run, and one for the rows.
#pragma once

#include <string>

#include "lib/config/config.h"

namespace bv {

// Returns whether something is at `path`, or may be: a path that cannot be looked up counts, as the
// disk may fail for a while only.
bool may_exist(const std::string& path);

// Throws Error(Exit::usage) if `workdir` exists and is not the folder of a run. With `follow` the
// run may start later: the folder is then also accepted if it has a file that is there before the
// run begins, such as a lock, or if it has no images and no folders but those of a run.
void check_is_run(const std::string& workdir, bool follow);

// Throws Error(Exit::usage) if no rows may be written to the folder `output`, for one of three
// reasons: it is in the folder of a run or of a checkpoint, and is not `workdir`/eval; it has
// images, folders or a report that no earlier `bvtrain eval` wrote; it would become a class of the
// data of the run in `workdir`, which is not known before the run has begun.
void check_rows_folder(const std::string& output, const std::string& workdir);
// Throws Error(Exit::usage) if the folder `output` holds a run or a config of the user, whose files
// the rows would replace.
void check_holds_no_run(const std::string& output);
// Throws Error(Exit::usage) if the folder `output` would become a class of the data of `config`.
void check_rows_outside_data(const std::string& output, const Config& config);

}  // namespace bv

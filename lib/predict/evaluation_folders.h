// The folders that `bvtrain eval` accepts: that of the run, and one for the rows.
#pragma once

#include <string>

namespace bv {

// Throws Error(Exit::usage) if `workdir` exists and is not the folder of a run. With `follow` the
// run may start later: the folder is then also accepted if it has a file that is there before the
// run begins, such as a lock, or if it has no images and no folders but those of a run.
void check_is_run(const std::string& workdir, bool follow);

// Throws Error(Exit::usage) if no rows may be written to the folder `output`: it has images,
// folders or a report, and no earlier `bvtrain eval` wrote them, or it would become a class of the
// data of the run in `workdir`.
void check_rows_folder(const std::string& output, const std::string& workdir);

}  // namespace bv

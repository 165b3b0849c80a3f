// Finds the workdirs that the command line names.
#pragma once

#include <string>
#include <vector>

namespace bv {

// Returns the workdirs that `paths` name, each once, sorted. A path is a workdir, a folder that
// holds workdirs (at most three levels below it), or a glob of such folders. A folder with a
// config.yaml and no other file of a run is a workdir only if no folder below it is one, and it is
// not in another workdir. If several paths lead to a run, the one with the fewest symbolic links is
// returned. A path that exists, but neither is nor holds a workdir, gets a line in `warnings`. A
// folder that cannot be listed and a workdir that holds others get one, too. Throws
// Error(Exit::usage) for a path that does not exist, or a glob that matches nothing.
std::vector<std::string> find_runs(const std::vector<std::string>& paths,
                                   std::vector<std::string>& warnings);

// Returns the workdirs without the folders that all of them begin with: {"out/a", "out/b"} gives
// {"a", "b"}. The last folder of a path always stays.
std::vector<std::string> short_names(const std::vector<std::string>& workdirs);

}  // namespace bv

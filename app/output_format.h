// The format of a file to write: what --format says, or the suffix of --output.
#pragma once

#include <string>
#include <vector>

namespace bv {

// Several formats may share a suffix; the first one is what the suffix means without --format.
struct OutputFormat {
  std::string name, suffix;
};

// `given` is the value of --format, or empty. Throws Error(Exit::usage) if the suffix belongs to
// other formats, or if there is no --format and the suffix is unknown.
std::string choose_format(const std::string& output, const std::string& given,
                          const std::vector<OutputFormat>& known);

// Throws Error(Exit::usage) if the folder of the file is missing: before anything is computed.
void check_output_folder(const std::string& output);

}  // namespace bv

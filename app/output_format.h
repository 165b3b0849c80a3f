// The format of a file to write: what --format says, or the suffix of --output.
#pragma once

#include <string>
#include <vector>

#include "lib/config/config.h"

namespace bv {

// Several formats may share a suffix; the first one is what the suffix means without --format.
struct OutputFormat {
  std::string name, suffix;
};

// `given` is the value of --format, or empty. Throws Error(Exit::usage) if the suffix belongs to
// other formats, or if there is no --format and the suffix is unknown.
std::string choose_format(const std::string& output, const std::string& given,
                          const std::vector<OutputFormat>& known);

inline constexpr const char* kStandardOutput = "-";  // the name of standard output in --output
// Whether a command can write to standard output instead: `--output -`.
enum class StandardOutput { impossible, possible };

// Checks an output file before anything is computed. Throws Error(Exit::usage) if the folder of
// `file` is missing or has checkpoints, or if the output would replace an image, a YAML file, a
// pipe, a device, a folder, or a file of a run such as metrics.jsonl in a workdir. `flag`: what
// messages call the flag that names the file. Accepts an empty name, and "-" if `dash` allows it.
void check_output_file(const std::string& file, const std::string& flag = "--output",
                       StandardOutput dash = StandardOutput::impossible);

// Throws Error(Exit::usage) if `--output file` would replace one of `inputs`. `which` says in the
// message which files these are: "predict reads". An input may name a part of a file,
// "two_towers.npz:img", or a folder with a model.safetensors.
void check_output_is_no_input(const std::string& file, const std::vector<std::string>& inputs,
                              const std::string& which);
// Throws Error(Exit::usage) if `--output file` would replace a file that a value of the config
// names, such as a data set or a list of examples to exclude. Values of the key `except` do not
// count.
void check_output_is_not_in(const std::string& file, const Config& config,
                            const std::string& except = "");

}  // namespace bv

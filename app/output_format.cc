#include "app/output_format.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/named_files.h"
#include "lib/input/image/decode.h"
#include "lib/input/image/image_suffix.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/regular_file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

// Returns why no file may be written in `folder`: it is the folder of a checkpoint, or is in one of
// a run's folders that hold them. Returns "" otherwise.
std::string why_reserved(const fs::path& folder) {
  std::error_code none;
  const fs::path whole = fs::weakly_canonical(folder.empty() ? "." : folder, none);
  for (fs::path at = whole; at.has_relative_path(); at = at.parent_path()) {
    const Workdir run(at.parent_path().string());
    if ((at == run.ckpt().path() || at == run.post_mortem()) && run.owns(at.filename()))
      return fmt::format("is in '{}', a folder of a run", at.string());
  }
  if (!holds_checkpoint(whole.string())) return "";
  return fmt::format("is in '{}', the folder of a checkpoint", whole.string());
}

// No command writes images or YAML files, so replacing one is a mistake. Returns what an existing
// file is, "an image" or "a YAML file"; otherwise "".
std::string foreign_kind(const std::string& file) {
  const std::string suffix = suffix_of(file);
  if (suffix == ".yaml" || suffix == ".yml") return "a YAML file";
  std::array<uint8_t, 16> head{};
  const size_t size = RegularFile(file).read(head.data(), head.size(), 0);
  const std::string format = image_format(std::span(head).first(size));
  return format == "JPEG" || format == "PNG" || format == "WebP" ? "an image" : "";
}

}  // namespace

std::string choose_format(const std::string& output, const std::string& given,
                          const std::vector<OutputFormat>& known) {
  const std::string suffix = std::filesystem::path(output).extension().string();
  std::vector<std::string> meant, suffixes;  // formats with this suffix; all suffixes
  for (const OutputFormat& format : known) {
    if (format.suffix == suffix) meant.push_back(format.name);
    if (std::find(suffixes.begin(), suffixes.end(), format.suffix) == suffixes.end())
      suffixes.push_back(format.suffix);
  }
  if (given.empty()) {
    if (!meant.empty()) return meant.front();
    throw Error(Exit::usage, "--output " + output,
                fmt::format("{}; known: {}; or give --format",
                            suffix.empty() ? "has no suffix that sets the format"
                                           : "unknown suffix '" + suffix + "'",
                            join(suffixes, ", ")));
  }
  if (meant.empty() || std::find(meant.begin(), meant.end(), given) != meant.end()) return given;
  const auto wanted = std::find_if(known.begin(), known.end(),
                                   [&](const OutputFormat& each) { return each.name == given; });
  throw Error(
      Exit::usage, fmt::format("--format {} --output {}", given, output),
      fmt::format("the suffix {} means {}; give the file the suffix {}, or leave out --format",
                  suffix, join(meant, " or "), wanted->suffix));
}

void check_output_file(const std::string& file, const std::string& flag, StandardOutput dash) {
  if (file.empty()) return;
  const std::string given = flag + " " + file;
  if (file == kStandardOutput) {
    if (dash == StandardOutput::possible) return;
    throw Error(Exit::usage, given, "is not written to standard output");
  }
  struct stat info {};
  const bool replaces = ::stat(file.c_str(), &info) == 0;
  if (replaces && !S_ISREG(info.st_mode)) {
    const bool stream = dash == StandardOutput::possible && !S_ISDIR(info.st_mode);
    throw Error(Exit::usage, given,
                fmt::format("{}{}", kind_text(info.st_mode),
                            stream ? fmt::format("; `{} -` is standard output", flag) : ""));
  }
  const std::filesystem::path path = link_target(file), folder = path.parent_path();
  if (const Workdir owner(folder.empty() ? "." : folder.string()); owner.owns(path.filename())) {
    throw Error(Exit::usage, given,
                fmt::format("is a file of the run in '{}'; choose another name", owner.dir()));
  }
  if (const std::string why = why_reserved(folder); !why.empty())
    throw Error(Exit::usage, given, why + "; choose another folder");
  if (const std::string kind = replaces ? foreign_kind(path.string()) : ""; !kind.empty())
    throw Error(Exit::usage, given, "is " + kind + "; choose another name");
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  throw Error(Exit::usage, given, fmt::format("there is no folder '{}'", folder.string()));
}

void check_output_is_no_input(const std::string& file, const std::vector<std::string>& inputs,
                              const std::string& which) {
  if (!is_among(file, inputs)) return;
  throw Error(Exit::usage, "--output " + file,
              fmt::format("is a file that {}; choose another name", which));
}

void check_output_is_not_in(const std::string& file, const Config& config,
                            const std::string& except) {
  check_output_is_no_input(file, named_files(config, except), "the config names");
}

}  // namespace bv

#include "lib/predict/file_list.h"

#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {

std::vector<std::string> parse_file_list(std::string_view text) {
  const bool nul = text.find('\0') != std::string_view::npos;
  std::vector<std::string> files;
  for (std::string& file : split(text, nul ? '\0' : '\n')) {
    if (!nul && file.ends_with('\r')) file.pop_back();
    if (!file.empty()) files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> read_file_list(int fd) {
  std::vector<std::string> files = parse_file_list(without_bom(read_stream(fd, "standard input")));
  if (files.empty()) throw Error(Exit::usage, "standard input", "lists no files");
  return files;
}

}  // namespace bv

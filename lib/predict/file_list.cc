#include "lib/predict/file_list.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "lib/util/error.h"
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

std::vector<std::string> read_file_list(std::FILE* stream) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), stream))
    text.append(buffer.data(), n);
  if (std::ferror(stream) != 0) throw Error(Exit::usage, "standard input", std::strerror(errno));
  std::vector<std::string> files = parse_file_list(text);
  if (files.empty()) throw Error(Exit::usage, "standard input", "names no file");
  return files;
}

}  // namespace bv

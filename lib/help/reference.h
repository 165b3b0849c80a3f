// The reference pages of docs/reference/, in Markdown.
#pragma once

#include <string>
#include <vector>

namespace bv {

struct ReferencePage {
  std::string file;  // "models.md"
  std::string text;
};
// Returns the pages: the keys of a config, one page a kind of plug-in, and an index.
std::vector<ReferencePage> reference_pages();

}  // namespace bv

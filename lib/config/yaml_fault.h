// Private to lib/config: explains in plain words why a string is not valid YAML. yaml-cpp reports
// the place where it gave up, which is often after the fault.
#pragma once

#include <string_view>
#include <vector>

#include "lib/config/source_text.h"

namespace bv {

// Returns what is wrong with a text that yaml-cpp rejected at the offset `where` with the message
// `why`: at least one problem.
std::vector<Error> explain_yaml_fault(const SourceText& source, size_t where, std::string_view why);

// The same for a list or mapping in brackets that begins at `open` and that yaml-cpp could not read
// to its end.
Error explain_open_bracket(const SourceText& source, size_t open);

}  // namespace bv

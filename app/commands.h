// What the verbs of the command line do. Each returns the process's exit code and throws Error.
#pragma once

#include "app/arguments.h"

namespace bv {

Exit train_command(const Arguments& arguments);
Exit export_command(const Arguments& arguments);
Exit predict_command(const Arguments& arguments);
Exit bench_command(const Arguments& arguments);
Exit list_command(const std::string& kind);
void print_version();

}  // namespace bv

// The subcommands and the printing flags of the command line. Each returns the exit code of the
// process or throws Error.
#pragma once

#include "app/arguments.h"

namespace bv {

Exit train_command(const Arguments& arguments);
Exit export_command(const Arguments& arguments);
Exit predict_command(const Arguments& arguments);
Exit eval_command(const Arguments& arguments);
Exit replay_command(const Arguments& arguments);
Exit bench_command(const Arguments& arguments);
Exit list_command(const Arguments& arguments);
Exit compare_command(const Arguments& arguments);
Exit ckpt_command(const Arguments& arguments);
Exit data_command(const Arguments& arguments);
Exit init_command(const Arguments& arguments);
Exit help_command(const Arguments& arguments);
Exit completion_command(const Arguments& arguments);
Exit schema_command();

}  // namespace bv

// bvtrain help, schema and completion: text generated from the key tables (lib/help).
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/standard_output.h"
#include "lib/help/completion.h"
#include "lib/help/help_text.h"
#include "lib/help/man_page.h"
#include "lib/help/reference.h"
#include "lib/help/schema.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Overwrites earlier pages only: the folder may be that of a project, with a README.md.
void write_reference(const std::string& folder) {
  make_folders(folder);
  for (const ReferencePage& page : reference_pages()) {
    const auto before = read_file_if_any(folder + "/" + page.file);
    if (!before || before->starts_with(kReferenceMark)) continue;
    throw Error(
        Exit::usage, "--reference " + folder,
        fmt::format("has a {} that bvtrain did not write; choose another folder", page.file));
  }
  for (const ReferencePage& page : reference_pages())
    write_file_atomically(folder + "/" + page.file, page.text);
  log::info("Wrote the reference pages to {}", folder);
}

}  // namespace

Exit help_command(const Arguments& arguments) {
  if (arguments.help.man) {
    write_stdout(man_page(command_line(), BV_VERSION));
  } else if (!arguments.help.reference.empty()) {
    write_reference(arguments.help.reference);
  } else if (arguments.help.words.empty()) {
    print(help_overview(command_line()));
  } else {
    // "bvtrain help exit codes" names one topic, not two.
    print(help_on(join(arguments.help.words, " "), command_line()));
  }
  return Exit::ok;
}

Exit schema_command() {
  write_stdout(config_schema().dump(1) + "\n");
  return Exit::ok;
}

Exit completion_command(const Arguments& arguments) {
  write_stdout(completion_script(arguments.shell, command_line()));
  return Exit::ok;
}

}  // namespace bv

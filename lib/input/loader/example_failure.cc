#include "lib/input/loader/example_failure.h"

#include <c10/util/Exception.h>

#include <string_view>

#include "lib/device/out_of_memory.h"
#include "lib/input/label_error.h"
#include "lib/util/printable.h"

namespace bv {
namespace {

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

// Returns the first line of an error about the example `name`, without repeating the name.
std::string reason_of(const Error& error, const std::string& name) {
  const std::string shown = printable(name, std::string::npos);  // as in errors
  const bool about_example = error.where().empty() || error.where() == shown;
  std::string_view text = first_line(about_example ? std::string_view(error.message())
                                                   : std::string_view(error.what()));
  if (text.starts_with(shown) && text.substr(shown.size()).starts_with(": "))
    text.remove_prefix(shown.size() + 2);
  return std::string(text);
}

// Prepends the names of the example's files to the reason, unless it already contains one of them.
std::string with_files(const std::string& reason, const Dataset& data, int64_t index) {
  std::string names;
  for (const std::string& file : data.files_of(index).value_or(std::vector<std::string>())) {
    // The end of a long name may have been cut off.
    if (reason.find(printable(file, std::string::npos).substr(0, 60)) != std::string::npos)
      return reason;
    names += (names.empty() ? "" : ", ") + printable(file);
  }
  return names.empty() ? reason : names + ": " + reason;
}

bool is_label(const std::string& key) { return key == "label" || key == "labels"; }

// Returns " (class 'ship')" if the class has a name.
std::string class_of(const LabelError& error, const Dataset& data) {
  if (!is_label(error.key())) return "";
  const std::vector<std::string>& names = data.class_names();
  if (error.label() < 0 || error.label() >= std::ssize(names)) return "";
  return fmt::format(" (class '{}')", names[error.label()]);
}

}  // namespace

std::string in_labels_file(const Dataset& data, int64_t index) {
  const std::string file = data.labels_file(index);
  return file.empty() ? "" : fmt::format(" (in {})", file);
}

ExampleFailure current_failure(const Dataset& data, int64_t index) {
  const std::string name = data.describe(index);
  const auto failure = [&](Exit code, bool fatal, std::string_view what) {
    return ExampleFailure{.index = index,
                          .fatal = fatal,
                          .code = code,
                          .name = name,
                          .reason = std::string(first_line(what)),
                          .files = data.files_of(index)};
  };
  try {
    throw;
  } catch (const LabelError& error) {
    return failure(Exit::data, true,
                   error.message() + class_of(error, data) +
                       (is_label(error.key()) ? in_labels_file(data, index) : ""));
  } catch (const Error& error) {
    const bool usage = error.code() == Exit::usage, of_data = error.code() == Exit::data;
    const std::string reason = reason_of(error, name);
    ExampleFailure result = failure(usage ? Exit::data : error.code(), !of_data,
                                    of_data ? with_files(reason, data, index) : reason);
    result.of_config = usage && !error.needs_place();
    return result;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) return failure(Exit::memory, true, "out of memory");
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    return failure(Exit::data, false,
                   of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
  } catch (...) {
    return failure(Exit::internal, true, "unknown exception");
  }
}

}  // namespace bv

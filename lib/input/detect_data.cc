#include "lib/input/detect_data.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

struct NamedDetector {
  std::string expected;
  Detector detect;
};

// A function-local static, because detectors register while other globals are being initialized.
std::map<std::string, NamedDetector>& detectors() {
  static std::map<std::string, NamedDetector> instance;
  return instance;
}

// Returns the only failure in `failures`, or one error with all of them. A failure without a place
// gets the folder.
Error all_of(const std::vector<Error>& failures, const std::string& folder) {
  if (failures.size() == 1) return failures[0];
  std::vector<Error> problems;
  for (const Error& failure : failures) {
    for (const Error& each : failure.problems())
      problems.push_back(each.needs_place() ? Error(each.code(), folder, each.message()) : each);
  }
  return Error::all(failures[0].code(), std::move(problems));
}

}  // namespace

RegisterDetector::RegisterDetector(const std::string& source, const std::string& expected,
                                   Detector detect) {
  detectors()[source] = {expected, std::move(detect)};
}

std::vector<DetectedData> detect_data(const std::string& folder) {
  std::vector<DetectedData> found;
  std::vector<Error> failures;  // without repeats: an unreadable folder fails in every detector
  for (const auto& [source, detector] : detectors()) {
    try {
      if (auto data = detector.detect(folder)) {
        data->source = source;
        found.push_back(std::move(*data));
      }
    } catch (const Error& error) {
      const bool known = std::any_of(failures.begin(), failures.end(), [&](const Error& each) {
        return std::string_view(each.what()) == error.what();
      });
      if (!known) failures.push_back(error);
    }
  }
  const auto weak = [](const DetectedData& data) { return data.weak; };
  const bool all_weak = std::all_of(found.begin(), found.end(), weak);
  if (all_weak && !failures.empty()) throw all_of(failures, folder);
  if (all_weak) return found;
  std::erase_if(found, weak);
  for (const Error& each : failures)
    found[0].notes.push_back(fmt::format("not used: {}", each.what()));
  return found;
}

std::vector<std::string> detectable_data() {
  std::vector<std::string> all;
  for (const auto& [source, detector] : detectors()) all.push_back(detector.expected);
  return all;
}

}  // namespace bv

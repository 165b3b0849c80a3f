#include "lib/input/detect_data.h"

#include <algorithm>
#include <exception>
#include <map>

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

}  // namespace

RegisterDetector::RegisterDetector(const std::string& source, const std::string& expected,
                                   Detector detect) {
  detectors()[source] = {expected, std::move(detect)};
}

std::vector<DetectedData> detect_data(const std::string& folder) {
  std::vector<DetectedData> found;
  std::exception_ptr failure;  // the first one
  std::vector<std::string> unused;
  for (const auto& [source, detector] : detectors()) {
    try {
      if (auto data = detector.detect(folder)) {
        data->source = source;
        found.push_back(std::move(*data));
      }
    } catch (const Error& error) {
      if (!failure) failure = std::current_exception();
      unused.push_back(fmt::format("not used: {}", error.what()));
    }
  }
  const auto weak = [](const DetectedData& data) { return data.weak; };
  const bool all_weak = std::all_of(found.begin(), found.end(), weak);
  if (all_weak && failure) std::rethrow_exception(failure);
  if (all_weak) return found;
  std::erase_if(found, weak);
  found[0].notes.insert(found[0].notes.end(), unused.begin(), unused.end());
  return found;
}

std::vector<std::string> detectable_data() {
  std::vector<std::string> all;
  for (const auto& [source, detector] : detectors()) all.push_back(detector.expected);
  return all;
}

}  // namespace bv

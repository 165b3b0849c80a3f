#include "lib/input/detect_data.h"

#include <map>

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
  for (const auto& [source, detector] : detectors()) {
    if (auto data = detector.detect(folder)) {
      data->source = source;
      found.push_back(std::move(*data));
    }
  }
  return found;
}

std::vector<std::string> detectable_data() {
  std::vector<std::string> all;
  for (const auto& [source, detector] : detectors()) all.push_back(detector.expected);
  return all;
}

}  // namespace bv

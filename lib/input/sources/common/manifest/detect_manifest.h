#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lib/input/detect_data.h"

namespace bv {

// Returns the keys with which a source can read a manifest that names images; nullopt if it cannot.
// `head` holds its first lines: at most 64 KiB, without a last line that is cut.
using ManifestKeys =
    std::function<std::optional<DataKeys>(const std::string& file, const std::string& head)>;

// Looks for files that end in `suffix`, such as ".csv", in a folder. If there are several, their
// names must say which are for training and validation. `kind` is for DetectedData.
std::optional<DetectedData> detect_manifest(const std::string& folder, const std::string& suffix,
                                            const std::string& kind, const ManifestKeys& keys);

}  // namespace bv

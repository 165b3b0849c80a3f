#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/input/detect_data.h"

namespace bv {

// Returns the keys with which a source can read a manifest that names images; nullopt if it cannot.
// `head` holds its first lines: at most 64 KiB, without a last line that is cut.
using ManifestKeys =
    std::function<std::optional<DataKeys>(const std::string& file, const std::string& head)>;

// Looks for files that name images in a folder: those that end in the first of `suffixes`, such as
// ".csv"; if none of these does, in the next one. If there are several, their names must say which
// are for training and validation. `kind` is for DetectedData.
std::optional<DetectedData> detect_manifest(const std::string& folder,
                                            std::span<const std::string_view> suffixes,
                                            const std::string& kind, const ManifestKeys& keys);

}  // namespace bv

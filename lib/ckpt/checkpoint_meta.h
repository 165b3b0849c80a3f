// The metadata of a checkpoint (Snapshot::meta): which members a run writes, and of what kind.
//
// A member may be absent, since older versions wrote fewer and other programs may write none. One
// that is there must be of its kind: readers then need no checks of their own.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace bv {

// Throws Error::bare(Exit::usage) "manifest.json: meta.chrono.accum_train_time is a text, expected
// a number".
void check_meta(const nlohmann::json& meta);

// Throws the same unless a run can continue from the checkpoint: "manifest.json: meta.row is
// missing, so no run can continue from this checkpoint".
void check_resumable(const nlohmann::json& meta);

}  // namespace bv

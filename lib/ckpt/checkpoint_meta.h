// Checks the metadata of a checkpoint (Snapshot::meta). It knows the JSON type of every member that
// a run writes.
//
// A member may be absent, because older versions wrote fewer of them and other programs write none.
// A member that is present must have its type, so that readers need no further checks.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace bv {

// Throws Error::bare(Exit::usage) "manifest.json: meta.chrono.accum_train_time is a string,
// expected a number".
void check_meta(const nlohmann::json& meta);

// Throws the same unless a run can continue from the checkpoint: "manifest.json: meta.row is
// missing, so no run can continue from this checkpoint".
void check_resumable(const nlohmann::json& meta);

}  // namespace bv

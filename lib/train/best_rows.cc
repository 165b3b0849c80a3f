#include "lib/train/best_rows.h"

#include "lib/ckpt/read_checkpoint.h"
#include "lib/report/log.h"
#include "lib/report/metric_direction.h"
#include "lib/report/metric_file.h"
#include "lib/report/storage_retries.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

// Returns what is wrong with the files of the best checkpoint in `folder`; "" if nothing is. A disk
// that cannot be read proves no damage.
std::string damage_of_best(const std::string& folder) {
  try {
    verify_checkpoint(folder);
  } catch (const Error& error) {
    if (error.code() != Exit::storage) return error.message();
    log::warn("{}: cannot be checked: {}", folder, error.message());
  }
  return "";
}

}  // namespace

void add_rows(std::vector<BestValue>& values, const std::string& metrics_file,
              const std::function<int64_t(const WatchedMetric&)>& since) {
  for_each_row(metrics_file, [&](int64_t step, const Row& row) {
    for (BestValue& each : values) {
      const WatchedMetric& watched = each.watched();
      if (since && step <= since(watched)) continue;
      if (const auto value = evaluated_value(row, watched)) each.add(step, *value);
    }
  });
}

std::optional<BestPoint> missing_best(BestValue& best, const std::string& folder) {
  const WatchedMetric& watched = best.watched();
  auto found = read_best(folder);
  const auto& rows = best.best();
  const bool better =
      found && (!rows || is_better(found->value, rows->value, watched.higher_is_better));
  const bool same = found && rows && found->step == rows->step && found->value == rows->value;
  if (better || same) {
    if (const std::string damage = damage_of_best(folder); !damage.empty()) {
      log::warn("{} is damaged: {}", folder, damage);
      found.reset();
    }
  }
  if (better && found) {
    log::warn(
        "{} belongs to step {} with {} {:g}, which has no row; it stays until a later step is "
        "better",
        folder, found->step, watched.metric, found->value);
    best.restore({found->step, found->value});
    return std::nullopt;
  }
  if (!rows || (same && found)) return std::nullopt;
  return BestPoint{watched.metric, watched.higher_is_better, rows->step, rows->value};
}

void write_missing_best(const std::string& folder, const std::string& checkpoint,
                        const BestPoint& point, const std::function<void()>& write) {
  StorageRetries retries;
  const auto write_if_there = [&] {
    try {
      write();
    } catch (const Error& error) {
      if (error.code() != Exit::storage || file_exists(checkpoint)) throw;
      throw Error(Exit::usage, checkpoint, "no longer exists");  // do not try again
    }
  };
  try {
    retries(write_if_there);
  } catch (const Error& error) {
    if (error.code() == Exit::storage)
      throw error.needs_place() ? Error(Exit::storage, checkpoint, error.message()) : error;
    const auto found = read_best(folder);
    log::warn("no complete checkpoint is left of step {}, the best so far with {} {:g}; {} {}",
              point.step, point.metric, point.value, folder,
              found ? fmt::format("stays that of step {} until a later step is better", found->step)
                    : "is written when a later step is better");
  }
}

}  // namespace bv

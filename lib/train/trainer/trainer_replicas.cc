// Checks that all ranks hold the same state. A device that computes wrongly, or memory that loses a
// bit, changes the state of one rank without any error. Its gradients would then enter every sum.
//
// A logged step's digest travels in the control word of the next step, so this takes no collective.
// Before a checkpoint the ranks compare whole digests.
#include <array>
#include <cstdint>
#include <string>

#include "lib/report/log.h"
#include "lib/train/odd_ranks.h"
#include "lib/train/trainer/trainer.h"

namespace bv {
namespace {

// Returns a hash of 16 bits. The sums of it and of its square over 32,768 ranks fit into int64.
int64_t short_digest(int64_t digest) {
  constexpr uint64_t kOddFactor = 0x9E3779B97F4A7C15;
  return static_cast<int64_t>((static_cast<uint64_t>(digest) * kOddFactor) >> 48);
}

}  // namespace

// Returns a number and its square, whose sums over the ranks show whether all numbers are equal.
std::array<double, 2> Trainer::digest_in_word() const {
  if (!digest_) return {};
  const int64_t number = short_digest(*digest_);
  return {static_cast<double>(number), static_cast<double>(number * number)};
}

// `sums`: those of digest_in_word().
void Trainer::compare_digests(const std::array<double, 2>& sums) {
  if (!digest_) return;
  const int64_t digest = *digest_;
  digest_.reset();
  const auto sum = static_cast<int64_t>(sums[0]), squares = static_cast<int64_t>(sums[1]);
  // By the inequality of Cauchy and Schwarz this holds only if all numbers are equal.
  if (sum * sum == group_.size() * squares) return;
  report_odd_ranks(step_ - 1, digest);
}

// Compares the states of the ranks before a save. All ranks must call it, also those that save
// nothing. Compares only once per step, because a second collective would hang: if rank 0 has left
// out the save of this step and a signal then makes it save, rank 0 calls this again, alone.
void Trainer::check_same_state(int64_t step) {
  if (!recipe_.step->compares_states() || compared_step_ == step) return;
  const int64_t digest = recipe_.step->digest();
  const auto most = group_.all_max(std::array{digest, ~digest}, "state");
  if (most[0] != ~most[1]) report_odd_ranks(step, digest);
  compared_step_ = step;
}

// All ranks must call it together once they know that their states differ. Throws what
// report_odd_states() throws. If that does not throw, the ranks stop comparing their states.
void Trainer::report_odd_ranks(int64_t step, int64_t digest) {
  // Later steps were not saved. The save of that step itself may have been left out.
  const std::string advice =
      workdir_ && compared_step_ > 0
          ? fmt::format(
                "; they were equal after step {}; the same command continues from the newest "
                "checkpoint, of that step or an earlier one",
                compared_step_)
          : "";
  report_odd_states(group_, recipe_.device, step, digest, advice);
  recipe_.step->stop_comparing();
  digest_.reset();  // or the next control word would report this step once more
  if (is_rank0())
    log::warn(
        "[{}] the ranks' copies of the weights have drifted apart, because their devices or "
        "their numbers of threads differ (docs/distributed.md); from now on they are not "
        "compared",
        step);
}

}  // namespace bv

// Checks that all ranks hold the same state. A device that computes wrongly, or memory that loses a
// bit, changes the state of one rank without any error. Its gradients would then enter every sum.
//
// A logged step's digest travels in the control word of the next step, so this takes no collective.
// Before a checkpoint the ranks compare whole digests.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/device/device_name.h"
#include "lib/input/class_map.h"
#include "lib/report/log.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

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

// Before a save. All ranks call it together, even those that save nothing.
void Trainer::check_same_state(int64_t step) {
  // Rank 0 may have left out the save of this step. Then it alone may come here again.
  if (!recipe_.step->compares_states() || compared_step_ == step) return;
  compared_step_ = step;
  const int64_t digest = recipe_.step->digest();
  const auto most = group_.all_max(std::array{digest, ~digest}, "state");
  if (most[0] != ~most[1]) report_odd_ranks(step, digest);
}

// All ranks call it together once they know that their states differ. If all devices are of one
// kind, it throws Error, with Exit::internal on the ranks that differ from the majority, and with
// Exit::peer on the others, or on all ranks if there is no majority.
void Trainer::report_odd_ranks(int64_t step, int64_t digest) {
  // CPUs also round differently with other numbers of threads.
  const std::string device =
      device_name(recipe_.device) +
      (recipe_.device.is_cpu() ? fmt::format(", {} threads", at::get_num_threads()) : "");
  std::vector<std::string> digests, devices, names;
  for (const std::string& text :
       group_.gather_text(fmt::format("{}\n{}\n{}", digest, device, host_name()), "states")) {
    const std::vector<std::string> parts = split(text, '\n');
    digests.push_back(parts.at(0));
    devices.push_back(parts.at(1));
    names.push_back(fmt::format("rank {} ({})", names.size(), parts.at(2)));
  }
  if (std::count(devices.begin(), devices.end(), device) < group_.size()) {
    recipe_.step->stop_comparing();
    digest_.reset();  // of this step: the next control word would tell it once more
    if (is_rank0())
      log::warn(
          "[{}] the ranks' copies of the weights have drifted apart, because their devices or "
          "their numbers of threads differ (docs/distributed.md); from now on they are not "
          "compared",
          step);
    return;
  }
  std::string right;  // that of the majority; empty: there is none
  for (const std::string& one : digests)
    if (2 * std::count(digests.begin(), digests.end(), one) > group_.size()) right = one;
  std::vector<std::string> odd;
  for (size_t r = 0; r < names.size(); ++r)
    if (digests[r] != right) odd.push_back(names[r]);
  const bool mine = !right.empty() && digests.at(static_cast<size_t>(group_.rank())) != right;
  throw Error::in(
      "train", mine ? Exit::internal : Exit::peer,
      fmt::format("after step {} the weights or the optimizer's state of {} differ{}: {} ({}) or "
                  "its memory is faulty; the same command continues from the last checkpoint, "
                  "which was compared",
                  step, short_list(odd), right.empty() ? "" : " from those of the other ranks",
                  right.empty() ? "the device of one of them" : "a device", device));
}

}  // namespace bv

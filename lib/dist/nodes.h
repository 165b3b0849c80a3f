// What the launchers of several hosts agree on through the store: how many ranks each starts, and
// whether the group starts again after a failure. Node 0 decides.
#pragma once

#include <functional>
#include <vector>

#include "lib/dist/launcher.h"
#include "lib/dist/store.h"

namespace bv::dist {

// An end that all ranks come to together, with none of them to blame: 0, 75, 130, 143.
bool orderly(int code);
// Whether the group may start again after `code`: not after an orderly end, 2 (usage) or 4
// (diverged).
bool may_restart(int code);

// How many ranks each node has after a failure: `sizes` as they are without --elastic; with it less
// `failed` of each node (but one), at most `most_ranks`, and such that the sum divides
// `batch_size` (if > 0). Empty if fewer than `least_ranks` are left.
std::vector<int> shrink(std::vector<int> sizes, const std::vector<int>& failed,
                        const LaunchOptions& options);

class Nodes {
 public:
  Nodes(int node, int count, Store store) : node_(node), count_(count), store_(std::move(store)) {}

  // Ranks of each node in this generation, once all have said theirs. `stop` is asked meanwhile;
  // empty if it says so. Throws Error(Exit::peer) naming a node that did not come in time,
  // Error(Exit::usage) where another launcher has this node's place.
  std::vector<int> sizes(int generation, int mine, double seconds,
                         const std::function<bool()>& stop);
  // After `generation` ended with `code` here and `failed` ranks of this node failed of themselves:
  // the ranks of each node in the next one, or nothing to stop. Waits for all nodes,
  // options.answer at most; a node that does not answer is gone for good.
  std::vector<int> next(int generation, int code, int failed, const std::vector<int>& sizes,
                        const LaunchOptions& options);

 private:
  void claim(int mine);
  std::vector<int> decide(int generation, const std::vector<int>& sizes,
                          const LaunchOptions& options);
  bool await(const std::string& key, double seconds);

  int node_, count_;
  Store store_;
};

}  // namespace bv::dist

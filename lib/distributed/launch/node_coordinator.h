// Coordinates the launchers of several hosts through the store: how many ranks each host starts,
// and whether the group restarts after a failure. The launcher of node 0, which also runs the
// store, decides; without it nothing continues.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/distributed/launch/launcher.h"
#include "lib/distributed/store.h"

namespace bv {

// Whether all ranks end together with this exit code and none of them has failed: 0, 75, 130, 143.
bool orderly(int code);
// Whether the group may restart after `code`: not after an orderly end, 2 (usage) or 4 (diverged).
bool may_restart(int code);

// Returns the ranks of each node after a failure. Without --elastic these are `sizes`. With it,
// each node loses its `failed` ranks, and then the total is reduced until it is at most
// `most_ranks` and divides `batch_size` (if > 0). Returns nothing if fewer than `least_ranks` are
// left.
//
// A node with 0 ranks is lost and stays at 0. Any other node keeps at least one rank, even if all
// of its ranks failed: its launcher answers, so the host is alive, and a rank that was killed (by
// hand, or because memory ran out) may succeed next time. A faulty host only costs restarts, whose
// number is limited; a node that is dropped never returns. Nodes are dropped only if each node has
// one rank and their total does not divide the batch size: first those whose ranks failed, and
// never node 0, which has rank 0 and the store.
std::vector<int> shrink(std::vector<int> sizes, const std::vector<int>& failed,
                        const LaunchOptions& options);

class NodeCoordinator {
 public:
  // For node `node` of `count`. `stop` is called while this object waits and returns true if a
  // signal asks the run to end.
  NodeCoordinator(int node, int count, Store store, std::function<bool()> stop)
      : node_(node), count_(count), store_(std::move(store)), stop_(std::move(stop)) {}

  // Publishes that this node starts `mine` ranks and returns the ranks of all nodes, or nothing if
  // `stop` returned true. Says in one line after 5 s which nodes it waits for. Throws
  // Error(Exit::peer) naming a node that does not join within `seconds`, and Error(Exit::usage) if
  // another launcher has the same node number.
  std::vector<int> sizes(int mine, double seconds);
  // Call it when all ranks of `generation` have ended. `sizes` are the ranks that each node had in
  // it. `code` is how those of this node ended; `failed` of them failed by themselves. Returns the
  // ranks of each node in the next generation, or nothing if there is none. Waits for all nodes
  // that have ranks; a node that does not answer within options.answer_timeout is lost and has 0
  // ranks from then on. Throws Error(Exit::peer) if the other nodes continue without this one.
  std::vector<int> next(int generation, int code, int failed, const std::vector<int>& sizes,
                        const LaunchOptions& options);

 private:
  void claim_node(int mine);
  std::vector<int> missing_nodes();
  std::string own_answer(int code, int failed) const;
  bool await(const std::string& key, double seconds);
  bool await_answer(const std::string& key, double seconds);
  void exchange_final_answers(int generation, const std::string& answer,
                              const std::vector<int>& sizes);
  bool collect_answers(int generation, int round, double seconds,
                       std::map<int, std::string>& answers);
  std::string decide_as_leader(int generation, int code, int failed, const std::vector<int>& sizes,
                               const LaunchOptions& options);
  std::string await_decision(int generation, int code, int failed, double answer_timeout);

  int node_, count_;
  Store store_;
  std::function<bool()> stop_;
};

}  // namespace bv

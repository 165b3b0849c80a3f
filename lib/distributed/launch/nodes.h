// What the launchers of several hosts agree on through the store: how many ranks each starts, and
// whether the group starts again after a failure. Node 0, which hosts the store, decides; nothing
// goes on without it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/distributed/launch/launcher.h"
#include "lib/distributed/store.h"

namespace bv {

// An end that all ranks come to together, with none of them to blame: 0, 75, 130, 143.
bool orderly(int code);
// Whether the group may start again after `code`: not after an orderly end, 2 (usage) or 4
// (diverged).
bool may_restart(int code);

// How many ranks each node has after a failure: `sizes` as they are without --elastic; with it less
// `failed` of each node, at most `most_ranks`, and such that the sum divides `batch_size` (if > 0).
// Empty if fewer than `least_ranks` are left.
//
// A node with 0 ranks (its host is lost) keeps 0. Any other keeps one even if all its ranks failed:
// its launcher answers, so its host lives, and a rank that was killed (by hand, for memory) may
// well do next time. A host that is at fault costs restarts, which are numbered; to leave out one
// that is not would cost it for good, since nobody asks it again. Only where each node has one rank
// and their sum does not divide the batch are nodes left out, those with failed ranks first; never
// node 0, which has rank 0 and the store.
std::vector<int> shrink(std::vector<int> sizes, const std::vector<int>& failed,
                        const LaunchOptions& options);

class Nodes {
 public:
  // `stop`, asked while this waits, says whether a signal asks the run to end.
  Nodes(int node, int count, Store store, std::function<bool()> stop)
      : node_(node), count_(count), store_(std::move(store)), stop_(std::move(stop)) {}

  // Ranks of each node at the start, once all have said theirs; empty if `stop` says so. Throws
  // Error(Exit::peer) naming a node that did not come in time, Error(Exit::usage) where another
  // launcher has this node's place.
  std::vector<int> sizes(int mine, double seconds);
  // After `generation`, of `sizes` ranks on each node, ended with `code` here and `failed` ranks of
  // this node failed of themselves: the ranks of each node in the next one, or nothing to stop.
  // Waits for the nodes that have ranks; one that does not answer within options.answer is gone for
  // good, and has 0 ranks from then on. Throws Error(Exit::peer) where the others go on without
  // this node.
  std::vector<int> next(int generation, int code, int failed, const std::vector<int>& sizes,
                        const LaunchOptions& options);

 private:
  void claim(int mine);
  std::string words(int code, int failed) const;
  bool await(const std::string& key, double seconds);
  bool answers(const std::string& key, double seconds);
  void last_words(int generation, const std::string& words, const std::vector<int>& sizes);
  bool ask(int generation, int round, double seconds, std::map<int, std::string>& said);
  std::string lead(int generation, int code, int failed, const std::vector<int>& sizes,
                   const LaunchOptions& options);
  std::string follow(int generation, int code, int failed, double answer);

  int node_, count_;
  Store store_;
  std::function<bool()> stop_;
};

}  // namespace bv

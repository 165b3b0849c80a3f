// The watch over a group: each process says every other second that it lives and what it does, and
// reads the same of the others. When a rank is dead, stopped or does not come, or the store is
// lost, every process ends with exit code 7 and one line on stderr and in its log.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/distributed/launch/rank_layout.h"
#include "lib/distributed/watch/judge.h"

namespace bv {

// Key of the one accusation that all believe: "-" until the first one comes.
inline constexpr const char* kVerdictKey = "verdict";
inline constexpr const char* kNoVerdict = "-";
std::string heartbeat_key(int rank);

// Thread-safe. Two threads: one talks with the store on a connection of its own, one only looks
// that the first gets answers (a stopped store blocks its clients).
class Watch {
 public:
  // Waits for the store; throws as it does.
  Watch(const RankLayout& place, const std::string& address, const Bounds& bounds,
        const std::function<bool()>& stop = {});
  ~Watch();  // as stop()
  Watch(const Watch&) = delete;

  // Returns when all ranks have sent a beat; exits (7) after Bounds::startup, naming who is
  // missing. False where `stop` said so first.
  bool await_all(const std::function<bool()>& stop);

  int64_t begin(const char* what);  // a collective begins; its number
  void await_begin();               // the main thread waits for one
  void await_end(int64_t joined);   // ... no more; the newest that all ranks are proved to have
                                    // joined, 0 for nothing new
  void note_step(int64_t step);     // a step ended
  std::string phase(const std::string& name);  // "" ends a long phase; the one before
  // A collective of number `number` threw: waits until it is known who is to blame, and exits (7).
  [[noreturn]] void failed(int64_t number, const char* what, const std::string& message);
  // Tells the others that this process ends, and why. Best effort, for a second; the
  // store's host stays until they have read it.
  void accuse_self(const std::string& cause);

  void ending();  // before the last barrier of a good end
  void stop();    // behind it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv

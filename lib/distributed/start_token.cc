// Keys in the store, below RankLayout::token:
//   start              the newest offer, a random token
//   <offer>/announced  how many times ranks have announced themselves
//   <offer>/answered   how many of these announcements rank 0 has seen
#include "lib/distributed/start_token.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "lib/distributed/store.h"
#include "lib/distributed/watch/deadline.h"
#include "lib/util/error.h"
#include "lib/util/parse_count.h"

namespace bv {
namespace {

// In seconds.
constexpr double kFirstPause = 0.02, kLongestPause = 0.5;
constexpr const char* kOffer = "start";

std::string announced_key(const std::string& offer) { return offer + "/announced"; }
std::string answered_key(const std::string& offer) { return offer + "/answered"; }

// A rank other than 0, which looks for an offer and for the answer to it.
class Announcer {
 public:
  explicit Announcer(Store& store) : store_(store) {}

  // Announces this rank if there is a new offer. Returns whether rank 0 has answered.
  bool look() {
    if (!store_.has({kOffer})) return false;
    const std::string newest = store_.get(kOffer);
    if (newest != offer_) {
      offer_ = newest;
      number_ = store_.add(announced_key(offer_), 1);
    }
    return parse_count<int64_t>(store_.get(answered_key(offer_))).value_or(0) >= number_;
  }
  const std::string& offer() const { return offer_; }

 private:
  Store& store_;
  std::string offer_;
  int64_t number_ = 0;  // of this rank's announcement
};

std::string await_answer(Store& store, const std::string& where, double seconds,
                         const std::function<bool()>& stop) {
  Announcer announcer(store);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (double pause = kFirstPause;; pause = std::min(kLongestPause, 1.3 * pause)) {
    try {
      if (announcer.look()) return announcer.offer();
    } catch (const std::exception&) {
      throw Error::in("distributed", Exit::peer,
                      fmt::format("the run's store at {} was lost before rank 0 joined", where));
    }
    if (stop && stop()) throw Interrupted{};
    if (std::chrono::steady_clock::now() > end)
      throw Error::in("distributed", Exit::peer,
                      fmt::format("rank 0 did not join within {:g} s", seconds));
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
}

}  // namespace

// Rank 0's offer, and the thread that answers the ranks that announce themselves.
struct StartToken::Answers {
  explicit Answers(Store connection) : store(std::move(connection)), offer(random_token()) {
    store.set(answered_key(offer), "0");
    store.set(kOffer, offer);
    thread = std::thread([this] { run(); });
  }
  ~Answers() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    changed.notify_all();
    thread.join();
  }

  void run() {
    int64_t answered = 0;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::duration<double>(kFirstPause),
                             [&] { return ended; })) {
      lock.unlock();
      try {
        const int64_t announced = store.add(announced_key(offer), 0);
        if (announced > answered)
          store.set(answered_key(offer), std::to_string(answered = announced));
      } catch (const std::exception&) {
        return;  // the store is lost, which Watch reports
      }
      lock.lock();
    }
  }

  Store store;  // the thread's, once it runs
  const std::string offer;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::thread thread;
};

StartToken::StartToken(const RankLayout& layout, const std::string& address, double seconds,
                       const std::function<bool()>& stop)
    : token_(layout.token) {
  if (layout.found_by != "torchrun") return;
  const std::string where = fmt::format("{}:{}", address, layout.port);
  const std::string line = fmt::format(
      "[distributed] the store at {} accepts connections but does not answer: is it a run's store?",
      where);
  const auto connect = [&] {
    const Deadline deadline(seconds + kStoreGreeting, line);
    return Store(address, layout.port, layout.token, seconds, stop);
  };
  if (layout.rank == 0) {
    answers_ = std::make_unique<Answers>(connect());
    token_ += "." + answers_->offer;
    return;
  }
  Store store = connect();
  const Deadline deadline(seconds + kStoreGreeting, line);
  token_ += "." + await_answer(store, where, seconds, stop);
}

StartToken::~StartToken() = default;

}  // namespace bv

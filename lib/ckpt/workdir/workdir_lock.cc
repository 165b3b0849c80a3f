#include "lib/ckpt/workdir/workdir_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "lib/ckpt/system_error.h"
#include "lib/report/log.h"
#include "lib/util/crash_point.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/host.h"
#include "lib/util/limits.h"
#include "lib/util/parse_count.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

using std::chrono::steady_clock;

// The second note follows sooner than later ones. Two hosts that do not see each other's locks may
// start a run at the same time. With this short delay they detect it before either run has saved
// anything.
constexpr double kFirstBeat = 1;  // seconds

// What the holder writes into the file: "<process> <host> <boot of the machine> <counter>".
struct Note {
  std::string text, process, host, machine;

  explicit Note(std::string_view line) : text(line) {
    const auto words = split(line, ' ');
    if (words.size() < 2 || !parse_count(words[0])) return;
    process = words[0];
    host = words[1];
    if (words.size() > 2) machine = words[2];
  }
  bool names_a_process() const { return !process.empty(); }
  bool same_process(const Note& other) const {
    return process == other.process && host == other.host && machine == other.machine;
  }
  std::string holder() const {
    if (!names_a_process()) return "another process";
    return fmt::format("process {} on host {}", process, host);
  }
};

Note read_note(int fd) {
  std::array<char, limits::kNoteBytes> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view all(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return Note(all.substr(0, all.find('\n')));
}

// Reopens the file, because only then do network file systems ask their server for its content.
Note read_note_again(const std::string& path) {
  const int fd =
      retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (fd < 0) return Note("");
  Note note = read_note(fd);
  ::close(fd);
  return note;
}

// The note of this process, except for the counter. It is built once: a host name may change.
std::string own_name() {
  const std::string boot = boot_id();
  return fmt::format("{} {} {}", ::getpid(), host_name(), boot.empty() ? "-" : boot);
}

// All notes of a process have the same length, so each overwrites the previous one completely.
std::string note_text(const std::string& name, int64_t counter) {
  return fmt::format("{} {:010}\n", name, counter);
}

[[noreturn]] void refuse_workdir(const std::string& dir, const Note& holder,
                                 std::string_view option) {
  throw Error(Exit::usage, dir,
              fmt::format("the workdir is in use by {}; wait for it or choose another {}",
                          holder.holder(), option));
}

// Whether `path` still names the open file: another run's --cleanup may have removed it.
bool same_file(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

// Throws a "workdir is in use" Error if another machine's note changes within three beats.
// The age of the file proves nothing: a file server sets it, whose clock may be wrong.
void watch_other_machine(const std::string& dir, const std::string& lock, const Note& before,
                         const Note& own, std::string_view option) {
  const bool same_machine = before.machine == "-" || before.machine.empty()
                                ? before.host == own.host
                                : before.machine == own.machine;
  if (same_machine) return;
  const double wait = WorkdirLock::kSilentBeats * WorkdirLock::beat();
  log::info("{} was in use by {}: waiting {:.0f} s to see whether it still runs", dir,
            before.holder(), wait);
  const auto end = steady_clock::now() + std::chrono::duration<double>(wait);
  while (steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::duration<double>(WorkdirLock::beat() / 10));
    poll_signals();
    const Note now = read_note_again(lock);
    if (now.text != before.text && now.names_a_process()) refuse_workdir(dir, now, option);
  }
}

// Closes the file, unless told to keep it open.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

void lock_file(int fd, const std::string& dir, const std::string& lock, double patience,
               std::string_view option) {
  const auto end = steady_clock::now() + std::chrono::duration<double>(patience);
  while (!is_missing("flock") && ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error != EWOULDBLOCK)
      throw Error(exit_for_path(error), lock, "cannot lock: " + reason(error));
    if (steady_clock::now() >= end) refuse_workdir(dir, read_note(fd), option);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// Returns whether all of it was written.
bool write_note(int fd, std::string_view note) {
  for (off_t at = 0; !note.empty();) {
    const ssize_t bytes = ::pwrite(fd, note.data(), note.size(), at);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes == 0) errno = ENOSPC;
    if (bytes <= 0) return false;
    at += bytes;
    note.remove_prefix(static_cast<size_t>(bytes));
  }
  return true;
}

void write_first_note(int fd, const std::string& lock, const std::string& name) {
  if (retry_interrupted([&] { return ::ftruncate(fd, 0); }) != 0 ||
      !write_note(fd, note_text(name, 0)))
    throw Error(Exit::storage, lock, "cannot write: " + reason(errno));
  ::fdatasync(fd);  // so that other hosts see it
}

}  // namespace

struct WorkdirLock::Held {
  const int fd;
  const std::string dir, path, name;  // name: of this process, as in its notes
  std::mutex mutex;
  std::condition_variable_any wake;
  std::jthread thread;  // last: it uses the others

  Held(int descriptor, std::string folder, std::string file, std::string own)
      : fd(descriptor), dir(std::move(folder)), path(std::move(file)), name(std::move(own)) {
    thread = std::jthread([this](const std::stop_token& stop) { write_notes(stop); });
  }
  ~Held() {
    end_thread();
    // An empty file means that its holder has released the lock.
    [[maybe_unused]] const int failed = retry_interrupted([this] { return ::ftruncate(fd, 0); });
    ::close(fd);
  }
  void end_thread() {
    thread.request_stop();
    if (thread.joinable()) thread.join();
  }
  void write_notes(const std::stop_token& stop);
  void write_next(int64_t counter) const;
};

void WorkdirLock::Held::write_notes(const std::stop_token& stop) {
  for (int64_t counter = 1; !stop.stop_requested(); ++counter) {
    const double wait = counter == 1 ? std::min(kFirstBeat, beat()) : beat();
    {
      std::unique_lock guard(mutex);
      wake.wait_for(guard, stop, std::chrono::duration<double>(wait), [] { return false; });
    }
    if (stop.stop_requested()) return;
    try {
      write_next(counter);
    } catch (const std::bad_alloc&) {  // training will run into it, too
    }
  }
}

// A failed write is not an error: everything important is stored elsewhere, and the next save will
// report a broken disk.
void WorkdirLock::Held::write_next(int64_t counter) const {
  const OpenFile file(
      retry_interrupted([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK); }));
  if (file.get() < 0) return;
  const Note found = read_note(file.get());
  if (found.names_a_process() && !found.same_process(Note(name))) {
    log::warn("{}: {} has taken over the workdir: this run ends", dir, found.holder());
    log::flush();
    ::_exit(static_cast<int>(Exit::usage));
  }
  write_note(file.get(), note_text(name, counter));  // close() sends it to a server
}

WorkdirLock::WorkdirLock(std::unique_ptr<Held> held) : held_(std::move(held)) {}
WorkdirLock::WorkdirLock(WorkdirLock&&) noexcept = default;
WorkdirLock::~WorkdirLock() = default;

double WorkdirLock::beat() { return lock_beat().value_or(kBeat); }

std::string WorkdirLock::holder(const std::string& lock) {
  const Note note = read_note_again(lock);
  return note.names_a_process() ? fmt::format("{} {} {}", note.process, note.host, note.machine)
                                : "";
}

bool WorkdirLock::is_taken(const std::string& lock) {
  const OpenFile file(
      retry_interrupted([&] { return ::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (file.get() < 0 || is_missing("flock")) return false;
  return ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void WorkdirLock::stop_beat() { held_->end_thread(); }

std::optional<WorkdirLock> WorkdirLock::take(const std::string& dir, const std::string& lock,
                                             double patience, std::string_view option) {
  OpenFile file(
      retry_interrupted([&] { return ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  if (file.get() < 0) throw Error(exit_for_path(errno), lock, "cannot open: " + reason(errno));
  lock_file(file.get(), dir, lock, patience, option);
  if (!same_file(file.get(), lock)) return std::nullopt;
  const std::string name = own_name();
  const Note before = read_note(file.get());
  if (before.names_a_process()) {
    watch_other_machine(dir, lock, before, Note(name), option);
    if (!same_file(file.get(), lock)) return std::nullopt;
    log::info("Takes over {} from {}, which did not release it", dir, before.holder());
  }
  write_first_note(file.get(), lock, name);
  return WorkdirLock(std::make_unique<Held>(file.release(), dir, lock, name));
}

bool LockWatch::is_held() {
  const Note now = read_note_again(lock_);
  if (!now.names_a_process()) return false;
  if (now.text != line_) {
    line_ = now.text;
    since_ = steady_clock::now();
  }
  const std::chrono::duration<double> silent = steady_clock::now() - since_;
  return silent.count() < WorkdirLock::kSilentBeats * WorkdirLock::beat();
}

}  // namespace bv

#include "lib/report/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "lib/config/duration.h"
#include "lib/report/console.h"
#include "lib/report/muted.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv::log {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

constexpr std::string_view kYellow = "\033[33m", kReset = "\033[0m", kEraseLine = "\r\033[K";

bool wants_terminal() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

size_t terminal_width() {
  struct winsize size {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// Returns the maximum width of a character with this first UTF-8 byte; 0 for a continuation byte.
// From U+1000 on (first byte E1) characters may be two columns wide.
size_t columns(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if ((byte & 0xC0) == 0x80) return 0;
  return byte < 0xE1 ? 1 : 2;
}

// Returns a prefix of UTF-8 text that certainly fits into `width` columns.
std::string_view cut(std::string_view text, size_t width) {
  size_t used = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    used += columns(text[i]);
    if (used > width) return text.substr(0, i);
  }
  return text;
}

// Writes log lines to stderr. On a terminal it keeps the live progress line below them; otherwise a
// thread writes the progress as an ordinary line after each longer silence.
class ConsoleSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void start(Clock::duration longest_silence) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_ = wants_terminal();
    longest_silence_ = longest_silence;
    progress_.clear();
    line_.clear();
    drawn_ = {};
    written_ = Clock::now();
    wake_.notify_one();
  }
  void progress(std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (live_) return draw(text);
    if (progress_ != text) changed_ = Clock::now();
    if (progress_.empty()) wake_.notify_one();
    progress_ = text;
    if (watched_) return;
    watched_ = true;
    std::thread([this] { watch(); }).detach();  // the sink is never destroyed
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    progress_.clear();
    if (!line_.empty()) console::write(kEraseLine);
    line_.clear();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text = line_of(message);
    written_ = Clock::now();
    console::write(line_.empty() ? text : fmt::format("{}{}{}", kEraseLine, text, line_));
  }
  void flush_() override {}

 private:
  // Returns a message with its time stamp.
  std::string line_of(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string text(formatted.data(), formatted.size());
    if (live_) paint(text);
    return text;
  }
  static void paint(std::string& text) {
    for (const std::string_view word : {"NOTE:", "warning:"}) {
      // Only directly after the stamp, where write_note() and write_warning() put the word.
      if (text.compare(kStampWidth, word.size(), word) != 0) continue;
      text = fmt::format("{}{}{}{}{}", text.substr(0, kStampWidth), kYellow, word, kReset,
                         text.substr(kStampWidth + word.size()));
      return;
    }
  }

  void draw(std::string_view text) {
    const auto now = Clock::now();
    if (drawn_ != Clock::time_point() && now - drawn_ < kRedrawInterval) return;
    drawn_ = now;
    const std::string clean = printable(text, std::string::npos);
    // A line as wide as the terminal would wrap and could not be erased again.
    line_ = cut(clean, terminal_width() - 1);
    console::write(fmt::format("\r{}\033[K", line_));
  }

  // The thread that ends a long silence.
  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      const auto due = written_ + longest_silence_;
      if (progress_.empty()) {
        wake_.wait(lock);
      } else if (Clock::now() < due) {
        wake_.wait_until(lock, due);
      } else {
        write_progress();
      }
    }
  }
  void write_progress() {
    std::string text = printable(progress_, std::string::npos);
    const auto unchanged = Clock::now() - changed_;
    if (unchanged >= longest_silence_) {
      text += fmt::format("  (unchanged for {})",
                          duration_text(std::chrono::duration<double>(unchanged).count()));
    }
    sink_it_({"console", spdlog::level::info, text});
  }

  static constexpr size_t kStampWidth = 15;  // "I1121 09:30:01 "
  bool live_ = false;
  std::string line_;         // the live line on the screen; empty if there is none
  Clock::time_point drawn_;  // when it was drawn

  // Used if there is no live line:
  Clock::duration longest_silence_ = kLongestSilence;
  std::string progress_;                 // empty: nothing is in progress
  Clock::time_point changed_, written_;  // when progress_ changed; when a line was written
  bool watched_ = false;                 // watch() runs
  std::condition_variable wake_;
};

struct Log {
  std::shared_ptr<ConsoleSink> console_sink = std::make_shared<ConsoleSink>();
  std::shared_ptr<spdlog::logger> console =
      std::make_shared<spdlog::logger>("console", console_sink);
  std::mutex mutex;  // guards `file`
  std::shared_ptr<spdlog::logger> file;

  Log() {
    console_sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%L%m%d %H:%M:%S %v", spdlog::pattern_time_type::local));
  }
};

// Never destroyed, since other threads may log until the process ends. stdio flushes the file then.
Log& state() {
  static Log& log = *new Log;
  return log;
}

std::shared_ptr<spdlog::logger> log_file() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().file;
}

void to_file(spdlog::logger& file, std::string_view text, spdlog::level::level_enum level) {
  for (const std::string& line : split(text, '\n')) {
    file.log(level, spdlog::string_view_t(printable_lines(line)));
  }
}

thread_local int t_muted = 0;  // objects of the class Muted

void write(std::string_view text, spdlog::level::level_enum level) {
  if (t_muted > 0) return;
  for (const std::string& line : split(text, '\n')) {
    state().console->log(level, spdlog::string_view_t(printable_lines(line)));
  }
  if (const auto file = log_file()) {
    to_file(*file, text, level);
    file->flush();
  }
}

}  // namespace

void start(std::chrono::milliseconds longest_silence) {
  state().console_sink->start(longest_silence);
}

void set_rank(int rank) {
  if (rank == 0) return;
  state().console->set_level(spdlog::level::warn);
  state().console_sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      fmt::format("%L%m%d %H:%M:%S rank {}: %v", rank), spdlog::pattern_time_type::local));
}

void open_file(const std::string& file) {
  refuse_special_file(file);
  // spdlog would make the folder without write permission for the group.
  make_folders(std::filesystem::path(file).parent_path());
  std::shared_ptr<spdlog::logger> logger;
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%dT%H:%M:%S.%eZ %L %v", spdlog::pattern_time_type::utc));
    logger = std::make_shared<spdlog::logger>("file", std::move(sink));
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(Exit::storage, file, fmt::format("cannot write: {}", error.what()));
  }
  logger->set_error_handler([file,
                             warned = std::make_shared<std::once_flag>()](const std::string& what) {
    std::call_once(*warned, [&] {
      state().console->warn("warning: {}: log lines are being lost: {}",
                            printable(file, std::string::npos), printable(what, std::string::npos));
    });
  });
  console::drop_when_stalled(file);
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().file = std::move(logger);
}

void close_file() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (!state().file) return;
  console::drop_when_stalled();
  state().file.reset();
}

void flush() {
  if (const auto file = log_file()) file->flush();
}

std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\n");
  return text;
}

Muted::Muted() { ++t_muted; }
Muted::~Muted() { --t_muted; }

void write_info(std::string_view text) { write(text, spdlog::level::info); }
void write_note(std::string_view text) {
  write(fmt::format("NOTE: {}", text), spdlog::level::info);
}
void write_warning(std::string_view text) {
  const bool complete = text.find(": warning: ") != std::string_view::npos;
  write(complete ? std::string(text) : fmt::format("warning: {}", text), spdlog::level::warn);
}

void write_detail(std::string_view text) {
  if (const auto file = log_file()) to_file(*file, text, spdlog::level::info);
}

void progress(std::string_view text) { state().console_sink->progress(text); }
void clear_progress() { state().console_sink->clear(); }

}  // namespace bv::log

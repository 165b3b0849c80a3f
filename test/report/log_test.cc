// Output to the console (a pipe, a terminal) and the log file.
#include "lib/report/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/report/console.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/folder.h"
#include "test/support/limits.h"
#include "test/support/variable.h"

namespace {

namespace log = bv::log;
using bv::test::TempFolder;
using bv::test::Variable;

// Stands in for stderr: a pipe or a terminal whose other end is read here.
class Console {
 public:
  enum class Kind { pipe, terminal };
  explicit Console(Kind kind) : kind_(kind), saved_(dup(STDERR_FILENO)) {
    int theirs = -1;
    if (kind == Kind::pipe) {
      int ends[2];
      if (pipe(ends) != 0) return;
      ours_ = ends[0];
      theirs = ends[1];
    } else {
      struct winsize size {
        24, 40, 0, 0
      };
      if (openpty(&ours_, &theirs, nullptr, nullptr, &size) != 0) return;
    }
    dup2(theirs, STDERR_FILENO);
    close(theirs);
    log::start();
    ok_ = true;
  }
  ~Console() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(ours_);
    log::start();
  }
  Console(const Console&) = delete;
  bool ok() const { return ok_; }

  // Returns what was written since the last call.
  std::string read() const {
    std::string text;
    struct pollfd wait {
      ours_, POLLIN, 0
    };
    // A pipe has the bytes at once. In a terminal the kernel passes them on a little later.
    const auto patience = [&] { return kind_ == Kind::terminal && text.empty() ? 200 : 20; };
    while (poll(&wait, 1, patience()) == 1) {
      char buffer[4096];
      const ssize_t n = ::read(ours_, buffer, sizeof(buffer));
      if (n <= 0) break;
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }

 private:
  const Kind kind_;
  int saved_, ours_ = -1;
  bool ok_ = false;
};

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

const std::string kStamp = "I\\d{4} \\d\\d:\\d\\d:\\d\\d ";

}  // namespace

TEST_CASE("log: a pipe gets plain lines with time stamps, and nothing meant for a terminal") {
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  log::info("loss {:.2f}", 0.5);
  CHECK(matches(console.read(), kStamp + "loss 0\\.50\n"));
  log::write_note("Done!\nSteps:1/1");
  CHECK(matches(console.read(), kStamp + "NOTE: Done!\n" + kStamp + "Steps:1/1\n"));
  log::warn("{} is odd", "x");
  CHECK(matches(console.read(), "W\\d{4} \\d\\d:\\d\\d:\\d\\d warning: x is odd\n"));
  log::info("{}", "a\033[2Jb\rc\td");  // braces and escapes in text of others
  log::info("{}", "{} {0}");
  CHECK(matches(console.read(),
                kStamp + "a\\\\x1b\\[2Jb\\\\x0dc\td\n" + kStamp + "\\{\\} \\{0\\}\n"));
}

TEST_CASE("log: a name cannot control the terminal, nor pretend to be a line of its own") {
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  log::info("Wrote {}", "a\nI1122 10:04:52 Done");
  CHECK(matches(console.read(), kStamp + R"(Wrote a\\nI1122 10:04:52 Done\n)"));
  log::info("{}",
            "\xC2\x9B"
            "2J \xE2\x80\xAE"
            "gpj.é \xFF");  // C1, right to left, not UTF-8
  CHECK(matches(console.read(), kStamp + R"(\\u009b2J \\u202egpj\.é \\xff\n)"));
}

TEST_CASE("log: in a pipe progress is an ordinary line that ends a silence") {
  using std::chrono::milliseconds;
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  SECTION("a busy log shows no progress") {
    for (int step = 1; step < 100; ++step) log::progress(fmt::format("step {}", step));
    log::info("hello");
    CHECK(matches(console.read(), kStamp + "hello\n"));
    log::clear_progress();
  }
  SECTION("a silent one shows the newest, and for how long it is the same") {
    log::start(milliseconds(300));
    log::progress("step 1");
    log::progress("step 2");
    std::string text;
    for (int i = 0; i < 1000 && text.find("unchanged") == std::string::npos; ++i)
      text += console.read();
    CHECK(matches(text, "(" + kStamp + "step 2\n)?" + kStamp +
                            "step 2  \\(unchanged for \\d+s\\)\n" + "[^]*"));
    log::progress("step 3");
    text.clear();
    for (int i = 0; i < 1000 && text.find("step 3") == std::string::npos; ++i)
      text += console.read();
    CHECK(text.find("step 3") != std::string::npos);
    log::clear_progress();
    console.read();
    std::this_thread::sleep_for(milliseconds(700));
    CHECK(console.read().empty());
  }
}

TEST_CASE("log: on a terminal, colours and one live line below the log") {
  const Variable no_color("NO_COLOR", nullptr), term("TERM", "xterm");
  const Console console(Console::Kind::terminal);
  if (!console.ok()) {
    WARN("skipped: no pseudo-terminals here");
    return;
  }
  log::note("Creating model...");
  CHECK(matches(console.read(), kStamp + "\033\\[33mNOTE:\033\\[0m Creating model\\.\\.\\.\r\n"));
  log::info("NOTE is only a word: NOTE: here");
  CHECK(console.read().find("\033[33m") == std::string::npos);

  const auto start = std::chrono::steady_clock::now();
  for (int step = 1; step <= 50; ++step) log::progress(fmt::format("step {}/300", step));
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const std::string drawn = console.read();
  CHECK(matches(drawn, "\rstep 1/300\033\\[K(\rstep \\d+/300\033\\[K)*"));
  CHECK(std::count(drawn.begin(), drawn.end(), '\r') <=
        1 + elapsed / std::chrono::milliseconds(100));
  log::info("hello");
  CHECK(matches(console.read(), "\r\033\\[K" + kStamp + "hello\r\nstep \\d+/300"));
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  log::progress(std::string(60, 'x') + "\n");
  CHECK(console.read() == "\r" + std::string(39, 'x') + "\033[K");  // the terminal has 40 columns
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  log::progress("\u00e9\t" + std::string(29, 'x') + "\u4e2d\u4e2d\u4e2d\u4e2d");
  // A letter, an escaped tab, 29 letters: 34 columns. Two wide characters more, but not a third.
  CHECK(console.read() == "\r\u00e9\\x09" + std::string(29, 'x') + "\u4e2d\u4e2d\033[K");
  log::clear_progress();
  CHECK(console.read() == "\r\033[K");
  log::info("bye");
  CHECK(matches(console.read(), kStamp + "bye\r\n"));
}

TEST_CASE("log: a terminal without colours is treated as a file") {
  const auto check_plain = [] {
    const Console console(Console::Kind::terminal);
    if (!console.ok()) {
      WARN("skipped: no pseudo-terminals here");
      return;
    }
    log::note("Hello");
    log::progress("step 1");
    CHECK(matches(console.read(), kStamp + "NOTE: Hello\r\n"));
    log::clear_progress();
  };
  SECTION("NO_COLOR") {
    const Variable no_color("NO_COLOR", "1"), term("TERM", "xterm");
    check_plain();
  }
  SECTION("TERM=dumb") {
    const Variable no_color("NO_COLOR", nullptr), term("TERM", "dumb");
    check_plain();
  }
}

TEST_CASE("log: the file has UTC stamps, details, no progress and no colour") {
  const TempFolder scratch;
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  log::open_file(scratch / "log.txt");
  log::write_info("one\ntwo");
  log::progress("step 1");
  log::write_detail("[3] loss = 1");
  log::note("three");
  console.read();
  const std::string stamp = "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z ";
  CHECK(matches(bv::read_file(scratch / "log.txt"), stamp + "I one\n" + stamp + "I two\n" + stamp +
                                                        "I \\[3\\] loss = 1\n" + stamp +
                                                        "I NOTE: three\n"));
  log::write_detail("last");
  log::flush();
  CHECK(matches(bv::read_file(scratch / "log.txt"), "[^]*I last\n"));
  CHECK(console.read().empty());  // details do not go to the console

  log::open_file(scratch / "log.txt");  // opened again: it is appended to
  log::info("more");
  CHECK(matches(bv::read_file(scratch / "log.txt"), "[^]*I last\n[^]*I more\n"));
}

TEST_CASE("log: the folder of the file has the permissions that the umask leaves") {
  const TempFolder scratch;
  const mode_t mask = ::umask(002);
  CHECK_NOTHROW(log::open_file(scratch / "log/rank-0.log"));
  ::umask(mask);
  log::close_file();
  using std::filesystem::perms;
  // Without the bits that the folder takes over from the one above it.
  CHECK((std::filesystem::status(scratch / "log").permissions() & perms::all) ==
        (perms::owner_all | perms::group_all | perms::others_read | perms::others_exec));
}

// On NFS, the folder of a file that is still open cannot be deleted.
TEST_CASE("log: a file that was closed gets no more lines") {
  const TempFolder scratch;
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  const auto is_open = [&] {
    for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      if (std::filesystem::read_symlink(open.path(), error) ==
          std::filesystem::canonical(scratch / "log.txt"))
        return true;
    }
    return false;
  };
  log::open_file(scratch / "log.txt");
  log::info("one");
  CHECK(is_open());
  log::close_file();
  CHECK_FALSE(is_open());
  log::info("two");
  CHECK(matches(bv::read_file(scratch / "log.txt"), "[^]*I one\n"));
  CHECK(matches(console.read(), kStamp + "one\n" + kStamp + "two\n"));
}

TEST_CASE("log: a file that cannot be opened is a storage error; one that fills up is a warning") {
  const TempFolder scratch;
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  bv::write_file_atomically(scratch / "file", "");
  try {
    log::open_file(scratch / "file/log.txt");
    FAIL("opened");
  } catch (const bv::Error& error) {
    CHECK(error.code() == bv::Exit::storage);
    CHECK_THAT(error.what(), Catch::StartsWith((scratch / "file") + ": error: cannot make the "));
  }
  log::open_file(scratch / "full.txt");
  std::signal(SIGXFSZ, SIG_IGN);
  {
    const bv::test::Limit none(RLIMIT_FSIZE, 0);
    log::info("one");
    log::info("two");
  }
  log::open_file(scratch / "good.txt");
  const std::string text = console.read();
  CHECK_THAT(text,
             Catch::Contains("warning: " + (scratch / "full.txt") + ": log lines are being lost"));
  CHECK(text.find("lost") == text.rfind("lost"));
}

// Logs more lines than a console takes that nobody reads, lets it go on, and logs another.
void check_stalled(const Console& console, const std::function<void()>& let_go_on) {
  using std::chrono::milliseconds, std::chrono::seconds;
  const TempFolder scratch;
  log::open_file(scratch / "log.txt");
  constexpr int64_t kLines = 100;
  std::atomic<bool> done{false};
  std::string seen;
  std::thread late([&] {  // so that the test ends even if log::info() waits for a reader
    for (int i = 0; i < 200 && !done; ++i) std::this_thread::sleep_for(milliseconds(50));
    if (done) return;
    let_go_on();
    while (!done) seen += console.read();
  });
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kLines; ++i) log::info("{} {}", i, std::string(1000, 'x'));
  const auto waited = std::chrono::steady_clock::now() - start;
  done = true;
  late.join();
  CHECK(waited < seconds(8));  // once a second, and not for each line
  let_go_on();
  seen += console.read();
  const int64_t fits = std::count(seen.begin(), seen.end(), '\n');
  CHECK(fits < kLines);
  log::info("again");
  seen = console.read();
  CHECK_THAT(seen, Catch::Contains(
                       fmt::format("warning: {} lines are missing here, because standard error was "
                                   "not read; {} has all lines of the log",
                                   kLines - fits, scratch / "log.txt")));
  CHECK_THAT(seen, Catch::Contains(" again"));
  log::info("last");
  CHECK(console.read().find("missing") == std::string::npos);
  const std::string file = bv::read_file(scratch / "log.txt");
  CHECK(std::count(file.begin(), file.end(), '\n') == kLines + 2);
}

TEST_CASE("log: a console that nobody reads loses lines, but does not stop the run") {
  SECTION("a full pipe") {
    const Console console(Console::Kind::pipe);
    REQUIRE(console.ok());
    check_stalled(console, [] {});
  }
  SECTION("a terminal after Ctrl-S") {
    const Variable no_color("NO_COLOR", "1");
    const Console console(Console::Kind::terminal);
    if (!console.ok()) {
      WARN("skipped: no pseudo-terminals here");
      return;
    }
    REQUIRE(tcflow(STDERR_FILENO, TCOOFF) == 0);
    check_stalled(console, [] { tcflow(STDERR_FILENO, TCOON); });
  }
}

TEST_CASE("console: lines that nobody reads are counted without a log too, as in a launcher") {
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  bv::console::drop_when_stalled();
  constexpr int64_t kLines = 100;
  for (int64_t i = 0; i < kLines; ++i)
    bv::console::write(fmt::format("[rank 1] {} {}\n", i, std::string(1000, 'x')));
  const std::string seen = console.read();
  const int64_t fits = std::count(seen.begin(), seen.end(), '\n');
  CHECK(fits < kLines);
  bv::console::write("[rank 1] again\n");
  CHECK_THAT(console.read(),
             Catch::EndsWith(fmt::format("warning: {} lines are missing here, because standard "
                                         "error was not read\n[rank 1] again\n",
                                         kLines - fits)));
  bv::console::write("[rank 1] last\n");
  CHECK(console.read() == "[rank 1] last\n");
}

TEST_CASE("log: lines of many threads stay whole") {
  const TempFolder scratch;
  const Console console(Console::Kind::pipe);
  REQUIRE(console.ok());
  log::open_file(scratch / "log.txt");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) log::info("thread {} line {} end", t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : {console.read(), bv::read_file(scratch / "log.txt")}) {
    std::vector<std::string> lines = bv::split(text, '\n');
    lines.pop_back();
    CHECK(lines.size() == 200);
    for (const std::string& line : lines) {
      REQUIRE(matches(line, ".{15,30}thread \\d line \\d+ end"));
    }
  }
}

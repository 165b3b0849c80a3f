// The file of decoded images: it never returns a wrong image, whatever happens to it.
#include "lib/input/cache/image_store.h"

#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <thread>

#include "lib/input/cache/cache_memory.h"
#include "lib/input/cache/file_lock.h"
#include "lib/util/rng.h"
#include "test/support/child.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

using Found = ImageStore::Found;
using Kept = ImageStore::Kept;
using Pixels = std::vector<uint8_t>;

constexpr int64_t kMiB = 1 << 20;

ImageStoreOptions store_at(const std::string& file, int64_t bytes = kMiB, int64_t images = 20) {
  return {.file = file,
          .place = Place{"c.yaml", 7, 9},
          .bytes = bytes,
          .images = images,
          .identity = 5};
}

// Image number i: a function of i only.
ImageKey key_of(int i) { return {static_cast<uint64_t>(i) * 7, static_cast<uint64_t>(i)}; }
StoredShape shape_of(int i) { return {2 + i % 5, 3 + i % 7, i % 2 == 0 ? 3 : 1}; }
Pixels pixels_of(int i) {
  Pixels pixels(static_cast<size_t>(shape_of(i).bytes()));
  Rng rng(1, Purpose::synthetic, static_cast<uint64_t>(i));
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(rng.bits());
  return pixels;
}

Kept keep(ImageStore& store, int i, bool damaged = false) {
  return store.keep(key_of(i), shape_of(i), pixels_of(i), damaged);
}

// Looks up image i. Throws if the store returns other pixels or another shape.
Found find(const ImageStore& store, int i) {
  Pixels pixels;
  StoredShape shape;
  const Found found = store.find(key_of(i), [&](const StoredShape& stored) {
    shape = stored;
    pixels.resize(static_cast<size_t>(stored.bytes()));
    return std::span(pixels);
  });
  if (found == Found::yes && (pixels != pixels_of(i) || shape.height != shape_of(i).height ||
                              shape.channels != shape_of(i).channels))
    throw std::logic_error("a wrong image");
  return found;
}

void overwrite(const std::string& file, const std::string& content) {
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
  out << content;
}

}  // namespace

TEST_CASE("a store finds what was kept, also after it was opened again") {
  const TempFolder dir;
  {
    ImageStore store(store_at(dir / "a"));
    CHECK(find(store, 1) == Found::no);
    for (int i = 1; i < 20; ++i) CHECK(keep(store, i) == Kept::yes);
    CHECK(keep(store, 3) == Kept::yes);  // for the second time
    for (int i = 1; i < 20; ++i) CHECK(find(store, i) == Found::yes);
    CHECK(store.totals().images == 19);
  }
  struct stat info {};
  REQUIRE(::stat((dir / "a").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const ImageStore again(store_at(dir / "a"));
  for (int i = 1; i < 20; ++i) CHECK(find(again, i) == Found::yes);
  CHECK(find(again, 20) == Found::no);
  CHECK(again.totals().images == 19);
}

TEST_CASE("a damaged image is noticed and can be kept anew") {
  const TempFolder dir;
  ImageStore store(store_at(dir / "a"));
  CHECK(keep(store, 1) == Kept::yes);
  std::string content = read_text(dir / "a");
  content.back() ^= 1;
  overwrite(dir / "a", content);
  CHECK(find(store, 1) == Found::damaged);
  CHECK(keep(store, 1, /*damaged=*/true) == Kept::yes);
  CHECK(find(store, 1) == Found::yes);
  CHECK(store.totals().images == 1);
}

TEST_CASE("no flipped bit and no cut gives a wrong image") {
  const MemoryFolder dir;
  {
    ImageStore store(store_at(dir / "a"));
    for (int i = 1; i < 4; ++i) REQUIRE(keep(store, i) == Kept::yes);
  }
  const std::string whole = read_text(dir / "a");
  int lost = 0;
  const auto check_all = [&](const ImageStore& store) {
    for (int i = 1; i < 4; ++i) lost += find(store, i) != Found::yes;
  };
  const ImageStore open(store_at(dir / "a"));
  for (size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == 0 && at % 16 != 0) continue;  // holes of the table
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    overwrite(dir / "a", bad);
    check_all(open);
    if (at >= 64) continue;
    write(dir / "b", bad);  // a header is read when the file is opened
    check_all(ImageStore(store_at(dir / "b")));
  }
  CHECK(lost > 100);
  lost = 0;
  for (size_t size = 0; size < whole.size(); size += 32) {
    write(dir / "c", whole.substr(0, size));
    ImageStore store(store_at(dir / "c"));
    check_all(store);
    for (int i = 1; i < 4; ++i) {
      REQUIRE(keep(store, i, find(store, i) == Found::damaged) == Kept::yes);
      REQUIRE(find(store, i) == Found::yes);
    }
  }
  CHECK(lost > 100);
}

TEST_CASE("images above the budget are not kept, and the file stays below it") {
  const TempFolder dir;
  constexpr int64_t kBudget = 16384;
  ImageStore store(store_at(dir / "a", kBudget, 500));
  int kept = 0;
  for (int i = 0; i < 500; ++i) {
    const Kept result = keep(store, i);
    REQUIRE((result == Kept::yes || result == Kept::no_room));
    kept += result == Kept::yes;
    CHECK((find(store, i) == Found::yes) == (result == Kept::yes));
  }
  CHECK(kept > 20);
  CHECK(kept < 500);
  CHECK(store.totals().images == kept);
  CHECK(store.totals().bytes <= kBudget);
  CHECK(std::filesystem::file_size(dir / "a") <= kBudget);
}

TEST_CASE("threads and processes that write at once lose nothing") {
  const TempFolder dir;
  const auto fill = [&](int first) {
    ImageStore store(store_at(dir / "a", kMiB, 400));
    const auto work = [&](int from) {
      for (int i = from; i < from + 200; ++i) {
        Kept result = keep(store, i);
        while (result == Kept::busy) result = keep(store, i);
        if (result != Kept::yes || find(store, i) != Found::yes) ::_exit(1);
      }
    };
    std::thread other([&] { work(first + 50); });
    work(first);
    other.join();
  };
  std::vector<pid_t> children;
  for (int k = 0; k < 3; ++k) {
    children.push_back(::fork());
    REQUIRE(children.back() >= 0);
    if (children.back() == 0) {
      fill(50 * k);
      ::_exit(0);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const ImageStore store(store_at(dir / "a", kMiB, 400));
  for (int i = 0; i < 350; ++i) CHECK(find(store, i) == Found::yes);
  CHECK(store.totals().images == 350);
}

TEST_CASE("a writer that is killed leaves no wrong image and no lock") {
  const TempFolder dir;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ImageStore store(store_at(dir / "a", kMiB, 2000));
      for (int i = 100 * round;; ++i) keep(store, i % 1000);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1500 + 300 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
  }
  ImageStore store(store_at(dir / "a", kMiB, 2000));
  for (int i = 0; i < 1000; ++i) CHECK(find(store, i) != Found::damaged);
  CHECK(store.totals().images > 0);
  CHECK(keep(store, 5000) == Kept::yes);
  CHECK(find(store, 5000) == Found::yes);
}

TEST_CASE("a full disk ends the keeping, not the run") {
  const TempFolder dir;
  CHECK(run_in_child([&] {
          ::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit{12000, 12000};
          if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
          ImageStore store(store_at(dir / "a", kMiB, 20));
          int kept = 0;
          while (keep(store, kept) == Kept::yes) ++kept;
          if (kept < 5 || keep(store, kept) != Kept::failed) ::_exit(3);
          for (int i = 0; i < kept; ++i) {
            if (find(store, i) != Found::yes) ::_exit(4);
          }
          if (store.failure() != (dir / "a") + ": cannot write: File too large") ::_exit(5);
          ::unlink((dir / "a").c_str());
        }) == 0);
}

TEST_CASE("a file in memory has no name as soon as all have opened it") {
  const TempFolder dir;
  ImageStoreOptions options = store_at(dir / "a");
  options.users = 2;
  {
    ImageStore one(options);
    CHECK(exists(dir / "a"));
    const ImageStore two(options);
    CHECK(!exists(dir / "a"));
    CHECK(keep(one, 1) == Kept::yes);
    CHECK(find(two, 1) == Found::yes);
  }
  {
    ImageStore alone(options);  // the other one never arrived
    CHECK(keep(alone, 1) == Kept::yes);
  }
  CHECK(!exists(dir / "a"));
}

TEST_CASE("files that killed processes left are deleted, those in use are not") {
  const TempFolder dir;
  ImageStoreOptions options = store_at(dir / "x-used");
  options.users = 2;
  const ImageStore used(options);
  REQUIRE(run_in_child([&] {
            options.file = dir / "x-left";
            new ImageStore(options);
            ::_exit(0);
          }) == 0);
  dir.write("other", "");
  dir.make("x-folder");
  REQUIRE(exists(dir / "x-left"));
  delete_unused_files(dir.path(), "x-");
  CHECK(!exists(dir / "x-left"));
  CHECK(exists(dir / "x-used"));
  CHECK(exists(dir / "x-folder"));
  CHECK(exists(dir / "other"));
}

TEST_CASE("a file without images is deleted, one of other images is made anew") {
  const TempFolder dir;
  { const ImageStore store(store_at(dir / "a")); }
  CHECK(!exists(dir / "a"));
  {
    ImageStore store(store_at(dir / "a"));
    CHECK(keep(store, 1) == Kept::yes);
  }
  ImageStoreOptions other = store_at(dir / "a");
  other.identity = 6;
  const ImageStore store(other);
  CHECK(find(store, 1) == Found::no);
}

TEST_CASE("a file is made anew if its table is too small for a larger budget") {
  const TempFolder dir;
  {
    ImageStore store(store_at(dir / "a", 40000, 500));  // a table of 64 slots
    for (int i = 0; i < 56; ++i) CHECK(keep(store, i) == Kept::yes);
    CHECK(keep(store, 56) == Kept::no_room);
  }
  CHECK(ImageStore(store_at(dir / "a", 40000, 500)).totals().images == 56);
  {
    ImageStore store(store_at(dir / "a", kMiB, 500));
    CHECK(store.totals().images == 0);
    for (int i = 0; i < 500; ++i) CHECK(keep(store, i) == Kept::yes);
  }
  CHECK(ImageStore(store_at(dir / "a", 40000, 500)).totals().images == 500);
  // These images are so large that the small table is enough for the larger budget, too.
  const Pixels pixels(30000);
  {
    ImageStore store(store_at(dir / "b", 100000, 500));
    for (int i = 0; i < 2; ++i)
      CHECK(store.keep(key_of(i), {100, 100, 3}, pixels, false) == Kept::yes);
  }
  CHECK(ImageStore(store_at(dir / "b", kMiB, 500)).totals().images == 2);
}

TEST_CASE("what cannot be opened is an error") {
  const TempFolder dir;
  dir.make("folder");
  const auto open = [](const ImageStoreOptions& options) {
    return error_of([&] { const ImageStore store(options); });
  };
  CHECK(open(store_at(dir / "folder")) == (dir / "folder") + ": error: cannot open: is a folder");
  CHECK(open(store_at(dir / "none/a")) == (dir / "none/a") + ": error: cannot open: no such file");
  std::filesystem::create_symlink(dir / "b", dir / "link");
  CHECK(open(store_at(dir / "link")) ==
        (dir / "link") + ": error: cannot open: Too many levels of symbolic links");
  const std::string full = open(store_at(dir / "a", int64_t{1} << 60));
  CHECK(full.starts_with("c.yaml:7:9: error: input.cache.gib: the budget is 1"));
  CHECK(full.find(", but '" + dir.path() + "' has ") != std::string::npos);
  CHECK(full.ends_with(" left: lower gib, or choose another folder"));
  CHECK(!exists(dir / "a"));
}

TEST_CASE("available memory is that of the host or of its control groups, whichever is less") {
  const TempFolder dir;
  const std::string root = dir.path() + "/";
  CHECK(!available_memory(root));
  write(root + "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");
  CHECK(available_memory(root) == 4000 * 1024);
  write(root + "proc/self/cgroup", "0::/a/b\n");
  write(root + "sys/fs/cgroup/a/b/memory.max", "max\n");
  write(root + "sys/fs/cgroup/a/b/memory.current", "100\n");
  CHECK(available_memory(root) == 4000 * 1024);
  write(root + "sys/fs/cgroup/a/memory.max", "5000\n");
  write(root + "sys/fs/cgroup/a/memory.current", "3000\n");
  write(root + "sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 500\nactive_file 20\n");
  CHECK(available_memory(root) == 2520);
  // Control groups version 1. Within a container only the group of the container is visible.
  write(root + "proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/docker/1f\n0::/\n");
  write(root + "sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n");
  write(root + "sys/fs/cgroup/memory/memory.usage_in_bytes", "1500\n");
  write(root + "sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 30\n");
  CHECK(available_memory(root) == 630);
  write(root + "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(available_memory(root) == 4000 * 1024);
}

}  // namespace bv::test

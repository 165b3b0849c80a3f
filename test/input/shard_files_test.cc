// Files of examples when this process may open no more files.
#include "lib/input/sources/common/shard_files.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>

#include "lib/input/image/image_file_problem.h"
#include "lib/input/sources/common/file_bytes.h"
#include "lib/util/descriptor.h"
#include "test/input/webdataset_shards.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

// While it exists, this process has reached its limit on open files.
class NoFreeDescriptor {
 public:
  NoFreeDescriptor() { ::close(lowest_free_); }

 private:
  int lowest_free_ = ::dup(STDERR_FILENO);
  Limit limit_{RLIMIT_NOFILE, static_cast<rlim_t>(lowest_free_)};
};

const std::string kTooManyOpen =
    ": error: Too many open files: raise this process's limit (ulimit -n, and -Hn for the hard "
    "limit; LimitNOFILE=)";

std::vector<std::string> one_byte_files(const TempFolder& folder, int count) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    folder.write(name, name);
    files.push_back(folder / name);
  }
  return files;
}

char byte_of(const ShardFiles& files, size_t file) {
  uint8_t byte = 0;
  files.read(file, 0, 1, &byte);
  return static_cast<char>(byte);
}

}  // namespace

TEST_CASE("shards: if no descriptor is free, the file that was used longest ago is closed") {
  if (kSanitized) return;  // a sanitizer opens a pipe to look at an exception
  const TempFolder folder;
  const std::vector<std::string> names = one_byte_files(folder, 3);
  const ShardFiles files(names), others(names);
  CHECK(byte_of(files, 0) == 'a');
  CHECK(byte_of(files, 1) == 'b');
  {
    const NoFreeDescriptor none;
    CHECK(byte_of(files, 2) == 'c');
    CHECK(byte_of(files, 0) == 'a');
    CHECK_THROWS_AS(byte_of(others, 0), TooManyOpenFiles);  // it has none that it could close
  }
  CHECK(byte_of(others, 0) == 'a');
}

TEST_CASE("shards: a low limit on open files leaves most of them to others") {
  const TempFolder folder;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const std::vector<std::string> names = one_byte_files(folder, 6);
  const Limit low(RLIMIT_NOFILE, 64);
  const ShardFiles files(names);
  const auto before = descriptors();
  for (size_t i = 0; i < names.size(); ++i) CHECK(byte_of(files, i) == names[i].back());
  CHECK(descriptors() - before == 4);
}

TEST_CASE("an example is not broken because too many files are open") {
  const Shards shards;
  shards.tar("a.tar", labelled("0", 1));
  const auto source = shards.open();
  CHECK(source->size(0) == 1);
  const TempFolder folder;
  const std::string image = one_byte_files(folder, 1)[0];
  std::string of_tar, of_image, of_check;
  {
    const NoFreeDescriptor none;
    // Exit::usage: Exit::data would count as a broken example.
    of_tar = error_of([&] { source->read(0, 0); });
    of_image = error_of([&] { file_bytes(image, "can't be read"); });
    of_check = error_of([&] { check_image_file(image); });
  }
  CHECK(shards.without_path(of_tar) == "a.tar" + kTooManyOpen);
  CHECK(of_image == image + kTooManyOpen);
  CHECK(of_check == image + kTooManyOpen);
  CHECK(source->read(0, 0).at("label").item<int64_t>() == 1);
}

}  // namespace bv::test

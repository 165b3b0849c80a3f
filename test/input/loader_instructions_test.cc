// The number of instructions that the loader executes per example. valgrind counts them: unlike a
// time, the count is the same in each run, so a change that makes the loader slower is detected.
#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "lib/input/image/jpeg.h"
#include "lib/input/loader/compute_example.h"
#include "lib/util/file.h"
#include "test/input/fake_source.h"
#include "test/support/folder.h"
#include "test/support/limits.h"
#include "test/support/process.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAS_CALLGRIND_HEADER 1
#else
#define HAS_CALLGRIND_HEADER 0
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

namespace bv::test {
namespace {

constexpr int kCountedExamples = 16;

struct Work {
  const char* name;
  int64_t height, width, channels;
  bool encoded;  // as JPEG
  const char* pp;
  double most;  // the limit: instructions per example, about 10 % above the count in November 2026
};

constexpr std::array kWorks = {
    Work{"digits", 28, 28, 1, false,
         R"(value_range(-1, 1)|onehot(10, key="label", key_result="labels")|)"
         R"(keep("image", "labels"))",
         59e3},
    Work{"crops", 32, 32, 3, false,
         R"(pad_to_shape([40, 40, 3], where="both")|random_crop(32)|flip_lr|value_range(-1, 1)|)"
         R"(onehot(10, key="label", key_result="labels")|keep("image", "labels"))",
         92e3},
    Work{"photographs", 375, 500, 3, true,
         R"(decode_jpeg_and_inception_crop(224)|flip_lr|value_range(-1, 1)|)"
         R"(onehot(1000, key="label", key_result="labels")|keep("image", "labels"))",
         8.3e6},
};

// Smooth waves and some noise: a JPEG file of a photograph's size.
at::Tensor work_image(const Work& work) {
  at::Tensor image = at::randint(0, 32, {work.height, work.width, work.channels}, at::kByte);
  auto* value = image.mutable_data_ptr<uint8_t>();
  for (int64_t y = 0; y < work.height; ++y)
    for (int64_t x = 0; x < work.width; ++x)
      for (int64_t c = 0; c < work.channels; ++c)
        *value++ += static_cast<uint8_t>((3 * x + 2 * y + 50 * c) / 8 % 200);
  return work.encoded ? encode_jpeg(image, 90) : image;
}

// A program with a sanitizer cannot run under valgrind. An unoptimised one executes more.
#ifdef __OPTIMIZE__
constexpr bool kCountable = !kSanitized;
#else
constexpr bool kCountable = false;
#endif

bool has_valgrind() {
  return HAS_CALLGRIND_HEADER && std::system("command -v valgrind >/dev/null 2>&1") == 0;
}

// Returns the number after `key` in a file of callgrind.
double number_in(const std::string& text, const std::string& key) {
  const size_t at = text.find("\n" + key + ": ");
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + key.size() + 3);
}

}  // namespace

// Runs under valgrind, started by the test below.
TEST_CASE("examples for the count of instructions", "[.][instructions]") {
  at::set_num_threads(1);
  for (const Work& work : kWorks) {
    auto source = std::make_shared<FakeSource>(kCountedExamples);
    const at::Tensor image = work_image(work);
    source->transform = [&](int64_t, Example& example) {
      example["image"] = image;
      example["label"] = example.at("label") % 10;
    };
    const auto data = dataset(source);
    const auto pp = pipeline(work.pp);
    compute_example(*data, *pp, 1, 0, 0);  // what is done once
    CALLGRIND_START_INSTRUMENTATION;
    for (int i = 0; i < kCountedExamples; ++i) compute_example(*data, *pp, 1, i, i);
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_DUMP_STATS_AT(work.name);
  }
}

TEST_CASE("the loader executes no more instructions than before") {
  if (!kCountable) return;
  if (!has_valgrind()) {
    const char* required = std::getenv("BVTRAIN_REQUIRE_VALGRIND");
    REQUIRE((required == nullptr || std::string(required) != "1"));
    std::printf("skipped: valgrind is not installed, so no instructions are counted\n");
    return;
  }
  const TempFolder folder;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const Finished finished =
      Process("/usr/bin/env",
              {"env", "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no",
               "--callgrind-out-file=" + folder / "counts", program, "[instructions]"},
              {})
          .wait();
  INFO(finished.out << finished.err);
  REQUIRE(finished.code == 0);
  std::map<std::string, double> counts;
  for (size_t i = 0; i < kWorks.size(); ++i) {
    const std::string text = read_file(folder / ("counts." + std::to_string(i + 1)));
    REQUIRE(text.find(kWorks.at(i).name) != std::string::npos);
    const double count = number_in(text, "totals") / kCountedExamples;
    INFO(kWorks.at(i).name << ": " << count << " instructions for an example");
    CHECK(count > 0.5 * kWorks.at(i).most);
    CHECK(count < kWorks.at(i).most);
  }
}

}  // namespace bv::test

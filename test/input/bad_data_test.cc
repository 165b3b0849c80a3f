// Every broken data set of the catalogue (test/support/bad_data) gives its error: one line, with
// the correct class, within time and memory limits, and nothing is written next to the data.
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <set>

#include "lib/config/load_config.h"
#include "lib/input/image/decode.h"
#include "lib/input/prepare_data.h"
#include "test/support/bad_data/all.h"
#include "test/support/clock.h"
#include "test/support/config.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

constexpr rlim_t kMostMemory = rlim_t{1} << 30;       // bytes beyond current use
constexpr double kMostSeconds = kSanitized ? 20 : 2;  // of CPU time

struct Outcome {
  Exit code = Exit::ok;
  std::string text;    // without the folder
  double seconds = 0;  // of CPU time
};

// Reads all examples of the data set and decodes their images, as the op `decode` does.
void read_all(const Dataset& data) {
  for (int64_t i = 0; i < data.size(); ++i) {
    try {
      const Example example = data.read(i);
      const at::Tensor image = example.at("image");
      if (image.dim() == 1)
        decode_image({image.const_data_ptr<uint8_t>(), static_cast<size_t>(image.numel())}, 3,
                     /*precise=*/false);
    } catch (const Error& error) {
      if (!error.needs_place()) throw;
      throw Error::bare(error.code(), data.describe(i) + ": " + error.message());
    }
  }
}

Outcome outcome_of(const BadData& bad, const std::string& folder) {
  const double start = cpu_seconds();
  Outcome outcome;
  try {
    const auto open = from_yaml(bad_data_section(bad, folder), [](const Config& config) {
      return prepare_data(config, DataEnv{});
    });
    read_all(*open(std::nullopt));
  } catch (const Error& error) {
    outcome = {error.code(), in_bad_data(error.what(), folder)};
  } catch (const std::exception& other) {
    outcome = {Exit::internal, other.what()};
  }
  outcome.seconds = cpu_seconds() - start;
  return outcome;
}

class OwnIndexCache {
 public:
  OwnIndexCache() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~OwnIndexCache() { unsetenv("XDG_CACHE_HOME"); }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("every broken data set of the catalogue gives its error", "[bad_data]") {
  const OwnIndexCache cache;
  const BadDataTable table = all_bad_data();
  CHECK(table.size() >= 150);
  // Allocations that happen once per process do not count as memory of the data.
  at::zeros({1}).add(1);
  std::set<std::string> names;
  for (const BadData& bad : table) {
    CAPTURE(bad.name);
    CHECK(names.insert(bad.name).second);
    const MemoryFolder folder;
    const std::string data = folder / "data";
    write_bad_data(bad, data);
    const std::string before = listing_of(folder.path());
    const Outcome outcome = [&] {
      if (kSanitized) return outcome_of(bad, data);
      const Limit memory(RLIMIT_AS, address_space() + kMostMemory);
      return outcome_of(bad, data);
    }();
    CHECK(outcome.code == bad.code);
    CHECK(outcome.text.substr(0, bad.text.size()) == bad.text);
    CHECK(outcome.text.find('\n') == std::string::npos);
    CHECK(outcome.text.size() < 1000);
    CHECK(outcome.seconds < kMostSeconds);
    CHECK(listing_of(folder.path()) == before);
  }
}

TEST_CASE("the data sets from which the broken ones are made are whole", "[bad_data]") {
  const OwnIndexCache cache;
  const auto rows_of = [](const std::string& section, const Files& files) {
    const MemoryFolder folder;
    const BadData good = {"", section, files, Exit::ok, ""};
    write_bad_data(good, folder.path());
    const auto open = from_yaml(bad_data_section(good, folder.path()), [](const Config& config) {
      return prepare_data(config, DataEnv{});
    });
    const auto data = open(std::nullopt);
    read_all(*data);
    return data->size();
  };
  for (const GoodData& good : all_good_data()) {
    CAPTURE(good.section);
    CHECK(rows_of(good.section, good.files) == good.examples);
  }
}

}  // namespace bv::test

// Training data gives the same examples with and without a cache of decoded images.
#include "lib/input/cache/decoded_images.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/distributed/group.h"
#include "lib/input/cache/cache_config.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/input/training_data.h"
#include "test/input/fake_source.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

constexpr int64_t kCachedExamples = 24;
constexpr uint64_t kCacheSeed = 9;

at::Tensor noise_image(int64_t height, int64_t width, int64_t channels, uint64_t index) {
  at::Tensor image = at::empty({height, width, channels}, at::kByte);
  Rng rng(2, Purpose::synthetic, index);
  for (int64_t i = 0; i < image.numel(); ++i)
    image.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(rng.bits());
  return image;
}

at::Tensor as_tensor(const std::string& bytes) {
  return at::from_blob(const_cast<char*>(bytes.data()), {std::ssize(bytes)}, at::kByte).clone();
}

// Returns an image file of one of the supported formats: in colour or grey, upright or not, of
// another size for each index.
std::string image_file(int64_t index) {
  const int64_t height = 20 + 3 * (index % 7), width = 24 + 5 * (index % 5);
  const at::Tensor image = noise_image(height, width, 3, static_cast<uint64_t>(index));
  const int orientation = 1 + static_cast<int>(index % 8);
  switch (index % 6) {
    case 0:
      return png_of(image);
    case 1:
      return webp_of(image, index % 4 == 1);
    case 2:
      return text_of(encode_jpeg(noise_image(height, width, 1, 7), 80));
    case 3:
      return text_of(encode_jpeg(image, 60));
    default:
      return jpeg_with_exif(text_of(encode_jpeg(image, 90)), exif_data(orientation));
  }
}

std::shared_ptr<FakeSource> image_files() {
  auto source = std::make_shared<FakeSource>(kCachedExamples);
  source->transform = [](int64_t index, Example& example) {
    example["image"] = as_tensor(image_file(index));
  };
  return source;
}

ImageCacheOptions cache_in(const std::string& folder) {
  return {.folder = folder,
          .folder_place = Place{"c.yaml", 1, 1},
          .bytes = 8 << 20,
          .bytes_place = Place{"c.yaml", 2, 2}};
}

std::unique_ptr<TrainingData> training_data(std::shared_ptr<const Source> source,
                                            const std::string& pp) {
  return std::make_unique<TrainingData>(dataset(std::move(source)), pipeline(pp));
}

std::unique_ptr<TrainingData> cached(std::shared_ptr<const Source> source, const std::string& pp,
                                     const ImageCacheOptions& options) {
  auto ops = std::make_shared<Pipeline>(pp, Place{"pp"});
  if (options.short_side > 0) ops->shrink_decoded(options.short_side);
  auto data = std::make_unique<TrainingData>(dataset(std::move(source)), ops);
  data->use_cache(options);
  data->open_cache(Group::single());
  return data;
}

// Compares two passes, which must be bit-identical or give the same error.
void check_same(const TrainingData& with, const TrainingData& without) {
  for (int64_t position = 0; position < 2 * kCachedExamples; ++position) {
    const TrainingData::Pick pick = without.pick(position, kCacheSeed, /*shuffled=*/true);
    INFO("example " << pick.index << " at " << position);
    std::string error, other_error;
    Example a, b;
    other_error = error_of([&] { b = without.compute(pick, kCacheSeed, position); }, Exit::data);
    error = error_of([&] { a = with.compute(pick, kCacheSeed, position); }, Exit::data);
    CHECK(error == other_error);
    REQUIRE(a.size() == b.size());
    for (const auto& [key, value] : b) {
      INFO(key);
      REQUIRE(a.contains(key));
      REQUIRE(a.at(key).scalar_type() == value.scalar_type());
      CHECK(at::equal(a.at(key), value));
    }
  }
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("bvtrain-images-"))
      names.push_back(entry.path().string());
  }
  return names;
}

}  // namespace

TEST_CASE("examples are the same with a cache as without one") {
  for (const std::string& pp : std::vector<std::string>{
           "decode", "decode(channels=1)|resize(9)", "decode(precise=True)|flip_lr",
           "decode(exif=True)|random_crop(8)|value_range(-1, 1)", "decode(outkey='pixels')",
           "decode|inception_crop(16)", "decode_jpeg_and_inception_crop(16)|flip_lr",
           "decode_jpeg_and_inception_crop(16, exif=True)", "decode_jpeg_and_inception_crop",
           "decode_jpeg_and_inception_crop(12, outkey='crop')"}) {
    INFO(pp);
    const TempFolder dir;
    const auto without = training_data(image_files(), pp);
    check_same(*cached(image_files(), pp, cache_in(dir / "c")), *without);
    check_same(*cached(image_files(), pp, cache_in(dir / "c")), *without);  // of an earlier run
    check_same(*cached(image_files(), pp, cache_in("")), *without);
  }
}

TEST_CASE("broken images and examples without one fail as without a cache") {
  const auto source = std::make_shared<FakeSource>(kCachedExamples);
  source->transform = [](int64_t index, Example& example) {
    std::string file = image_file(index);
    if (index % 3 == 0) file.resize(file.size() / 2);
    if (index % 5 == 0) file = "no image";
    example["image"] = as_tensor(file);
  };
  for (const std::string& pp :
       std::vector<std::string>{"decode", "decode_jpeg_and_inception_crop(8)"})
    check_same(*cached(source, pp, cache_in("")), *training_data(source, pp));
  const auto pixels = cached(std::make_shared<FakeSource>(2), "decode", cache_in(""));
  CHECK(error_of([&] {
          pixels->compute({0, 0}, kCacheSeed, 0);
        }) ==
        "pp: error: decode: 'image' must be encoded bytes (1-d uint8), has shape (6, 5, 3) and "
        "type uint8");
}

TEST_CASE("a changed image is decoded again, other decoding has a cache of its own") {
  const TempFolder dir;
  const std::string pp = "decode|resize(9)";
  check_same(*cached(image_files(), pp, cache_in(dir / "c")), *training_data(image_files(), pp));
  CHECK(files_in(dir / "c").size() == 1);
  const auto changed = std::make_shared<FakeSource>(kCachedExamples);
  changed->transform = [](int64_t index, Example& example) {
    example["image"] = as_tensor(image_file(index == 4 ? 1000 : index));
  };
  check_same(*cached(changed, pp, cache_in(dir / "c")), *training_data(changed, pp));
  CHECK(files_in(dir / "c").size() == 1);
  const std::string grey = "decode(channels=1)|resize(9)";
  check_same(*cached(image_files(), grey, cache_in(dir / "c")),
             *training_data(image_files(), grey));
  CHECK(files_in(dir / "c").size() == 2);
}

TEST_CASE("damaged images are decoded and kept anew") {
  const TempFolder dir;
  const auto first = cached(image_files(), "decode", cache_in(dir / "c"));
  check_same(*first, *training_data(image_files(), "decode"));
  const std::string file = files_in(dir / "c").at(0);
  const auto size = std::filesystem::file_size(file);
  const std::string content = read_text(file);
  write(file, content.substr(0, content.size() / 2) +
                  std::string(content.size() - content.size() / 2, '\x55'));
  check_same(*first, *training_data(image_files(), "decode"));
  CHECK(std::filesystem::file_size(file) > size);  // damaged images were stored again, once
  const auto repaired = std::filesystem::file_size(file);
  check_same(*first, *training_data(image_files(), "decode"));
  CHECK(std::filesystem::file_size(file) == repaired);
}

TEST_CASE("short_side makes large images smaller, as resize_small does, and no image larger") {
  for (const std::string& next : std::vector<std::string>{"", "|inception_crop(16)"}) {
    ImageCacheOptions options = cache_in("");
    options.short_side = 22;
    const auto with = cached(image_files(), "decode" + next, options);
    const auto shrunk = std::make_shared<Pipeline>("decode" + next, Place{"pp"});
    shrunk->shrink_decoded(22);
    check_same(*with, TrainingData(dataset(image_files()), shrunk));  // the cache is not open
    const auto small = training_data(image_files(), "decode|resize_small(22)" + next);
    const auto large = training_data(image_files(), "decode" + next);
    int resized = 0;
    for (int64_t i = 0; i < kCachedExamples; ++i) {
      INFO(next << " " << i);
      const bool is_large = 20 + 3 * (i % 7) > 22 && 24 + 5 * (i % 5) > 22;
      resized += is_large;
      const TrainingData& expected = is_large ? *small : *large;
      CHECK(at::equal(with->compute({0, i}, kCacheSeed, i).at("image"),
                      expected.compute({0, i}, kCacheSeed, i).at("image")));
    }
    CHECK(resized > 10);
    CHECK(resized < kCachedExamples);
  }
}

TEST_CASE("max_pixels also holds for images that an earlier run has cached") {
  const auto limit = [](const std::string& yaml) {
    from_yaml(yaml, [](const Config& config) {
      read_max_pixels(config);
      return 0;
    });
  };
  for (const int64_t short_side : {0, 22}) {
    INFO(short_side);
    const TempFolder dir;
    ImageCacheOptions options = cache_in(dir / "c");
    options.short_side = short_side;
    const auto pp = std::make_shared<Pipeline>("decode", Place{"pp"});
    if (short_side > 0) pp->shrink_decoded(short_side);
    const TrainingData without(dataset(image_files()), pp);
    check_same(*cached(image_files(), "decode", options), without);
    limit("max_pixels: 1000");
    check_same(*cached(image_files(), "decode", options), without);
    limit("{}");
    CHECK(files_in(dir / "c").size() == 2);
  }
}

TEST_CASE("a full cache changes no image") {
  ImageCacheOptions options = cache_in("");
  options.bytes = 24 << 10;
  check_same(*cached(image_files(), "decode", options), *training_data(image_files(), "decode"));
}

TEST_CASE("a full cache says if it holds images of other data, and which file to delete") {
  const TempFolder dir;
  ImageCacheOptions options = cache_in(dir / "c");
  options.bytes = 48 << 10;
  // Returns the line of a run with 24 images of its own; "" if its cache is not full.
  const auto line = [&](int64_t run) -> std::string {
    const auto source = std::make_shared<FakeSource>(kCachedExamples);
    source->transform = [run](int64_t index, Example& example) {
      example["image"] = as_tensor(image_file(index + 1000 * run));
    };
    const std::string log = logged([&] {
      const auto data = cached(source, "decode", options);
      for (int64_t i = 0; i < kCachedExamples; ++i) data->compute({0, i}, kCacheSeed, i);
    });
    const size_t begin = log.find("[input] cache: full: ");
    if (begin == std::string::npos) return "";
    return log.substr(begin, log.find('\n', begin) - begin);
  };
  const std::string first = line(0);
  CHECK_THAT(first, Catch::Contains(" of 24 images fit into 48.0 KiB (") &&
                        Catch::EndsWith(", the others are decoded in every pass"));
  const std::string rebuild = "delete '" + files_in(dir / "c").at(0) + "' to rebuild the cache";
  CHECK_THAT(line(1),
             Catch::Contains(" of 24 images fit into 48.0 KiB (") &&
                 Catch::EndsWith("; if the images have changed since earlier runs, " + rebuild));
  options.bytes = 128 << 10;
  line(2);
  line(3);
  CHECK_THAT(line(4), Catch::Contains(" images are not only those of this run, which has 24; ") &&
                          Catch::EndsWith("; " + rebuild));
}

TEST_CASE("a cache in memory has no name, and a budget above the memory is refused") {
  const auto data = cached(image_files(), "decode", cache_in(""));
  std::string open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the descriptor of this loop
    const std::string file = std::filesystem::read_symlink(entry.path(), closed).string();
    if (file.find("bvtrain-images-") != std::string::npos) open += file;
  }
  CHECK(open.starts_with("/dev/shm/bvtrain-images-"));
  CHECK(open.ends_with(" (deleted)"));
  ImageCacheOptions options = cache_in("");
  options.bytes = int64_t{1} << 50;
  const std::string error = error_of([&] { cached(image_files(), "decode", options); });
  CHECK(error.starts_with("c.yaml:2:2: error: input.cache.gib: the budget is 1.0 PiB, but only "));
  options.folder = "/none/such/folder";
  CHECK(error_of([&] { cached(image_files(), "decode", options); }) ==
        "c.yaml:1:1: error: cannot make the folder '/none/such/folder': the folder above it does "
        "not exist");
}

TEST_CASE("a cache folder is checked before the run, without being made") {
  const TempFolder dir;
  const auto problem = [&](const std::string& folder, int64_t bytes = 1 << 20) {
    ImageCacheOptions options = cache_in(folder);
    options.bytes = bytes;
    const auto data = training_data(image_files(), "decode");
    data->use_cache(options);
    return error_of([&] { data->check_cache(); });
  };
  CHECK(problem(dir / "c").empty());
  CHECK(problem(dir / "c/").empty());
  CHECK(problem("/none/such/folder") ==
        "c.yaml:1:1: error: cannot make the folder '/none/such/folder': the folder above it does "
        "not exist");
  const std::string file = dir.write("file", "x");
  CHECK(problem(file) == "c.yaml:1:1: error: '" + file + "' is not a folder");
  CHECK_THAT(problem(file + "/c"), Catch::StartsWith("c.yaml:1:1: error: cannot make the folder "));
  constexpr int64_t kHuge = int64_t{1} << 50;
  const std::string full =
      "c.yaml:2:2: error: input.cache.gib: the budget is 1.0 PiB, but '" + (dir / "c") + "' has ";
  CHECK_THAT(problem(dir / "c", kHuge), Catch::StartsWith(full));
  CHECK_FALSE(std::filesystem::exists(dir / "c"));
  dir.make("c");
  CHECK_THAT(problem(dir / "c", kHuge), Catch::StartsWith(full));
  // A cache that is there may hold all images.
  check_same(*cached(image_files(), "decode", cache_in(dir / "c")),
             *training_data(image_files(), "decode"));
  CHECK(problem(dir / "c", kHuge).empty());
}

TEST_CASE("in a mixture, the images of each data set are decoded in its own way") {
  const auto parts = [] {
    return std::vector<TrainingData::Part>{
        {"a", dataset(image_files()), pipeline("decode|resize(8)"), 0.5},
        {"b", dataset(image_files()), pipeline("decode(precise=True)|resize(8)"), 0.3},
        {"c", dataset(std::make_shared<FakeSource>(kCachedExamples)), pipeline("resize(8)"), 0.2}};
  };
  TrainingData with(parts());
  with.use_cache(cache_in(""));
  with.open_cache(Group::single());
  check_same(with, TrainingData(parts()));
}

TEST_CASE("the keys of a cache are checked") {
  const auto read = [](const std::string& yaml) {
    return error_of([&] { from_yaml(yaml, read_image_cache); });
  };
  CHECK(read("cache: {in: memory, gib: 8, short_side: 320}").empty());
  CHECK(read("cache: {in: /fast/cache, gib: 0.5}").empty());
  CHECK(
      read("cache: {in: memroy, gib: 8}") ==
      "t.yaml:1:13: error: cache.in: must be memory or a folder, got 'memroy'; write ./memroy for "
      "a folder in this one");
  CHECK(read("cache: {in: memory, gib: 0}") ==
        "t.yaml:1:26: error: cache.gib: must be above 0 and at most 1048576, got 0");
  CHECK(read("cache: {in: memory, gib: 8, short_side: 0}") ==
        "t.yaml:1:41: error: cache.short_side: must be between 1 and 16384, got 0");
  const auto check_pp = [](const std::string& text) {
    return error_of([&] {
      const Config config = parse_config("cache: {in: memory, gib: 8}", "t.yaml");
      const auto pp = pipeline(text);
      const auto pixels = pipeline("resize(8)");
      check_image_cache(config, {pp.get()});
      check_image_cache(config, {pp.get(), pixels.get()});
    });
  };
  CHECK(check_pp("decode|resize(8)").empty());
  CHECK(check_pp("resize(8)") ==
        "t.yaml:1:8: error: cache: keeps decoded images, but no pp decodes any: leave it out");
  CHECK(check_pp("copy('image', 'file')|decode") ==
        "t.yaml:1:8: error: cache: keeps decoded images, but the pp 'copy('image', "
        "'file')|decode' decodes them after its first op: move the decoding op to the front");
}

}  // namespace bv::test

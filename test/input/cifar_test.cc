#include <ATen/ops/tensor.h>
#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/input/prepare_data.h"
#include "lib/util/file.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

// A record whose channel c has the value 10 * c + label. Only the pixel (0, 1) is 200 + c.
std::string cifar_record(const std::string& labels) {
  std::string text = labels;
  for (int c = 0; c < 3; ++c) {
    std::string plane(1024, static_cast<char>(10 * c + labels.back()));
    plane[1] = static_cast<char>(200 + c);
    text += plane;
  }
  return text;
}

void write_named_cifar10(const TempFolder& temp, const std::string& folder) {
  for (int i = 1; i <= 5; ++i) {
    temp.write(fmt::format("{}data_batch_{}.bin", folder, i),
               cifar_record(std::string(1, i)) + cifar_record(std::string(1, i + 4)));
  }
  temp.write(folder + "test_batch.bin", cifar_record(std::string(1, 3)));
  temp.write(folder + "batches.meta.txt",
             "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
}

std::shared_ptr<const Dataset> open_cifar(const TempFolder& temp, const std::string& rest = "") {
  return from_yaml("name: cifar\ndata_dir: " + temp.path() + "\n" + rest,
                   [](const Config& config) { return prepare_data(config, {}); })(std::nullopt);
}
std::string cifar_problem(const TempFolder& temp, const std::string& rest = "") {
  return error_of([&] { open_cifar(temp, rest); });
}

}  // namespace

TEST_CASE("binary CIFAR-10", "[cifar]") {
  for (const std::string folder : {"", "cifar-10-batches-bin/"}) {
    const TempFolder temp;
    write_named_cifar10(temp, folder);
    const auto data = open_cifar(temp);
    REQUIRE(data->size() == 10);
    const Example third = data->read(2);  // first of data_batch_2
    CHECK(third.at("label").item<int64_t>() == 2);
    const at::Tensor image = third.at("image");
    CHECK(image.sizes() == at::IntArrayRef({32, 32, 3}));
    CHECK(image[5][6].equal(at::tensor({2, 12, 22}, at::kByte)));
    CHECK(image[0][1].equal(at::tensor({200, 201, 202}, at::kByte)));
    CHECK(data->source().class_names().at(3) == "cat");
    CHECK(open_cifar(temp, "split: test")->read(0).at("label").item<int64_t>() == 3);
    CHECK(third.count("coarse_label") == 0);
  }
}

TEST_CASE("a byte order mark is not a part of CIFAR's first class name", "[cifar]") {
  const TempFolder temp;
  write_named_cifar10(temp, "");
  const std::string names = read_file(temp / "batches.meta.txt");
  temp.write("batches.meta.txt", "\xEF\xBB\xBF" + names);
  CHECK(open_cifar(temp)->source().class_names().at(0) == "airplane");
}

TEST_CASE("binary CIFAR-100", "[cifar]") {
  const TempFolder temp;
  temp.write("cifar-100-binary/train.bin", cifar_record("\x13\x63") + cifar_record("\x01\x02"));
  temp.write("cifar-100-binary/test.bin", cifar_record("\x01\x02"));
  const auto data = open_cifar(temp);
  CHECK(data->size() == 2);
  CHECK(data->read(0).at("label").item<int64_t>() == 99);
  CHECK(data->read(0).at("coarse_label").item<int64_t>() == 19);
  CHECK(data->source().class_names().empty());
  write_named_cifar10(temp, "");
  CHECK(cifar_problem(temp) ==
        "t.yaml:2:11: error: '" + temp.path() +
            "' holds CIFAR-10 and CIFAR-100: add 'classes: 10' or 'classes: 100'");
  CHECK(open_cifar(temp, "classes: 10")->size() == 10);
  CHECK(open_cifar(temp, "classes: 100")->size() == 2);
}

TEST_CASE("broken CIFAR", "[cifar]") {
  const TempFolder temp;
  CHECK(cifar_problem(temp) ==
        "t.yaml:2:11: error: no binary CIFAR in '" + temp.path() +
            "': expected data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100)");
  CHECK(cifar_problem(temp, "classes: 100") ==
        "t.yaml:2:11: error: no binary CIFAR-100 in '" + temp.path() + "': expected train.bin");
  write_named_cifar10(temp, "");
  const std::string file = temp.write("data_batch_4.bin", cifar_record("\1").substr(0, 3000));
  CHECK(cifar_problem(temp) ==
        file + ": error: 3000 bytes is not a whole number of 3073-byte CIFAR records");
  temp.write("data_batch_4.bin", cifar_record("\1") + cifar_record("\x0B"));
  CHECK(cifar_problem(temp) ==
        file + " @ offset 3073: error: label 11 in CIFAR-10 (is this the other CIFAR?)");
  std::filesystem::remove(file);
  CHECK(cifar_problem(temp) == file + ": error: no such file");
  write_named_cifar10(temp, "");
  const std::string names = temp.write("batches.meta.txt", "airplane\n");
  CHECK(error_of([&] { open_cifar(temp)->source().class_names(); }) ==
        names + ": error: 1 class names, expected 10");
  temp.write("batches.meta.txt", "caf\xE9\n");
  CHECK(error_of([&] { open_cifar(temp)->source().class_names(); }) ==
        names + ": error: is not UTF-8 text: save it as UTF-8");
}

}  // namespace bv::test

// A source for tests of the loader: each example has an image of noise (6, 5, 3) uint8 and a label
// that is its index.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/input/check/data_sections.h"
#include "lib/input/dataset.h"
#include "lib/input/loader/loader.h"
#include "lib/input/pipeline.h"
#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv::test {

class FakeSource : public Source {
 public:
  explicit FakeSource(int64_t size, bool array = false) : size_(size), array_(array) {}

  std::function<void(int64_t)> on_read;              // called first; may wait or throw
  std::function<void(int64_t, Example&)> transform;  // may change the example

  std::vector<std::string> splits() const override { return {"train"}; }
  int64_t size(size_t) const override { return size_; }
  bool is_array() const override { return array_; }
  std::string describe(size_t, int64_t index) const override {
    return fmt::format("train/{}.png", index);
  }
  SyntheticSpec synthetic_spec() const override { return {}; }

  Example read(size_t, int64_t index) const override {
    if (on_read) on_read(index);
    at::Tensor image = at::empty({6, 5, 3}, at::kByte);
    Rng rng(1, Purpose::synthetic, static_cast<uint64_t>(index));
    for (int i = 0; i < 90; ++i) image.data_ptr<uint8_t>()[i] = rng.bits() & 255;
    Example example{{"image", image}, {"label", at::scalar_tensor(index, at::kLong)}};
    if (transform) transform(index, example);
    return example;
  }

  Example read_batch(size_t split, std::span<const int64_t> indices) const override {
    std::map<std::string, std::vector<at::Tensor>> columns;
    for (const int64_t index : indices) {
      for (auto& [key, value] : read(split, index)) columns[key].push_back(value);
    }
    Example batch;
    for (auto& [key, values] : columns) batch[key] = at::stack(values);
    return batch;
  }

 private:
  const int64_t size_;
  const bool array_;
};

inline std::shared_ptr<const Dataset> dataset(std::shared_ptr<const Source> source) {
  return std::make_shared<Dataset>(std::move(source), "train", Place{});
}
inline std::shared_ptr<const Pipeline> pipeline(const std::string& text) {
  return std::make_shared<Pipeline>(text, Place{"pp"});
}

// Returns the data set as check_data() and measure_data() take it.
inline OpenedData opened(std::shared_ptr<const Source> source, const std::string& pp = "") {
  return {"input", "", dataset(std::move(source)), pipeline(pp)};
}
// Returns the content of a file as an example holds it, (bytes) uint8.
inline at::Tensor tensor_of(const std::string& file) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(file.size())}, at::kByte);
  std::copy(file.begin(), file.end(), bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

// A source whose examples `bad` fail with an Error.
inline std::shared_ptr<FakeSource> failing(int64_t size, std::set<int64_t> bad,
                                           bool array = false) {
  const auto source = std::make_shared<FakeSource>(size, array);
  source->on_read = [bad](int64_t index) {
    if (!bad.contains(index)) return;
    throw Error::in("input.fake", Exit::data, fmt::format("train/{}.png: truncated", index));
  };
  return source;
}

inline std::vector<int64_t> batch_labels(const Batch& batch) {
  const at::Tensor& values = batch.at("label");
  return {values.const_data_ptr<int64_t>(), values.const_data_ptr<int64_t>() + values.numel()};
}
inline std::vector<int64_t> next_labels(Loader& loader) { return batch_labels(loader.next()); }

}  // namespace bv::test

// The pp strings of the golden data are bit-identical to the reference, although the data's README
// allows some values to differ by one grey level.
#include "lib/ckpt/formats/npz.h"
#include "lib/config/load_config.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

std::string golden(const std::string& name) { return golden_file("pp/" + name); }

at::Tensor golden_bytes(const std::string& name) {
  const std::string bytes = read_text(golden(name));
  return at::from_blob(const_cast<char*>(bytes.data()), {static_cast<int64_t>(bytes.size())},
                       at::kByte)
      .clone();
}

// Returns the pp strings by their keys.
std::map<std::string, std::string> strings() {
  const Config index = parse_config(read_text(golden("index.json")), "index.json");
  const Config section = index.section("pp_strings");
  std::map<std::string, std::string> all;
  for (const std::string& key : section.keys()) all[key] = section.get<std::string>(key);
  return all;
}

void check_key(const std::string& image, const std::string& key, const std::string& pp,
               const NamedTensors& arrays) {
  CAPTURE(image, key, pp);
  const bool encoded = key.starts_with("decode") || key == "eval_pipeline";
  const Example in = {{"image", encoded ? golden_bytes(image) : arrays.at("decode")}};
  const at::Tensor ours = run_pp(pp, in).at("image");
  const at::Tensor theirs = arrays.at(key);
  if (key.find("lanczos") == std::string::npos) {
    CHECK(same_bits(ours, theirs));
    return;
  }
  // The lanczos weights depend on the C library's sine.
  REQUIRE(ours.sizes() == theirs.sizes());
  const at::Tensor apart = (ours.to(at::kInt) - theirs.to(at::kInt)).abs();
  CHECK(apart.max().item<int>() <= 1);
  CHECK(apart.to(at::kDouble).mean().item<double>() <= 0.002);
}

}  // namespace

TEST_CASE("golden images through whole pp strings") {
  if (golden("index.json").empty()) return;
  for (const std::string image : {"img0.jpg", "img1.jpg", "img2.jpg", "rgba.png"}) {
    const NamedTensors arrays = read_npz(golden(image.substr(0, image.find('.')) + ".npz"));
    size_t checked = 0;
    for (auto [key, pp] : strings()) {
      if (!arrays.contains(key)) continue;
      // The string was recorded for the last image only. The others have this size.
      if (key == "resize_rect_up" && image != "rgba.png") pp = "resize([64, 48])";
      check_key(image, key, pp, arrays);
      ++checked;
    }
    CHECK(checked == arrays.size());
  }
}

TEST_CASE("golden general ops") {
  if (golden("index.json").empty()) return;
  const NamedTensors arrays = read_npz(golden("general.npz"));
  const std::map<std::string, std::vector<std::string>> keys = {
      {"onehot_scalar", {"label", "labels"}},
      {"onehot_multi", {"labels"}},
      {"onehot_multi_onoff", {"labels"}},
      {"onehot_scalar_onoff", {"labels"}},
      {"onehot_empty", {"labels"}},
      {"onehot_keepdim", {"labels"}},
      {"onehot_neg", {"labels"}},
      {"keep", {"a", "b"}},
      {"drop", {"b", "z"}},
      {"pad_to_shape", {"x", "y"}},
      {"pad_to_shape_both", {"x"}},
      {"concat", {"a", "b", "c"}},
      {"reshape", {"x"}},
      {"setdefault", {"x", "y"}}};
  const auto all = strings();
  for (const auto& [key, pp] : all) {
    if (key.starts_with("general/")) CHECK(keys.contains(key.substr(8)));
  }
  for (const auto& [name, expected_keys] : keys) {
    const std::string pp = all.at("general/" + name);
    CAPTURE(name, pp);
    Example in;
    for (const auto& [path, tensor] : arrays) {
      if (path.starts_with(name + "/in/")) in[path.substr(name.size() + 4)] = tensor;
    }
    const Example out = run_pp(pp, in);
    std::vector<std::string> out_keys;
    for (const auto& [key, tensor] : out) out_keys.push_back(key);
    CHECK(out_keys == expected_keys);
    for (const auto& [path, tensor] : arrays) {
      if (!path.starts_with(name + "/") || path.find('/', name.size() + 1) != std::string::npos)
        continue;
      CAPTURE(path);
      CHECK(at::equal(out.at(path.substr(name.size() + 1)).to(tensor.scalar_type()), tensor));
    }
  }
}

}  // namespace bv::test

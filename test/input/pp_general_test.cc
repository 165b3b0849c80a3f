// choice, concat, setdefault, lookup and the other ops on features of any kind.
#include "lib/ckpt/formats/npz.h"
#include "lib/input/ops/common/text_tensor.h"
#include "test/input/op_support.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

at::Tensor text(const std::string& content) { return text_tensor(content); }

int64_t number(const at::Tensor& tensor) { return tensor.item<int64_t>(); }

// Returns an npz file with one stored array of strings. `type` is NumPy's, `data` has the elements.
std::string string_npz(const TempFolder& folder, const std::string& type, int64_t count,
                       const std::string& data);

}  // namespace

TEST_CASE("a pipeline that ends with the image needs no labels") {
  const Example image{{"image", noise({4, 5, 3}, at::kByte)}};
  const auto applied = [&](const std::string& text) {
    Pipeline pp(text, Place{"t.yaml"});
    pp.end_with_image();
    Example example = image;
    Rng rng(1, Purpose::augment, 0);
    pp.apply(example, rng);
    return example;
  };
  const at::Tensor expected = applied("value_range(-1, 1)|flip_lr").at("image");
  for (const std::string after :
       {"onehot(10, key='label', key_result='labels')|keep('image', 'labels')",
        "copy('sizes', 'labels')|keep('image', 'labels')", "drop('label', 'id')",
        "value_range(0, 1, key='label')", "concat(['x', 'y'], 'labels')|keep('image', 'labels')",
        "choice(inkey='ids', outkey='label')", "strfmt('{a} {b}')|coco_captions",
        "setdefault('label', 0)|flatten"}) {
    INFO(after);
    CHECK(same_bits(applied("value_range(-1, 1)|flip_lr|" + after).at("image"), expected));
  }
  CHECK(applied("copy('image', 'again')|value_range(-1, 1)").size() == 1);
  CHECK(contains(error_of([&] { applied("value_range(-1, 1)|drop('image')"); }), "no key 'image'"));
  // Ops before the last op on the image may affect it.
  CHECK(contains(error_of([&] { applied("copy('label', 'labels')|value_range(-1, 1)"); }),
                 "no key 'label'"));
}

TEST_CASE("an op that reads, makes or changes the image is not dropped") {
  const auto kept = [](const std::string& text) {
    Pipeline pp(text, Place{"t.yaml"});
    pp.end_with_image();
    Example example{{"x", at::zeros({2, 2})}, {"image", at::ones({2, 2})}};
    Rng rng(1, Purpose::augment, 0);
    pp.apply(example, rng);
    return example.at("image");
  };
  CHECK(kept("concat(['x'], 'image')").equal(at::zeros({2, 2})));
  CHECK(kept("choice(inkey='x', outkey='image')").sizes() == at::IntArrayRef({2}));
  CHECK(kept("choice(key='image')").sizes() == at::IntArrayRef({2}));
  CHECK(is_text(kept("strfmt('a', outkey='image')")));
}

TEST_CASE("from which features a pipeline makes another one") {
  const auto from = [](const std::string& text) {
    return Pipeline(text, Place{"t.yaml"}).made_from("labels");
  };
  const std::string onehot = "|onehot(2, key='label', key_result='labels')";
  CHECK(from("strfmt('a', outkey='x')" + onehot) == "label");
  CHECK(from("strfmt('{kind}', outkey='label')" + onehot) == "kind");
  CHECK(from("strfmt('{a}-{b}', outkey='label')" + onehot) == "a+b");
  CHECK(from("strfmt('{label}', outkey='label')" + onehot) == "label");
  CHECK(from("choice(inkey=['a', 'ids'], outkey=['b', 'label'])" + onehot) == "ids");
  CHECK(from("choice(key='label')" + onehot) == "label");
  CHECK(from("coco_captions(outkey='label')" + onehot) == "captions/text");
}

TEST_CASE("whether a pipeline makes labels from those of the data") {
  const auto reads = [](const std::string& text) {
    return Pipeline(text, Place{"t.yaml"}).reads_data_labels("labels");
  };
  CHECK(reads(""));
  CHECK(reads("onehot(2, key='label', key_result='labels')|keep('image', 'labels')"));
  CHECK(
      reads("onehot(2, key='k', key_result='b')|onehot(2, key='label', key_result='a')|"
            "concat(['a', 'b'], 'labels')"));
  CHECK_FALSE(reads("onehot(2, key='k', key_result='labels')|keep('image', 'label', 'labels')"));
  CHECK_FALSE(reads("strfmt('{k}', outkey='label')|onehot(2, key='label', key_result='labels')"));
}

TEST_CASE("the ops that a feature depends on can be applied without the others") {
  const auto applied = [](const std::string& text, Example example) {
    Rng rng(1, Purpose::augment, 0);
    Pipeline(text, Place{"t.yaml"}).only("labels").apply(example, rng);
    return example;
  };
  const std::string image = "decode|inception_crop(8)|flip_lr|value_range(-1, 1)|";
  const Example age{{"age", at::tensor({7.0F})}};
  const std::string keep = "|keep('image', 'labels')";
  CHECK(applied(image + "copy('age', 'labels')|value_range(0, 1, 0, 10, key='labels')" + keep, age)
            .at("labels")
            .item<float>() == Approx(0.7));
  CHECK(applied("keep('image', 'age')|" + image + "copy('age', 'labels')" + keep, age)
            .at("labels")
            .item<float>() == 7);
  CHECK(applied(image + "concat(['age', 'age'], 'labels')" + keep, age)
            .at("labels")
            .equal(at::tensor({7.0F, 7.0F})));
  CHECK(contains(error_of([&] { applied("copy('image', 'labels')|drop('age')", age); }),
                 "no key 'image'"));
}

TEST_CASE("an image that is not float32 is refused with what its type needs") {
  CHECK(image_fault(3, at::kFloat) == "");
  CHECK(image_fault(3, at::kByte) == "gives an 8-bit 'image'; add value_range(-1, 1)");
  CHECK(image_fault(3, at::kDouble) ==
        "gives an 'image' of type float64; add value_range(-1, 1, -1, 1) if its values are from -1 "
        "to 1");
  CHECK(image_fault(3, at::kInt) ==
        "gives an 'image' of type int32; add value_range(-1, 1, MIN, MAX) with its least and "
        "largest value");
}

TEST_CASE("choice picks one entry without its dimension") {
  const at::Tensor list = at::arange(12).view({4, 3});
  std::array<int, 4> seen{};
  for (uint64_t i = 0; i < 2000; ++i) {
    const Example out = run_pp("choice(key='x')", {{"x", list}}, i);
    REQUIRE(out.at("x").sizes() == at::IntArrayRef({3}));
    const int64_t row = number(out.at("x")[0]) / 3;
    REQUIRE(at::equal(out.at("x"), list[row]));
    ++seen[row];
  }
  for (const int count : seen) CHECK(std::abs(count - 500) < 97);  // 5 standard deviations
}

TEST_CASE("choice picks several entries in their order, the same for all keys") {
  const at::Tensor list = at::arange(6);
  std::map<int64_t, int> seen, sizes;
  for (uint64_t i = 0; i < 3000; ++i) {
    const Example out = run_pp("choice(n=3, inkey=['a', 'b'], outkey=['{key}/some', 'c'])",
                               {{"a", list}, {"b", list * 10}}, i);
    const at::Tensor some = out.at("a/some");
    REQUIRE(some.size(0) == 3);
    REQUIRE(at::equal(out.at("c"), some * 10));
    REQUIRE(at::equal(out.at("a"), list));
    for (int64_t k = 0; k < 3; ++k) ++seen[number(some[k])];
    for (int64_t k = 0; k + 1 < 3; ++k) REQUIRE(number(some[k]) < number(some[k + 1]));
    ++sizes[run_pp("choice([2, 4], key='a')", {{"a", list}}, i).at("a").size(0)];
  }
  for (const auto& [entry, count] : seen) CHECK(std::abs(count - 1500) < 137);
  CHECK(sizes.size() == 3);
  for (const auto& [size, count] : sizes) {
    CHECK((size >= 2 && size <= 4));
    CHECK(std::abs(count - 1000) < 130);
  }
}

TEST_CASE("choice of all entries changes nothing; with fewer_ok it takes those that exist") {
  const at::Tensor list = noise({4, 2, 3}, at::kFloat);
  for (const std::string n : {"4", "[4, 4]"}) {
    CHECK(same_bits(run_pp("choice(" + n + ", 'x')", {{"x", list}}).at("x"), list));
  }
  CHECK(same_bits(run_pp("choice(9, 'x', True)", {{"x", list}}).at("x"), list));
  CHECK(same_bits(run_pp("choice([7, 9], 'x', fewer_ok=True)", {{"x", list}}).at("x"), list));
  CHECK(run_pp("choice([0, 0], 'x')", {{"x", list}}).at("x").sizes() == at::IntArrayRef({0, 2, 3}));
  CHECK(
      run_pp("choice([7, 9], 'x', fewer_ok=True)", {{"x", list.narrow(0, 0, 0)}}).at("x").size(0) ==
      0);
  // choice('single') of a list of strings gives a string.
  const at::Tensor texts = text_tensor(std::vector<std::string>{"Hi", "Lucas"});
  const std::string picked = bv::read_text(run_pp("choice(key='t')", {{"t", texts}}).at("t"));
  CHECK((picked == "Hi" || picked == "Lucas"));
}

TEST_CASE("concat joins along any axis") {
  const at::Tensor a = noise({2, 3}, at::kFloat), b = noise({2, 5}, at::kFloat, 1);
  const Example out = run_pp("concat(['a', 'b'])", {{"a", a}, {"b", b}});
  CHECK(at::equal(out.at("a"), at::cat({a, b}, 1)));
  CHECK(at::equal(out.at("b"), b));
  CHECK(at::equal(run_pp("concat(['a', 'a'], 'c', -2)", {{"a", a}}).at("c"), at::cat({a, a}, 0)));
  CHECK(
      run_error(Exit::usage, "concat(['a', 'b'], axis=0)", {{"a", a}, {"b", b}}) ==
      "t.yaml:3:9: error: concat: 'b' has shape (2, 5) and type float32, which do not fit 'a' with "
      "(2, 3) and float32");
}

TEST_CASE("setdefault sets what is missing or empty, and nothing else") {
  const at::Tensor image = noise({3, 3}, at::kFloat);
  const auto result = [](const std::string& value, const Example& example) {
    return run_pp("setdefault('x', " + value + ")", example).at("x");
  };
  CHECK(at::equal(result("1", {{"x", image}}), image));
  CHECK(at::equal(result("7", {{"x", at::zeros({0, 2, 0})}}), at::full({1, 2, 1}, 7.0f)));
  CHECK(at::equal(result("7", {}), at::full({}, 7, at::kLong)));
  CHECK(at::equal(result("-7.5", {}), at::full({}, -7.5f)));
  CHECK(at::equal(result("1e3", {}), at::full({}, 1000.0f)));
  CHECK(at::equal(result("True", {}), at::full({}, true, at::kBool)));
  CHECK(bv::read_text(result("'Lucas'", {})) == "Lucas");
  CHECK(bv::read_text(result("value='Lucas'", {{"x", at::empty({0}, at::kByte)}})) == "Lucas");
  CHECK(bv::read_text(result("'Lucas'", {{"x", text("Hello")}})) == "Hello");
}

TEST_CASE("convert_to_video appends frames of zeros") {
  for (const auto dtype : {at::kByte, at::kFloat}) {
    const at::Tensor image = noise({4, 5, 3}, dtype);
    const at::Tensor video = run_pp("convert_to_video(3)", {{"image", image}}).at("image");
    REQUIRE(video.sizes() == at::IntArrayRef({3, 4, 5, 3}));
    CHECK(at::equal(video[0], image));
    CHECK(video.narrow(0, 1, 2).eq(0).all().item<bool>());
    CHECK(at::equal(run_pp("convert_to_video(num_frames=1)", {{"image", image}}).at("image")[0],
                    image));
  }
}

TEST_CASE("squeeze_last_dim, flatten and coco_captions") {
  const at::Tensor mask = noise({4, 5, 1}, at::kByte);
  CHECK(at::equal(run_pp("squeeze_last_dim(key='m')", {{"m", mask}}).at("m"), mask.select(2, 0)));
  const Example nested = {{"captions/text", text("a cat")}, {"image", mask}};
  CHECK(run_pp("flatten", nested).size() == 2);
  const Example out = run_pp("flatten(keys=['captions'])|coco_captions|coco_captions('x')", nested);
  CHECK(out.size() == 4);
  CHECK(bv::read_text(out.at("captions")) == "a cat");
  CHECK(bv::read_text(out.at("x")) == "a cat");
}

TEST_CASE("lookup returns the number of a line, or the number on a line") {
  const TempFolder folder;
  const std::string lines = folder.write("lines.txt", "cat\ndog\r\nK\xC3\xA4tzchen\n");
  const auto found = [&](const std::string& args, const std::string& needle) {
    return number(run_pp("lookup(" + args + ", key='x')", {{"x", text(needle)}}).at("x"));
  };
  CHECK(found("'" + lines + "'", "cat") == 0);
  CHECK(found("'" + lines + "'", "dog") == 1);
  CHECK(found("'" + lines + "'", "K\xC3\xA4tzchen") == 2);
  const std::string marked = folder.write("marked.txt",
                                          "\xEF\xBB\xBF"
                                          "cat\ndog\n");
  CHECK(found("'" + marked + "'", "cat") == 0);
  const std::string pairs = folder.write("pairs.txt", "cat, 12\ndog,-3\nold cat,12");
  CHECK(found("'" + pairs + "', sep=','", "cat") == 12);
  CHECK(found("'" + pairs + "', sep=','", "dog") == -3);
  CHECK(found("'" + pairs + "', sep=','", "old cat") == 12);
  const at::Tensor several = text_tensor(std::vector<std::string>{"dog", "dog", "cat"});
  CHECK(
      at::equal(run_pp("lookup('" + lines + "', inkey='x', outkey='y')", {{"x", several}}).at("y"),
                at::tensor({1, 1, 0}, at::kLong)));
}

TEST_CASE("a string that lookup's table lacks is an error, or has the number `default`") {
  const TempFolder folder;
  const std::string file = folder.write("lines.txt", "cat\ndog\n");
  const auto found = [&](const std::string& args, const at::Tensor& x) {
    return run_pp("lookup('" + file + "'" + args + ", key='x')", {{"x", x}}).at("x");
  };
  const auto error = [&](const at::Tensor& x) {
    return error_of([&] { found("", x); }, Exit::data);
  };
  CHECK(error(text("cats")) == "lookup: 'cats' is not in " + file +
                                   " (did you mean 'cat'?); default=-1 would give it the number "
                                   "-1");
  CHECK(error(text("")) ==
        "lookup: '' is not in " + file + "; default=-1 would give it the number -1");
  const at::Tensor several = text_tensor(std::vector<std::string>{"dog", "cow", "cat"});
  CHECK_THAT(error(several), Catch::StartsWith("lookup: 'cow' is not in "));
  CHECK(number(found(", default=-1", text("cats"))) == -1);
  CHECK(number(found(", default=7", text(""))) == 7);
  CHECK(at::equal(found(", default=-1", several), at::tensor({1, -1, 0}, at::kLong)));
}

TEST_CASE("lookup's index in an npz array of strings") {
  const TempFolder folder;
  const auto found = [&](const std::string& file, const std::string& args,
                         const std::string& needle) {
    return number(
        run_pp("lookup('" + file + "'" + args + ", key='x')", {{"x", text(needle)}}).at("x"));
  };
  const std::string bytes = string_npz(folder, "|S3", 3, std::string("a\0\0bcdef\0", 9));
  CHECK(found(bytes, "", "a") == 0);
  CHECK(found(bytes, "", "bcd") == 1);
  CHECK(found(bytes, "", "ef") == 2);
  CHECK(found(bytes, ", npzkey='fnames', default=-1", "e") == -1);
  // "x", U+00E4, U+1F408
  const std::string wide =
      string_npz(folder, "<U1", 3, std::string("x\0\0\0\xE4\0\0\0\x08\xF4\x01\0", 12));
  CHECK(found(wide, "", "x") == 0);
  CHECK(found(wide, "", "\xC3\xA4") == 1);
  CHECK(found(wide, "", "\xF0\x9F\x90\x88") == 2);
  const std::string surrogate = string_npz(folder, "<U1", 1, std::string("\x00\xD8\0\0", 4));
  const auto error = [&](const std::string& file, const std::string& args) {
    return run_error(Exit::usage, "lookup('" + file + "'" + args + ", key='x')",
                     {{"x", text("x")}});
  };
  CHECK_THAT(error(surrogate, ""), Catch::EndsWith("this string is not valid Unicode"));
  const std::string numbers = folder / "numbers.npz";
  write_npz(numbers, {{"fnames", at::zeros({2})}});
  CHECK_THAT(error(numbers, ""),
             Catch::EndsWith("'fnames' must be a one-dimensional array of strings"));
  CHECK(error(numbers, ", npzkey='b'") ==
        "t.yaml:3:9: error: lookup: " + numbers + ": no array 'b'; there are: fnames.npy");
}

TEST_CASE("lookup reports what is wrong with its file") {
  const TempFolder folder;
  const auto error = [&](const std::string& content, const std::string& args) {
    const std::string file = folder.write("m.txt", content);
    const std::string line =
        run_error(Exit::usage, "lookup('" + file + "'" + args + ", key='x')", {{"x", text("x")}});
    const std::string before = "t.yaml:3:9: error: lookup: " + file;
    CHECK(line.starts_with(before));
    return line.substr(std::min(before.size(), line.size()));
  };
  CHECK(error("cat\ndog\ncat\n", "") == ":3: 'cat' has two numbers, 0 and 2");
  CHECK(error("cat,1\ndog", ", sep=','") == ":2: expected a string, ',' and an integer");
  CHECK(error("cat,1\ndog,2.5", ", sep=','") == ":2: expected a string, ',' and an integer");
  CHECK(error("cat,1,2", ", sep=','") == ":1: expected a string, ',' and an integer");
  CHECK(error("a\n\xFF\n", "") == ":2: is not UTF-8 text");
  CHECK(run_error(Exit::usage, "lookup('/no/such.txt', key='x')", {{"x", text("x")}}) ==
        "t.yaml:3:9: error: lookup: /no/such.txt: no such file");
}

namespace {

void append(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
}

uint32_t crc32_of(const std::string& content) {
  uint32_t crc = ~0u;
  for (const char c : content) {
    crc ^= static_cast<uint8_t>(c);
    for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

std::string string_npz(const TempFolder& folder, const std::string& type, int64_t count,
                       const std::string& data) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", type, count);
  header.resize(117, ' ');
  header += '\n';
  std::string npy = "\x93NUMPY";
  append(npy, 1, 2);
  append(npy, header.size(), 2);
  npy += header + data;
  const std::string name = "fnames.npy";
  std::string common;  // the fields that the local header and the directory share
  append(common, 20, 2);
  append(common, 0, 8);
  append(common, crc32_of(npy), 4);
  append(common, npy.size(), 4);
  append(common, npy.size(), 4);
  append(common, name.size(), 2);
  append(common, 0, 2);
  const std::string file = "PK\x03\x04" + common + name + npy;
  std::string directory = "PK\x01\x02";
  append(directory, 20, 2);
  directory += common;
  append(directory, 0, 14);
  directory += name;
  std::string end = "PK\x05\x06";
  append(end, 0, 4);
  append(end, 1, 2);
  append(end, 1, 2);
  append(end, directory.size(), 4);
  append(end, file.size(), 4);
  append(end, 0, 2);
  static int number = 0;
  return folder.write(fmt::format("s{}.npz", number++), file + directory + end);
}

}  // namespace

}  // namespace bv::test

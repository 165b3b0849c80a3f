// Registries: construction by name, unknown names, unread keys, names registered twice.
#include "lib/config/registry.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

struct Env {
  int classes = 0;
};

struct Shape {
  using Registry = bv::Registry<Shape, Env>;
  static constexpr const char* kKind = "shape";
  virtual ~Shape() = default;
  virtual int64_t area() const = 0;
};

struct Square : Shape {
  Square(const Config& config, const Env& env)
      : width(config.get("width", int64_t{2}) + env.classes) {}
  int64_t area() const override { return width * width; }
  int64_t width;
};
const Register<Shape, Square> square("square");

struct Twice {
  using Registry = bv::Registry<Twice>;
  static constexpr const char* kKind = "twin";
  explicit Twice(const Config&) {}
};
const Register<Twice, Twice> one("same"), two("same");

}  // namespace

TEST_CASE("a registered name is built from its config") {
  const Config c = parse_config("width: 3\n", "x.yaml");
  CHECK(Shape::Registry::names() == std::vector<std::string>{"square"});
  CHECK(Shape::Registry::make("square", c, Place{}, Env{1})->area() == 16);
  CHECK(problem_count(c) == 0);
}

TEST_CASE("an unknown name and an unread key are errors at their places") {
  const Config c = parse_config("name: sqare\nshape: {widht: 3}\n", "x.yaml");
  const std::string name = c.get<std::string>("name");
  CHECK(error_of([&] {
          Shape::Registry::make(name, c.section("shape"), c.place("name"), Env{});
        }) == "x.yaml:1:7: error: unknown shape 'sqare' (did you mean 'square'?); known: square");
  Shape::Registry::make("square", c.section("shape"), Place{}, Env{});
  CHECK(error_of([&] { throw_problems(c); }) ==
        "x.yaml:2:9: error: unknown key 'shape.widht' (did you mean 'width'?)");
}

TEST_CASE("a name that is registered twice is reported as a bug") {
  try {
    Twice::Registry::make("same", Config(), Place{});
    FAIL("made");
  } catch (const Error& error) {
    CHECK(error.code() == Exit::internal);
    CHECK(std::string(error.what()) == "internal: error: twin 'same' is registered twice");
  }
}

}  // namespace bv::test

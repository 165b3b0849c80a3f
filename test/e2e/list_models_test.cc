// --list models: names, variants and their numbers of parameters.
#include <catch2/catch.hpp>

#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {}  // namespace

TEST_CASE("--list models shows each model's variants with their parameters") {
  const Finished listed = run({"--list", "models"});
  INFO(listed.out << listed.err);
  CHECK(listed.code == 0);
  CHECK(contains(listed.out, "# parameters with images of 224x224x3 and 1000 classes\n"));
  // A name is alone on its line, as in the other lists; its variants are indented below it.
  for (const std::string name :
       {"bit", "bit_paper", "cnn", "flexi_vit", "mlp_mixer", "proj.flexi.vit", "vit"}) {
    CHECK(contains(listed.out, "\n" + name + "\n  "));
  }
  CHECK(contains(listed.out, "\n  R50x1            25,557,032 parameters\n"));  // bit
  CHECK(contains(listed.out, "\n  R50x1            25,549,352 parameters\n"));  // bit_paper
  CHECK(contains(listed.out, "\n  B/16             59,880,472 parameters\n"));  // mlp_mixer
  CHECK(contains(listed.out, "\n  B/16             86,566,120 parameters\n"));  // vit
  CHECK(contains(listed.out, "\n  G-opt/14"));
}

}  // namespace bv::test

// A pp string.
#include "lib/config/call.h"
#include "lib/input/pipeline.h"
#include "test/fuzz/fuzz.h"

FUZZ_TARGET(pp) {
  const bv::Place place{"t.yaml", 3, 9};
  bv::test::errors_only([&] { bv::parse_calls(input, place); });
  bv::test::errors_only([&] { bv::Pipeline(input, place); });
}

// A config: YAML.
#include "lib/config/config.h"

#include "lib/config/load_config.h"
#include "test/fuzz/fuzz.h"

FUZZ_TARGET(config) {
  bv::test::errors_only([&] {
    const bv::Config config = bv::parse_config(input, bv::test::scratch_folder() + "/c.yaml");
    // A config that was read can be written and read again, as for a checkpoint.
    const std::string json = config.json();
    const std::string again = bv::parse_config_json(json, "again").json();
    bv::check(again == json, "the config changes when it is read again");
  });
}

// Durations: the input is a config with keys such as total_steps and log_seconds.
#include "lib/config/duration.h"

#include "lib/config/load_config.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(duration) {
  errors_only([&] {
    const Config config = parse_config(input, "t.yaml");
    for (const RunLength& length :
         {RunLength{}, RunLength{128, 50'000, 1000}, RunLength{INT64_MAX, INT64_MAX, INT64_MAX}}) {
      for (const char* name : {"total", "log"}) {
        errors_only([&] { duration_steps(config, name, length); });
        errors_only([&] { duration_real(config, name, length); });
        errors_only([&] {
          if (const auto every = duration_every(config, name, length)) {
            Due due(*every, length.total_steps, /*last=*/true, /*first=*/true);
            for (int64_t step = 0; step < 9; ++step) due(step, static_cast<double>(step));
            duration_text(every->seconds);
          }
        });
      }
    }
  });
}

}  // namespace bv::test

// The evaluators that `bvtrain eval` takes from a checkpoint or from a file.
#include "lib/predict/run_evaluators.h"

#include <catch2/catch.hpp>

#include "lib/ckpt/restored.h"
#include "lib/config/load_config.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("eval: the evaluators keep the order of their keys and the spelling of their numbers") {
  Restored checkpoint;
  checkpoint.folder = "ckpt/step-5";
  checkpoint.meta = {{"config", parse_config("lr: 0.1\n"
                                             "evals:\n"
                                             "  dist: {distances: [{kind: kl, t: 2.0}]}\n"
                                             "  classes: {classes: [0.50, 1.00]}\n",
                                             "c.yaml")
                                    .json()}};
  EvaluateRequest request;
  CHECK(evaluators_of(request, checkpoint) ==
        "{\"dist\": {\"distances\": [{\"kind\": \"kl\", \"t\": 2.0}]}, "
        "\"classes\": {\"classes\": [0.50, 1.00]}}\n");
  const TempFolder folder;
  request.config =
      folder.write("e.yaml", "lr: 0.2\nevals: {b: {data_dir: 2024.10}, a: {t: 1e-6}}\n");
  CHECK(evaluators_of(request, checkpoint) ==
        "{\"b\": {\"data_dir\": 2024.10}, \"a\": {\"t\": 1e-6}}\n");
}

}  // namespace bv::test

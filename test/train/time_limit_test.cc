#include "lib/train/time_limit.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "test/support/folder.h"
#include "test/support/variable.h"

namespace bv::test {
namespace {

// Whether the process at `layout`, whose SLURM_PROCID is `task`, requeues its job after a run that
// has saved a checkpoint.
bool requeues_at(const RankLayout& layout, const char* task) {
  const TempFolder dir;
  const std::string called = dir / "called";
  dir.write("bin/scontrol", "#!/bin/sh\necho \"$@\" >>" + called + "\n");
  std::filesystem::permissions(dir / "bin/scontrol", std::filesystem::perms::owner_all);
  const std::string path = dir / "bin" + ":" + std::getenv("PATH");
  const Variable programs("PATH", path.c_str()), job("SLURM_JOB_ID", "7"),
      procid("SLURM_PROCID", task), array("SLURM_ARRAY_JOB_ID", nullptr),
      end("SLURM_JOB_END_TIME", nullptr), own("BVTRAIN_GROUP_RANK", nullptr);
  const TimeLimit limit = {"", /*requeue=*/true, dir / "out", layout};
  set_time_limit(limit);
  dir.write("out/ckpt/step-7/manifest.json", "{}");
  requeue_job(limit);
  const std::string arguments = read_text(called);
  CHECK((arguments.empty() || arguments == "requeue 7\n"));
  return !arguments.empty();
}

}  // namespace

TEST_CASE("one process of a run requeues its slurm job, under every launcher") {
  RankLayout layout;
  CHECK(requeues_at(layout, "0"));
  CHECK(requeues_at(layout, nullptr));
  CHECK_FALSE(requeues_at(layout, "1"));  // another run of the same job step
  // The ranks of a host inherit one SLURM_PROCID. Rank 0 need not be on the first host.
  layout.found_by = "torchrun";
  layout.size = 3;
  CHECK(requeues_at(layout, "0"));
  CHECK(requeues_at(layout, "1"));
  layout.rank = 2;
  CHECK_FALSE(requeues_at(layout, "0"));
  // Launchers of two nodes.
  layout = RankLayout{};
  layout.found_by = "rendezvous";
  layout.size = 4;
  layout.nodes = 2;
  layout.launches = true;
  CHECK(requeues_at(layout, "0"));
  layout.node = 1;
  CHECK_FALSE(requeues_at(layout, "0"));
}

}  // namespace bv::test

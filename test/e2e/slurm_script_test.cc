// scripts/slurm.sbatch decides whether to requeue a job. srun and scontrol are mock scripts that
// print what the real ones print.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "lib/util/file.h"
#include "test/support/binary.h"

namespace bv::test {
namespace {

struct Job {
  TempFolder dir;
  std::string arguments = "--config c.yaml --workdir run";
  std::string during;  // what else srun does

  Job() { dir.make("run"); }

  void program(const std::string& name, const std::string& text) const {
    write(dir / name, "#!/bin/bash\n" + text);
    ::chmod((dir / name).c_str(), 0755);
  }
  // Runs the script with an srun that prints `said` and ends with `code`. Returns the script's
  // code. Its output is in the file `out`.
  int end(const std::string& said, int code, const std::string& more = "") const {
    dir.make("tmp");
    program("srun", "echo \"$@\" >" + (dir / "srun-args") + "\nls $TMPDIR >" + (dir / "in-tmp") +
                        "\n" + during + "\necho step 3\nprintf '" + said + "' >&2\nexit " +
                        std::to_string(code) + "\n");
    program("scontrol", "echo \"$@\" >>" + (dir / "requeued") + "\n");
    write(dir / "requeued", "");
    const std::string line =
        "cd " + dir.path() + " && env PATH=" + dir.path() + ":$PATH TMPDIR=" + (dir / "tmp") +
        " SLURM_JOB_ID=17 SLURM_SUBMIT_DIR=. BVTRAIN_BINARY=/bin/true " + more + " bash " +
        source_file("scripts/slurm.sbatch") + " " + arguments + " >" + (dir / "out") + " 2>&1";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string read(const std::string& name) const { return read_file(dir / name); }
};

std::string exited(const std::string& who, int code) {
  return "srun: error: " + who + ": Exited with exit code " + std::to_string(code) + "\\n";
}

}  // namespace

TEST_CASE("the exit code of the first rank that failed decides whether a slurm job is requeued") {
  struct Case {
    std::string said;
    int srun, code;
    bool again;
  };
  const std::string others = exited("n1: tasks 4-7", 7);
  const std::vector<Case> cases = {
      {"", 0, 0, false},
      {exited("n0: tasks 0-3", 75) + exited("n1: tasks 4-7", 75), 75, 75, true},
      {others, 7, 7, true},  // a host is lost
      {others + exited("n0: task 2", 5), 7, 5, true},
      {exited("n0: task 0", 2) + others, 7, 2, false},
      {others + exited("n0: tasks 0,2", 4), 7, 4, false},
      {exited("n0: task 0", 1) + others, 7, 1, true},
      {"srun: error: n0: task 2: Killed\\n" + others, 137, 137, true},
      {exited("n0: tasks 0-3", 143), 143, 143, false},
      {exited("n0: tasks 0-3", 130), 130, 130, false}};
  const Job job;
  for (const Case& one : cases) {
    INFO(one.said << one.srun);
    CHECK(job.end(one.said, one.srun) == one.code);
    CHECK(job.read("requeued") == (one.again ? "requeue 17\n" : ""));
    CHECK(job.read("out").starts_with("step 3\n"));  // the ranks' output is passed on
  }
  CHECK(job.end("", 75, "SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=4") == 75);
  CHECK(job.read("requeued") == "requeue 9_4\n");
  CHECK(job.read("in-tmp").empty());  // nothing remains there if the job is killed
  // 75 is not a failure, and one rank may end before another.
  CHECK(job.read("srun-args").find("--kill-on-bad-exit=0 --wait=120 ") != std::string::npos);
}

TEST_CASE("a slurm job is requeued without limit if it saves, and three times in a row if not") {
  Job job;
  const auto requeued = [&](const std::string& said, int code, int restarts) {
    CHECK(job.end(said, code, "SLURM_RESTART_COUNT=" + std::to_string(restarts)) == code);
    return job.read("requeued") == "requeue 17\n";
  };
  // A run that needs many restarts because of the time limit, and slurm's own restarts, which this
  // script does not see.
  const auto saves = [&](int step) {
    job.during = "mkdir -p run/ckpt; echo " + std::to_string(step) + " >run/ckpt/LAST";
  };
  for (const int restarts : {0, 1, 2, 50}) {
    saves(restarts);
    CHECK(requeued("", 75, restarts));
  }
  job.during = "";
  for (const int restarts : {51, 52, 53}) CHECK(requeued("", 7, restarts));
  CHECK_FALSE(requeued("", 7, 54));
  saves(55);
  CHECK(requeued("", 75, 55));
  job.during = "";
  CHECK(requeued("", 7, 56));
  // Failures with a checkpoint between them are not "in a row".
  for (int restarts = 57; restarts < 63; ++restarts) {
    saves(restarts);
    CHECK(requeued("", 7, restarts));
  }
  job.during = "";
  // Without a limit, a job would be requeued forever if it is always stopped before it saves, or in
  // the evaluation of its last checkpoint.
  for (int restarts = 0; restarts < 4; ++restarts)
    CHECK(requeued("", 75, restarts) == (restarts < 3));
  CHECK(requeued("", 75, 0));  // submitted again
  // A run whose workdir has disappeared would begin at step 0.
  std::filesystem::remove_all(job.dir / "run");
  CHECK_FALSE(requeued(exited("n0: task 0", 5), 5, 0));
  CHECK_FALSE(exists(job.dir / "run"));
  // There is nothing to continue without a workdir.
  job.arguments = "--config c.yaml";
  CHECK_FALSE(requeued("", 7, 0));
}

TEST_CASE("a slurm job says what to do if it does not find the repository") {
  Job job;
  const std::string call =
      ": call sbatch in the folder of the repository or set BVTRAIN_ROOT=<that folder>";
  CHECK(job.end("", 0, "BVTRAIN_BINARY=") == 2);
  CHECK(job.read("out") == "slurm.sbatch: error: no ./build/release/bvtrain" + call +
                               ", and build bvtrain once with scripts/bvtrain.sh --version; or set "
                               "BVTRAIN_BINARY\n");
  job.arguments = "--config c.yaml --out runs --grid lr 0.1";
  CHECK(job.end("", 0) == 2);
  CHECK(job.read("out") == "slurm.sbatch: error: no ./scripts/grid.sh" + call + "\n");
}

TEST_CASE("a slurm array trains the points of sweep.sh's grid") {
  Job job;
  job.dir.write("c.yaml", "seed: 0\n");
  job.arguments = "--config c.yaml --out runs --grid lr 0.1 '[2, 3]' --grid seed 0 1 --set wd=0";
  const std::string root = "BVTRAIN_ROOT=" + source_file(".");
  const auto task = [&](int number) {
    return root + " SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=" + std::to_string(number);
  };
  CHECK(job.end("", 0, task(2)) == 0);
  CHECK(job.read("srun-args")
            .ends_with(" /bin/true --config c.yaml --set wd=0 --set lr=0.1 --set seed=1 --workdir "
                       "runs/lr=0.1,seed=1\n"));

  // The same name as from sweep.sh.
  CHECK(job.end("", 75, task(3)) == 75);
  CHECK(job.read("requeued") == "requeue 9_3\n");
  const std::string printed = job.dir / "printed";
  const std::string print = "cd " + job.dir.path() + " && bash " + source_file("scripts/sweep.sh") +
                            " " + job.arguments + " --print 3 >printed";
  REQUIRE(std::system(print.c_str()) == 0);
  const std::string line = read_text(printed);
  const std::string workdir = line.substr(line.rfind(' ') + 1);
  CHECK(workdir.starts_with("runs/lr=_2__3_,seed=0-"));
  CHECK(job.read("srun-args").ends_with(" --workdir " + workdir));
  CHECK_FALSE(exists(job.dir / workdir.substr(0, workdir.size() - 1) + "/FAILED"));

  // A point that has diverged is not retried.
  CHECK(job.end(exited("n0: task 0", 4), 4, task(4)) == 4);
  CHECK(job.read("requeued").empty());
  job.dir.write("srun-args", "not called");
  CHECK(job.end("", 0, task(4)) == 4);
  CHECK(job.read("srun-args") == "not called");
  CHECK(job.read("out").ends_with("diverged before; remove its file FAILED to try it again\n"));

  const std::string range =
      "slurm.sbatch: error: the grid has 4 points; submit it with --array=1-4\n";
  for (const std::string& more : {task(0), task(5), root}) {
    CHECK(job.end("", 0, more) == 2);
    CHECK(job.read("out") == range);
  }
}

}  // namespace bv::test

// How long a run may take: --max-time, the end of its slurm job, and --requeue.
#pragma once

#include <string>
#include <string_view>

#include "lib/distributed/launch/rank_layout.h"

namespace bv {

struct TimeLimit {
  std::string max_time;  // of --max-time: 47h50m; empty: none
  bool requeue = false;  // --requeue
  std::string workdir;   // empty: nothing is saved
  RankLayout layout;     // of this process
};

// Returns a length of time in seconds: "47h50m", "90s", "2d". Throws Error(Exit::usage).
double parse_time_limit(std::string_view text);

// Makes the run stop as if by SIGUSR1 when --max-time has passed since the program started, or two
// minutes before its slurm job ends ($SLURM_JOB_END_TIME), whichever comes first. If the job has
// less than four minutes left, the run stops after half of that time. A launcher calls this before
// it starts its ranks, which then keep the same limit, also after a restart. Throws
// Error(Exit::usage), also for --requeue outside of a slurm job.
void set_time_limit(const TimeLimit& limit);

// After a run that stopped with 75 and --requeue: requeues the slurm job, which then continues.
// Only one process of the run does so: the launcher of node 0, or rank 0 under another launcher. If
// this start has saved no checkpoint, or if the requeue fails, that process logs a warning.
void requeue_job(const TimeLimit& limit);

}  // namespace bv

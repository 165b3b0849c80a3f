// The machine that this process runs on: its name, its memory, its clock.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace bv {

// Returns the host name for messages and file names, or "unknown". The name need not resolve to an
// address.
std::string host_name();

// Returns the id that the kernel chose at this boot; empty if it is not known. All containers of a
// machine have the same one.
std::string boot_id();

// Returns the model of the CPU, such as "AMD EPYC 7B13"; empty if it is not known.
std::string cpu_name();

// Returns the number of cores that this process may run on, at most its CPU quota, rounded up.
int available_cores();
// The same, but at most OMP_NUM_THREADS: launchers divide the cores of a host by that variable.
int usable_cores();
// Returns how many cores' time the control groups of this process allow it, such as 2.5 for
// `docker run --cpus=2.5`; nullopt if they set no quota. `root`: as in control_groups().
std::optional<double> cpu_quota(const std::string& root = "/");

// Returns the peak resident memory of this process in bytes, nullopt if it is not known.
std::optional<double> peak_resident_bytes();

// Returns the resident memory of this process in bytes, nullopt if it is not known. Takes a few
// microseconds.
std::optional<double> resident_bytes();

// Returns a time such as std::time(nullptr) as "2025-11-21T09:30:01Z".
std::string utc_text(std::time_t time);

}  // namespace bv

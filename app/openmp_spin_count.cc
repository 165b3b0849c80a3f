// Sets GOMP_SPINCOUNT before libgomp reads it.
//
// At the end of a parallel loop libgomp's threads spin 300,000 times, some milliseconds, before
// they sleep. That is right for a run that has its cores to itself. Where two runs share the cores
// of a machine, as in a sweep, a thread that spins keeps the thread that it waits for from running,
// and both runs take many times as long. 1,000 rounds bridge the pauses between the loops of a
// step, so a run that is alone does not become slower (scripts/bench/shared_cores.sh measures
// both).
//
// libgomp reads the variable in its initialiser, which runs before main() and before every
// constructor of this program. Only functions in .preinit_array run earlier, when setenv() has no
// effect yet: libc takes the environment over afterwards, from the array that the kernel filled. So
// the setting takes the place of an entry of that array that no library reads, until the libraries
// are initialised. A program that is started without any such variable (env -i) spins as ever.
#include <cstring>

// A sanitizer's own initialisation has not run at this point.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

char setting[] = "GOMP_SPINCOUNT=1000";

constexpr const char* kNotReadByLibraries[] = {"_",     "OLDPWD",  "SHLVL", "PWD",
                                               "SHELL", "LOGNAME", "USER",  "HOSTNAME",
                                               "MAIL",  "TERM",    "HOME",  "PATH"};

char** borrowed = nullptr;  // the entry of the environment that holds `setting` for now
char* original = nullptr;   // what it held

bool is_variable(const char* entry, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(entry, name, length) == 0 && entry[length] == '=';
}

void borrow_entry(int, char**, char** environment) {
  for (char** entry = environment; *entry; ++entry) {
    // What the user says counts.
    if (is_variable(*entry, "GOMP_SPINCOUNT") || is_variable(*entry, "OMP_WAIT_POLICY")) return;
  }
  for (const char* name : kNotReadByLibraries) {
    for (char** entry = environment; *entry; ++entry) {
      if (!is_variable(*entry, name)) continue;
      borrowed = entry;
      original = *entry;
      *entry = setting;
      return;
    }
  }
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = borrow_entry;

// Priority 101 is the first that a program may use: no other constructor of it has run.
[[gnu::constructor(101)]] void give_back_entry() {
  if (borrowed) *borrowed = original;
}

}  // namespace

#endif

#include "lib/util/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "lib/util/printable.h"
#include "lib/util/regular_file.h"
#include "lib/util/signals.h"

namespace bv {
namespace {

// A mapping's data for the handler. A slot is in use while `name` is not null.
struct KnownMapping {
  std::atomic<const char*> name{nullptr};
  std::atomic<const uint8_t*> begin{nullptr};
  std::atomic<size_t> size{0};
};
std::array<KnownMapping, 256> g_mappings;
static_assert(std::atomic<const char*>::is_always_lock_free);

void write_text(const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

void write_number(size_t number) {
  char digits[24] = {};
  char* at = digits + sizeof(digits) - 1;
  do {
    *--at = static_cast<char>('0' + number % 10);
  } while ((number /= 10) > 0);
  write_text(at);
}

// Only system calls and atomic variables: everything else is unsafe in a signal handler.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  for (const KnownMapping& mapping : g_mappings) {
    const char* name = mapping.name;
    const uint8_t* begin = mapping.begin;
    if (name == nullptr || begin == nullptr || address < begin || address >= begin + mapping.size)
      continue;
    write_text(name);
    write_text(" @ offset ");
    write_number(static_cast<size_t>(address - begin));
    write_text(": error: cannot be read: the file was truncated, or its disk is faulty\n");
    end_in_handler(static_cast<int>(Exit::data));
  }
  ::signal(signal, SIG_DFL);  // the instruction is repeated and ends the process
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, nullptr);
  });
}

}  // namespace

MappedFile::MappedFile(const std::string& file) : name_(printable(file, std::string::npos)) {
  const RegularFile opened(file);
  size_ = opened.size();
  if (size_ == 0) return;  // mmap rejects a length of 0
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, opened.fd(), 0);
  if (data == MAP_FAILED) {
    size_ = 0;
    throw_file_error(Exit::usage, file, "cannot map: ", errno);
  }
  data_ = static_cast<const uint8_t*>(data);
  install_handler();
  for (size_t i = 0; i < g_mappings.size() && slot_ == SIZE_MAX; ++i) {
    const char* none = nullptr;
    if (!g_mappings[i].name.compare_exchange_strong(none, name_.c_str())) continue;
    slot_ = i;
    g_mappings[i].size = size_;
    g_mappings[i].begin = data_;
  }
}

MappedFile::~MappedFile() {
  if (slot_ != SIZE_MAX) {
    g_mappings[slot_].begin = nullptr;
    g_mappings[slot_].name = nullptr;
  }
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace bv

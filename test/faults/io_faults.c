// A library for LD_PRELOAD that lets one I/O call of a process fail (test/faults/io_errors.py).
//
//   IO_FAULTS_DIR    only files below this folder count
//   IO_FAULTS_LOG    appends the name of each call that counts: for the first, undisturbed run
//   IO_FAULTS_AT     the number of the call that fails, from 1; 0: none
//   IO_FAULTS_ERROR  its errno, or "short": a write that takes only one byte
//
// Calls are counted over all processes of a run, in the file IO_FAULTS_COUNT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
enum { NO_FAULT = 0, SHORT = -1 };

static int below(const char *path) {
  const char *dir = getenv("IO_FAULTS_DIR");
  if (dir == NULL || path == NULL || strncmp(path, dir, strlen(dir)) != 0) return 0;
  const char *rest = path + strlen(dir);
  return *rest == '/' || *rest == '\0';
}

static int fd_below(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long n = syscall(SYS_readlink, link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = '\0';
  return below(path);
}

static const char *text_of(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? "" : text;
}

// Counts a call. Returns the errno that it is to fail with, NO_FAULT or SHORT.
static int fault(const char *call, const char *path) {
  const char *count_file = getenv("IO_FAULTS_COUNT");
  if (count_file == NULL) return NO_FAULT;
  // System calls, so that these are not counted.
  int fd = (int)syscall(SYS_openat, AT_FDCWD, count_file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return NO_FAULT;
  flock(fd, LOCK_EX);
  char digits[32] = "";
  long n = syscall(SYS_pread64, fd, digits, sizeof digits - 1, 0);
  long number = (n > 0 ? atol(digits) : 0) + 1;
  int length = snprintf(digits, sizeof digits, "%ld\n", number);
  syscall(SYS_pwrite64, fd, digits, length, 0);
  const char *log = getenv("IO_FAULTS_LOG");
  if (log != NULL) {
    int out = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    char line[4500];
    int bytes = snprintf(line, sizeof line, "%s %s\n", call, path);
    syscall(SYS_write, out, line, bytes);
    syscall(SYS_close, out);
  }
  syscall(SYS_close, fd);
  if (number != atol(text_of("IO_FAULTS_AT"))) return NO_FAULT;
  const char *error = text_of("IO_FAULTS_ERROR");
  return strcmp(error, "short") == 0 ? SHORT : atoi(error);
}

static int fd_fault(const char *call, int fd) {
  char link[64], path[4096];
  if (!fd_below(fd)) return NO_FAULT;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long n = syscall(SYS_readlink, link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  return fault(call, path);
}

#define FAIL_IF(error)    \
  do {                    \
    int failure = (error); \
    if (failure > 0) {     \
      errno = failure;     \
      return -1;          \
    }                     \
  } while (0)

#define OPEN(name)                                                   \
  int name(const char *path, int flags, ...) {                       \
    va_list list;                                                    \
    va_start(list, flags);                                           \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                    \
    if (below(path)) FAIL_IF(fault(#name, path));                    \
    return NEXT(name)(path, flags, mode);                            \
  }
OPEN(open)
OPEN(open64)

FILE *fopen(const char *path, const char *mode) {
  if (below(path)) {
    int e = fault("fopen", path);
    if (e > 0) return errno = e, NULL;
  }
  return NEXT(fopen)(path, mode);
}
FILE *fopen64(const char *path, const char *mode) {
  if (below(path)) {
    int e = fault("fopen64", path);
    if (e > 0) return errno = e, NULL;
  }
  return NEXT(fopen64)(path, mode);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  int e = fd_fault("write", fd);
  if (e == SHORT && bytes > 1) return NEXT(write)(fd, data, 1);
  FAIL_IF(e);
  return NEXT(write)(fd, data, bytes);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
  int e = fd_fault("pwrite64", fd);
  if (e == SHORT && bytes > 1) return NEXT(pwrite64)(fd, data, 1, at);
  FAIL_IF(e);
  return NEXT(pwrite64)(fd, data, bytes, at);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return pwrite64(fd, data, bytes, at); }
ssize_t read(int fd, void *data, size_t bytes) {
  int e = fd_fault("read", fd);
  if (e == SHORT && bytes > 1) return NEXT(read)(fd, data, 1);
  FAIL_IF(e);
  return NEXT(read)(fd, data, bytes);
}
ssize_t pread64(int fd, void *data, size_t bytes, off64_t at) {
  int e = fd_fault("pread64", fd);
  if (e == SHORT && bytes > 1) return NEXT(pread64)(fd, data, 1, at);
  FAIL_IF(e);
  return NEXT(pread64)(fd, data, bytes, at);
}
ssize_t pread(int fd, void *data, size_t bytes, off_t at) { return pread64(fd, data, bytes, at); }
int fsync(int fd) {
  FAIL_IF(fd_fault("fsync", fd));
  return NEXT(fsync)(fd);
}
int fdatasync(int fd) {
  FAIL_IF(fd_fault("fdatasync", fd));
  return NEXT(fdatasync)(fd);
}
int ftruncate64(int fd, off64_t length) {
  FAIL_IF(fd_fault("ftruncate64", fd));
  return NEXT(ftruncate64)(fd, length);
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
int close(int fd) {
  int e = fd_fault("close", fd);
  int result = NEXT(close)(fd);
  FAIL_IF(e);
  return result;
}
int rename(const char *from, const char *to) {
  if (below(from) || below(to)) FAIL_IF(fault("rename", to));
  return NEXT(rename)(from, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  if (below(from) || below(to)) FAIL_IF(fault("renameat2", to));
  return NEXT(renameat2)(a, from, b, to, flags);
}
int link(const char *from, const char *to) {
  if (below(from) || below(to)) FAIL_IF(fault("link", to));
  return NEXT(link)(from, to);
}
int unlink(const char *path) {
  if (below(path)) FAIL_IF(fault("unlink", path));
  return NEXT(unlink)(path);
}
int remove(const char *path) {
  if (below(path)) FAIL_IF(fault("remove", path));
  return NEXT(remove)(path);
}
int mkdir(const char *path, mode_t mode) {
  if (below(path)) FAIL_IF(fault("mkdir", path));
  return NEXT(mkdir)(path, mode);
}
int rmdir(const char *path) {
  if (below(path)) FAIL_IF(fault("rmdir", path));
  return NEXT(rmdir)(path);
}

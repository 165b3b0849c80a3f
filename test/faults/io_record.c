// A library for LD_PRELOAD that records what a process does to files (test/faults/crash_states.py).
//
//   IO_RECORD_DIR  only files below this folder count
//   IO_RECORD_LOG  the record: for each call a line "<call>\t<path>\t<second path>\t<offset>\t<bytes>",
//                  followed by so many bytes of data
//
// The record has the order in which the calls took effect, over all threads and processes of a run.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below(const char *path) {
  const char *dir = getenv("IO_RECORD_DIR");
  if (dir == NULL || path == NULL || strncmp(path, dir, strlen(dir)) != 0) return 0;
  const char *rest = path + strlen(dir);
  return *rest == '/' || *rest == '\0';
}

static const char *fd_path(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long n = syscall(SYS_readlink, link, path, PATH_MAX - 1);
  path[n > 0 ? n : 0] = '\0';
  return path;
}

// Locks the record. Returns its descriptor, or -1 if nothing is recorded.
static int begin(void) {
  const char *log = getenv("IO_RECORD_LOG");
  if (log == NULL) return -1;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) flock(fd, LOCK_EX);
  return fd;
}

// Appends a call if it has succeeded, and unlocks the record.
static void end(int log, int succeeded, const char *call, const char *path, const char *other,
                long offset, const void *data, long bytes) {
  if (log < 0) return;
  int before = errno;
  if (succeeded) {
    char line[3 * PATH_MAX];
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%ld\n", call, path, other, offset, bytes);
    syscall(SYS_write, log, line, length);
    if (bytes > 0) syscall(SYS_write, log, data, bytes);
  }
  syscall(SYS_close, log);
  errno = before;
}

static int open_next(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
  if (!below(path) || !(flags & (O_CREAT | O_TRUNC))) return next(path, flags, mode);
  int log = begin();
  struct stat info;
  int existed = stat(path, &info) == 0;
  int fd = next(path, flags, mode);
  const char *call = !existed ? "create" : (flags & O_TRUNC) ? "truncate" : "open";
  end(log, fd >= 0, call, path, "", 0, NULL, 0);
  return fd;
}

#define OPEN(name)                                                    \
  int name(const char *path, int flags, ...) {                        \
    va_list list;                                                     \
    va_start(list, flags);                                            \
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                     \
    return open_next(NEXT(name), path, flags, mode);                  \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t bytes) {
  char path[PATH_MAX];
  if (!below(fd_path(fd, path))) return NEXT(write)(fd, data, bytes);
  int log = begin();
  ssize_t n = NEXT(write)(fd, data, bytes);
  long position = n > 0 ? (long)lseek(fd, 0, SEEK_CUR) - n : 0;
  end(log, n > 0, "write", path, "", position, data, n);
  return n;
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
  char path[PATH_MAX];
  if (!below(fd_path(fd, path))) return NEXT(pwrite64)(fd, data, bytes, at);
  int log = begin();
  ssize_t n = NEXT(pwrite64)(fd, data, bytes, at);
  end(log, n > 0, "write", path, "", at, data, n);
  return n;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return pwrite64(fd, data, bytes, at); }
int ftruncate64(int fd, off64_t length) {
  char path[PATH_MAX];
  if (!below(fd_path(fd, path))) return NEXT(ftruncate64)(fd, length);
  int log = begin();
  int result = NEXT(ftruncate64)(fd, length);
  end(log, result == 0, "truncate", path, "", length, NULL, 0);
  return result;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int sync_next(int (*next)(int), int fd) {
  char path[PATH_MAX];
  if (!below(fd_path(fd, path))) return next(fd);
  int log = begin();
  int result = next(fd);
  end(log, result == 0, "fsync", path, "", 0, NULL, 0);
  return result;
}
int fsync(int fd) { return sync_next(NEXT(fsync), fd); }
int fdatasync(int fd) { return sync_next(NEXT(fdatasync), fd); }

int rename(const char *from, const char *to) {
  if (!below(from)) return NEXT(rename)(from, to);
  int log = begin();
  int result = NEXT(rename)(from, to);
  end(log, result == 0, "rename", from, to, 0, NULL, 0);
  return result;
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  if (!below(from)) return NEXT(renameat2)(a, from, b, to, flags);
  int log = begin();
  int result = NEXT(renameat2)(a, from, b, to, flags);
  end(log, result == 0, (flags & RENAME_EXCHANGE) ? "exchange" : "rename", from, to, 0, NULL, 0);
  return result;
}
int link(const char *from, const char *to) {
  if (!below(from)) return NEXT(link)(from, to);
  int log = begin();
  int result = NEXT(link)(from, to);
  end(log, result == 0, "link", from, to, 0, NULL, 0);
  return result;
}

#define ONE_PATH(name, parameters, arguments, call)  \
  int name parameters {                              \
    if (!below(path)) return NEXT(name) arguments;   \
    int log = begin();                               \
    int result = NEXT(name) arguments;               \
    end(log, result == 0, call, path, "", 0, NULL, 0); \
    return result;                                   \
  }
ONE_PATH(unlink, (const char *path), (path), "remove")
ONE_PATH(remove, (const char *path), (path), "remove")
ONE_PATH(rmdir, (const char *path), (path), "remove")
ONE_PATH(mkdir, (const char *path, mode_t mode), (path, mode), "mkdir")

int unlinkat(int folder, const char *name, int flags) {
  char path[2 * PATH_MAX] = "";
  if (*name != '/' && folder != AT_FDCWD) {
    fd_path(folder, path);
    strcat(path, "/");
  }
  strncat(path, name, PATH_MAX - 1);
  if (!below(path)) return NEXT(unlinkat)(folder, name, flags);
  int log = begin();
  int result = NEXT(unlinkat)(folder, name, flags);
  end(log, result == 0, "remove", path, "", 0, NULL, 0);
  return result;
}

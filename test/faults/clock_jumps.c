// A library for LD_PRELOAD in which the time of day jumps back and forth by up to a week, each time it
// is asked for (test/faults/clock_jumps.py). The monotonic clock is left as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

enum { WEEK = 7 * 24 * 3600 };

// Returns a number of seconds from -WEEK to WEEK, another one each time.
static long jump(void) {
  static _Atomic uint64_t calls;
  uint64_t x = ++calls * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
  return (long)((x >> 33) % (2 * WEEK + 1)) - WEEK;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*next)(clockid_t, struct timespec *);
  if (next == NULL) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = next(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
  return result;
}

time_t time(time_t *out) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec now = {0};
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

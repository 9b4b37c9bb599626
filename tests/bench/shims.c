/* Loaded before the C library: a wall clock that jumps, and a disk that takes its time, as the environment asks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

/* Every second call is an hour behind or ahead of the one before. */
static time_t jump(void) {
    static int calls;
    return getenv("SHIM_JUMPS") ? (++calls % 2 ? 3600 : -3600) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int code = REAL(clock_gettime)(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += jump();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int code = REAL(gettimeofday)(now, zone);
    now->tv_sec += jump();
    return code;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now) *now = found.tv_sec;
    return found.tv_sec;
}

static void delay(void) {
    const char *text = getenv("SHIM_DISK_MS");
    if (text) usleep(1000 * atoi(text));
}

static int is_file(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    if (is_file(descriptor)) delay();
    return REAL(write)(descriptor, data, size);
}

int fsync(int descriptor) {
    delay();
    return REAL(fsync)(descriptor);
}

int rename(const char *before, const char *after) {
    delay();
    return REAL(rename)(before, after);
}

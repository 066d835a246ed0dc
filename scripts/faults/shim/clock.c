/* Lets a program that is linked with libc see another time: as many seconds off as the
 * file says that TOLLGATE_SHIM_CLOCK names. Time that only counts is as it was. Build:
 * gcc -shared -fPIC -o clock.so clock.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const char *file;

__attribute__((constructor)) static void begin(void) {
	const char *name = getenv("TOLLGATE_SHIM_CLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *at = mmap(0, 16, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED) file = at;
	close(fd);
}

/* 15 characters, such as "+00000000000065" */
static long off(void) {
	if (!file) return 0;
	char text[16] = {0};
	for (int i = 0; i < 15; i++) text[i] = file[i];
	return atol(text);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
	int failed = real(id, t);
	if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += off();
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	static int (*real)(struct timeval *, void *);
	if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
	int failed = real(t, zone);
	if (!failed && t) t->tv_sec += off();
	return failed;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t) *t = now.tv_sec;
	return now.tv_sec;
}

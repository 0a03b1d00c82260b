/* Preloaded into the sidecar: counts what it does to files and kills it at the KILL_AT-th of these calls, before the call or,
 * with KILL_HALF, after half of the bytes of a write. Writes to sockets, pipes and standard streams do not count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;
static long at = -1, half = 0;

__attribute__((constructor)) static void read_environment(void) {
    const char *n = getenv("KILL_AT");
    at = n ? atol(n) : -1;
    half = getenv("KILL_HALF") != NULL;
}

/* Whether this call is the last. */
static int is_last(void) { return at > 0 && atomic_fetch_add(&calls, 1) + 1 == at; }

static int is_file(int fd) {
    struct stat about;
    return fd > 2 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

static void end(void) {
    kill(getpid(), SIGKILL);
    pause();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = REAL(write);
    if (at > 0 && is_file(fd) && is_last()) {
        if (half) real(fd, bytes, size / 2);
        end();
    }
    return real(fd, bytes, size);
}

#define POSITIONED(name, offset_type)                                       \
    ssize_t name(int fd, const void *bytes, size_t size, offset_type from) { \
        static ssize_t (*real)(int, const void *, size_t, offset_type);      \
        if (!real) real = REAL(name);                                        \
        if (at > 0 && is_file(fd) && is_last()) {                            \
            if (half) real(fd, bytes, size / 2, from);                       \
            end();                                                           \
        }                                                                    \
        return real(fd, bytes, size, from);                                  \
    }
POSITIONED(pwrite, off_t)
POSITIONED(pwrite64, off64_t)

#define ON_FILE(name)                            \
    int name(int fd) {                           \
        static int (*real)(int);                 \
        if (!real) real = REAL(name);            \
        if (at > 0 && is_last()) end();          \
        return real(fd);                         \
    }
ON_FILE(fsync)
ON_FILE(fdatasync)

#define TRUNCATION(name, size_type)              \
    int name(int fd, size_type size) {           \
        static int (*real)(int, size_type);      \
        if (!real) real = REAL(name);            \
        if (at > 0 && is_last()) end();          \
        return real(fd, size);                   \
    }
TRUNCATION(ftruncate, off_t)
TRUNCATION(ftruncate64, off64_t)

int unlink(const char *path) {
    static int (*real)(const char *);
    if (!real) real = REAL(unlink);
    if (at > 0 && is_last()) end();
    return real(path);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = REAL(rename);
    if (at > 0 && is_last()) end();
    return real(from, to);
}

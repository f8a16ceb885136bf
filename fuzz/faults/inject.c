/* System calls that change the disk, counted, and one of them made to fail; for LD_PRELOAD.

   Processes share the struct below through the file that XDLC_FAULTS names.  A point is a call in the order
   of the whole run, its children included.  Calls on pipes, sockets, devices and memory files do not count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, FULL, ONCE, SHORT, KILL };
#define MOST 8192

static struct shared {
    volatile int32_t armed, tool, target, action, error, count, done, unused;
    char names[MOST][24];
} *shared;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("XDLC_FAULTS");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *held = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shared = held == MAP_FAILED ? NULL : held;
    syscall(SYS_close, file);
}

/* Count a call; return whether it fails, with errno set.  For SHORT, *size becomes smaller instead. */
static int fails(const char *name, size_t *size) {
    if (!shared || !shared->armed)
        return 0;
    int place = __sync_fetch_and_add(&shared->count, 1);
    if (place < MOST)
        strncpy(shared->names[place], name, sizeof shared->names[place] - 1);
    int grows = strncmp(name, "unlink", 6) && strncmp(name, "rmdir", 5) && strncmp(name, "rename", 6)
        && strncmp(name, "chmod", 5) && strncmp(name, "chown", 5);
    int later = shared->action == FULL && grows && place > shared->target;
    if ((place != shared->target && !later) || (shared->action == FULL && !grows))
        return 0;
    shared->done = 1;
    if (shared->action == KILL) {
        kill(shared->tool, SIGKILL);
        kill(getpid(), SIGKILL);
    }
    if (shared->action == SHORT) {
        if (size && *size > 1)
            *size /= 2;
        return 0;
    }
    errno = shared->error;
    return shared->action != NONE;
}

static int on_disk(int file) {
    struct stat held;
    int kept = errno, found = !fstat(file, &held) && S_ISREG(held.st_mode) && held.st_nlink;
    errno = kept;
    return found;
}

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })

#define OPENS(name, parameters, arguments)                                \
    int name(EXPAND parameters, int flags, ...) {                         \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                     \
        if (flags & (O_CREAT | O_TRUNC) && strcmp(path, "/dev/null") && fails("open", NULL)) \
            return -1;                                                    \
        return REAL(name)(EXPAND arguments, flags, mode);                 \
    }
#define EXPAND(...) __VA_ARGS__
OPENS(open, (const char *path), (path))
OPENS(open64, (const char *path), (path))
OPENS(openat, (int folder, const char *path), (folder, path))
OPENS(openat64, (int folder, const char *path), (folder, path))

#define WRITES(name, parameters, arguments)                               \
    ssize_t name parameters {                                             \
        if (on_disk(file) && fails(#name, &size))                         \
            return -1;                                                    \
        return REAL(name) arguments;                                      \
    }
WRITES(write, (int file, const void *data, size_t size), (file, data, size))
WRITES(pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
WRITES(pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))

ssize_t writev(int file, const struct iovec *parts, int count) {
    size_t size = count ? parts[0].iov_len : 0, whole = size;
    if (on_disk(file) && fails("writev", &size))
        return -1;
    return size < whole ? REAL(write)(file, parts[0].iov_base, size) : REAL(writev)(file, parts, count);
}

ssize_t copy_file_range(int from, off64_t *at, int file, off64_t *place, size_t size, unsigned flags) {
    return on_disk(file) && fails("copy_file_range", &size) ? -1
        : REAL(copy_file_range)(from, at, file, place, size, flags);
}

ssize_t sendfile(int file, int from, off_t *at, size_t size) {
    return on_disk(file) && fails("sendfile", &size) ? -1 : REAL(sendfile)(file, from, at, size);
}

size_t fwrite(const void *data, size_t unit, size_t number, FILE *stream) {
    size_t size = number;
    return on_disk(fileno(stream)) && fails("fwrite", &size) ? 0 : REAL(fwrite)(data, unit, size, stream);
}

int fclose(FILE *stream) {
    int failed = on_disk(fileno(stream)) && stream->_flags & 0x800 && fails("fclose", NULL), error = errno;
    int found = REAL(fclose)(stream);
    if (failed)
        errno = error;
    return failed ? EOF : found;
}

#define CHANGES(name, parameters, arguments)                              \
    int name parameters { return fails(#name, NULL) ? -1 : REAL(name) arguments; }
#define CHANGES_FILE(name, parameters, arguments)                         \
    int name parameters { return on_disk(file) && fails(#name, NULL) ? -1 : REAL(name) arguments; }
CHANGES_FILE(ftruncate, (int file, off_t size), (file, size))
CHANGES_FILE(ftruncate64, (int file, off64_t size), (file, size))
CHANGES_FILE(fallocate, (int file, int mode, off_t at, off_t size), (file, mode, at, size))
CHANGES_FILE(fchmod, (int file, mode_t mode), (file, mode))
CHANGES_FILE(fchown, (int file, uid_t user, gid_t group), (file, user, group))
CHANGES(fsync, (int file), (file))
CHANGES(fdatasync, (int file), (file))
CHANGES(msync, (void *data, size_t size, int flags), (data, size, flags))
CHANGES(rename, (const char *one, const char *other), (one, other))
CHANGES(renameat, (int a, const char *one, int b, const char *other), (a, one, b, other))
CHANGES(renameat2, (int a, const char *one, int b, const char *other, unsigned flags), (a, one, b, other, flags))
CHANGES(link, (const char *one, const char *other), (one, other))
CHANGES(linkat, (int a, const char *one, int b, const char *other, int flags), (a, one, b, other, flags))
CHANGES(symlink, (const char *one, const char *other), (one, other))
CHANGES(symlinkat, (const char *one, int folder, const char *other), (one, folder, other))
CHANGES(unlink, (const char *path), (path))
CHANGES(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
CHANGES(rmdir, (const char *path), (path))
CHANGES(mkdir, (const char *path, mode_t mode), (path, mode))
CHANGES(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
CHANGES(chmod, (const char *path, mode_t mode), (path, mode))
CHANGES(fchmodat, (int folder, const char *path, mode_t mode, int flags), (folder, path, mode, flags))
CHANGES(chown, (const char *path, uid_t user, gid_t group), (path, user, group))
CHANGES(truncate, (const char *path, off_t size), (path, size))

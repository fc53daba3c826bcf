/* Preloaded into a worker: as long as the file that HANG_FILE names is there, what changes a disk does not come back; with HANG_LOOKUPS_FILE
   it is the same with looking a name up, with HANG_FILES_FILE with what is done below FILES_DIR. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void hang_by(const char *name) {
  const char *file = getenv(name);
  while (file != NULL && access(file, F_OK) == 0) usleep(20000);
}

static void hang(void) { hang_by("HANG_FILE"); }

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
  hang_by("HANG_LOOKUPS_FILE");
  return real(node, service, hints, found);
}

int fsync(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  hang();
  return real(fd);
}

static int is_below(const char *path, const char *name) {
  const char *folder = getenv(name);
  return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

int mkdir(const char *path, mode_t mode) {
  int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
  if (is_below(path, "STATE_DIR")) hang();
  return real(path, mode);
}

static void hang_files(const char *path) {
  if (is_below(path, "FILES_DIR")) hang_by("HANG_FILES_FILE");
}

#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...) {                                                                         \
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);                                                     \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                            \
    va_end(rest);                                                                                                      \
    hang_files(path);                                                                                                  \
    return real(path, flags, mode);                                                                                    \
  }
OPEN(open)
OPEN(open64)

int rename(const char *path, const char *to) {
  int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
  hang_files(path);
  return real(path, to);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
  int (*real)(int, const char *, const struct timespec[2], int) = dlsym(RTLD_NEXT, "utimensat");
  hang_files(path);
  return real(folder, path, times, flags);
}

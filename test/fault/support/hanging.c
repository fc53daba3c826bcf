/* Preloaded into a worker: as long as the file that HANG_FILE names is there, what changes a disk does not come back; with HANG_LOOKUPS_FILE
   it is the same with looking a name up. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
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

int mkdir(const char *path, mode_t mode) {
  int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
  const char *state = getenv("STATE_DIR");
  size_t n = 0;
  while (state != NULL && state[n] != 0 && state[n] == path[n]) n++;
  if (state != NULL && state[n] == 0) hang();
  return real(path, mode);
}

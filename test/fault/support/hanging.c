/* Preloaded into a worker: as long as the file that HANG_FILE names is there, what changes a disk does not come back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void hang(void) {
  const char *file = getenv("HANG_FILE");
  while (file != NULL && access(file, F_OK) == 0) usleep(20000);
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

/**
 * A C library that stands between a program and the files of one folder. It writes down every change
 * of them, in the order in which they happen, and can make a chosen one fail or end the process.
 *
 * System calls only, as in the clock shim: the C library's own functions are what it replaces. A
 * lock of the log's file (`flock`, which ends with its process) and a mutex keep the order of the log
 * the order of the effects, over threads and processes.
 *
 * A record of the log, little-endian: kind (u32), process (u32), inode (u64), offset (u64), length
 * (u64), length of the name (u32), length of the data (u32); then the name, then the data.
 */
const HEAD = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, SYNC, UNLINK, RENAME, DIRSYNC, NOTE, ESCAPE };
enum { NOT_OURS, OURS, FOLDER, NOTES };
/* What a fault may meet; the bits of control->mask. */
enum { F_WRITE = 1, F_TRUNCATE = 2, F_SYNC = 4, F_OPEN = 8, F_READ = 16, F_UNLINK = 32 };

struct control {
  int64_t calls, failAt, failCount, failErrno, mask, killAt, torn, fsType;
};
struct record {
  uint32_t kind, pid;
  uint64_t inode, offset, length;
  uint32_t nameBytes, dataBytes;
};

static struct control *control;
static const char *folder;
static size_t folderBytes;
static int logFile = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char kinds[65536];
static uint64_t inodes[65536];

__attribute__((constructor)) static void start(void) {
  folder = getenv("DISK_FOLDER");
  if (!folder) return;
  folderBytes = strlen(folder);
  int file = syscall(SYS_openat, AT_FDCWD, getenv("DISK_CONTROL"), O_RDWR | O_CLOEXEC, 0);
  void *at = mmap(0, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) control = at;
  close(file);
  const char *log = getenv("DISK_LOG");
  if (log) logFile = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

/* The path as given must be absolute: SQLite resolves it before it opens anything. */
static int kindOf(const char *path) {
  if (!folder || !path || strncmp(path, folder, folderBytes)) return NOT_OURS;
  if (!path[folderBytes] || !strcmp(path + folderBytes, "/")) return FOLDER;
  if (path[folderBytes] != '/') return NOT_OURS;
  size_t bytes = strlen(path);
  if (bytes > 4 && !strcmp(path + bytes - 4, "-shm")) return NOT_OURS;
  if (bytes > 6 && !strcmp(path + bytes - 6, "/notes")) return NOTES;
  return OURS;
}
static int of(int fd) { return fd >= 0 && fd < 65536 ? kinds[fd] : NOT_OURS; }

static void lock(void) {
  pthread_mutex_lock(&mutex);
  if (logFile >= 0) syscall(SYS_flock, logFile, LOCK_EX);
}
static void unlock(void) {
  int kept = errno;
  if (logFile >= 0) syscall(SYS_flock, logFile, LOCK_UN);
  pthread_mutex_unlock(&mutex);
  errno = kept;
}
static void record(uint32_t kind, uint64_t inode, uint64_t offset, uint64_t length,
                   const char *name, const void *data, size_t dataBytes) {
  if (logFile < 0) return;
  int kept = errno;
  struct record head = {kind, syscall(SYS_getpid), inode, offset, length,
                        name ? strlen(name) : 0, dataBytes};
  struct iovec parts[3] = {{&head, sizeof head}, {(void *)name, head.nameBytes}, {(void *)data, dataBytes}};
  syscall(SYS_writev, logFile, parts, 3);
  errno = kept;
}

/* Whether this call is to fail; ends the process here if this is its moment. half: do half first. */
static int fault(int what, int *half) {
  *half = 0;
  if (!control || !(control->mask & what)) return 0;
  int64_t call = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
  if (control->killAt && call == control->killAt) {
    if (control->torn && what == F_WRITE) *half = 1;
    else kill(syscall(SYS_getpid), SIGKILL);
  }
  if (control->failAt && call >= control->failAt && call < control->failAt + control->failCount)
    return control->failErrno;
  return 0;
}
#define FAIL(number) do { errno = (number); return -1; } while (0)
`

const FILES = `
static int opened(const char *path, int flags, mode_t mode) {
  int kind = kindOf(path), half;
  if (kind == NOT_OURS) return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  int failed = kind == OURS ? fault(F_OPEN, &half) : 0;
  if (failed) FAIL(failed);
  lock();
  struct stat before;
  int isNew = (flags & O_CREAT) && syscall(SYS_newfstatat, AT_FDCWD, path, &before, 0) != 0;
  int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  if (fd >= 0 && fd < 65536) {
    struct stat now;
    syscall(SYS_newfstatat, fd, "", &now, AT_EMPTY_PATH);
    kinds[fd] = S_ISDIR(now.st_mode) ? FOLDER : kind;
    inodes[fd] = now.st_ino;
    if (kind == OURS && isNew) record(CREATE, now.st_ino, 0, 0, path + folderBytes + 1, 0, 0);
    else if (kind == OURS && (flags & O_TRUNC)) record(TRUNCATE, now.st_ino, 0, 0, 0, 0, 0);
  }
  unlock();
  return fd;
}
#define OPEN(name) int name(const char *path, int flags, ...) { \\
  va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \\
  return opened(path, flags, mode); }
OPEN(open) OPEN(open64)
#define OPENAT(name) int name(int at, const char *path, int flags, ...) { \\
  va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \\
  return at == AT_FDCWD ? opened(path, flags, mode) : syscall(SYS_openat, at, path, flags, mode); }
OPENAT(openat) OPENAT(openat64)

int close(int fd) {
  if (fd >= 0 && fd < 65536) kinds[fd] = NOT_OURS;
  return syscall(SYS_close, fd);
}

/* at < 0: where the file stands. */
static ssize_t written(int fd, const void *data, size_t bytes, off_t at) {
  int kind = of(fd), half, failed;
  if (kind == NOTES) {
    lock(); record(NOTE, 0, 0, 0, 0, data, bytes); unlock();
    return bytes;
  }
  if (kind != OURS)
    return at < 0 ? syscall(SYS_write, fd, data, bytes) : syscall(SYS_pwrite64, fd, data, bytes, at);
  lock();
  if ((failed = fault(F_WRITE, &half))) { unlock(); FAIL(failed); }
  if (at < 0) at = syscall(SYS_lseek, fd, 0, SEEK_CUR), lseek(fd, bytes, SEEK_CUR);
  ssize_t done = syscall(SYS_pwrite64, fd, data, half ? bytes / 2 : bytes, at);
  if (done > 0) record(WRITE, inodes[fd], at, done, 0, data, done);
  if (half) kill(syscall(SYS_getpid), SIGKILL);
  unlock();
  return done;
}
ssize_t write(int fd, const void *data, size_t bytes) { return written(fd, data, bytes, -1); }
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return written(fd, data, bytes, at); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) { return written(fd, data, bytes, at); }

/* Not known to happen; if it does, the log says that it is not whole. */
static void escaped(int fd, const char *how) {
  if (of(fd) != OURS) return;
  lock(); record(ESCAPE, inodes[fd], 0, 0, how, 0, 0); unlock();
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (of(fd) == NOT_OURS) return syscall(SYS_writev, fd, parts, count);
  ssize_t sum = 0;
  for (int i = 0; i < count; i++) sum += written(fd, parts[i].iov_base, parts[i].iov_len, -1);
  return sum;
}
#define PWRITEV(name) ssize_t name(int fd, const struct iovec *parts, int count, off_t at) { \\
  escaped(fd, #name); return syscall(SYS_pwritev, fd, parts, count, at, 0); }
PWRITEV(pwritev) PWRITEV(pwritev64)
#define FALLOCATE(name) int name(int fd, int mode, off_t at, off_t bytes) { \\
  escaped(fd, #name); return syscall(SYS_fallocate, fd, mode, at, bytes); }
FALLOCATE(fallocate) FALLOCATE(fallocate64)
#define MMAP(name) void *name(void *near, size_t bytes, int rights, int flags, int fd, off_t at) { \\
  if ((rights & PROT_WRITE) && (flags & MAP_SHARED)) escaped(fd, #name); \\
  return (void *)syscall(SYS_mmap, near, bytes, rights, flags, fd, at); }
MMAP(mmap) MMAP(mmap64)

static ssize_t got(int fd, void *data, size_t bytes, off_t at) {
  int half, failed = of(fd) == OURS ? fault(F_READ, &half) : 0;
  if (failed) FAIL(failed);
  return at < 0 ? syscall(SYS_read, fd, data, bytes) : syscall(SYS_pread64, fd, data, bytes, at);
}
ssize_t read(int fd, void *data, size_t bytes) { return got(fd, data, bytes, -1); }
ssize_t pread(int fd, void *data, size_t bytes, off_t at) { return got(fd, data, bytes, at); }
ssize_t pread64(int fd, void *data, size_t bytes, off_t at) { return got(fd, data, bytes, at); }
`

const NAMES = `
static int truncated(int fd, off_t bytes) {
  if (of(fd) != OURS) return syscall(SYS_ftruncate, fd, bytes);
  int half, failed;
  lock();
  if ((failed = fault(F_TRUNCATE, &half))) { unlock(); FAIL(failed); }
  int result = syscall(SYS_ftruncate, fd, bytes);
  if (!result) record(TRUNCATE, inodes[fd], 0, bytes, 0, 0, 0);
  unlock();
  return result;
}
int ftruncate(int fd, off_t bytes) { return truncated(fd, bytes); }
int ftruncate64(int fd, off_t bytes) { return truncated(fd, bytes); }

/* The disk is not really made to write: this program is never cut off, and the log says when it asked. */
static int synced(int fd, long number) {
  int kind = of(fd), half, failed;
  if (kind != OURS && kind != FOLDER) return syscall(number, fd);
  lock();
  if ((failed = fault(F_SYNC, &half))) { unlock(); FAIL(failed); }
  record(kind == FOLDER ? DIRSYNC : SYNC, inodes[fd], 0, 0, 0, 0, 0);
  unlock();
  return 0;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int unlink(const char *path) {
  if (kindOf(path) != OURS) return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  int half, failed;
  lock();
  if ((failed = fault(F_UNLINK, &half))) { unlock(); FAIL(failed); }
  int result = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  if (!result) record(UNLINK, 0, 0, 0, path + folderBytes + 1, 0, 0);
  unlock();
  return result;
}
int rename(const char *from, const char *to) {
  lock();
  int result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (!result && kindOf(from) == OURS && kindOf(to) == OURS)
    record(RENAME, 0, 0, 0, from + folderBytes + 1, to + folderBytes + 1, strlen(to) - folderBytes - 1);
  unlock();
  return result;
}

static int looked(const char *path, struct statfs *at) {
  int failed = syscall(SYS_statfs, path, at);
  if (!failed && control && control->fsType && kindOf(path) != NOT_OURS) at->f_type = control->fsType;
  return failed;
}
int statfs(const char *path, struct statfs *at) { return looked(path, at); }
int statfs64(const char *path, struct statfs64 *at) { return looked(path, (struct statfs *)at); }
`

export const DISK_SHIM: string = `${HEAD}${FILES}${NAMES}`

// What does a process write and sync in one directory, and what if the disk fails it?
//
// Preloaded into a server (LD_PRELOAD). Two uses, either alone or both:
//
//   QUIVER_SHIM_LOG     every write, sync and change of names below QUIVER_SHIM_DIR is appended here, with its bytes
//   QUIVER_SHIM_FAULTS  a file of 64-bit numbers, mapped, by which a campaign makes calls fail while the server runs
//
// A record of the log is seven 64-bit numbers (kind, inode, offset, length, covered, bytes of the first and of the second text
// behind it) and then the texts or the bytes. A write is logged before it happens, a sync when it has succeeded, with the
// log's length at its beginning: it covers what stands before that. Everything goes through libc; io_uring must be off.
// Memory that is mapped shared and writable would escape: such a map is logged, and the campaign refuses it for truth.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, SYNC, RANGE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, MAPPED };
enum { ON_WRITE = 1, ON_SYNC = 2, ON_META = 4, ON_NAMES = 8, ON_GROWTH = 16 };
enum { OF_CATALOG = 1, OF_COLLECTION = 2, OF_OTHERS = 4 };
// The numbers of the fault file: which calls and files, how many pass first, how many fail then, with what; how many
// calls matched, and how many were failed.
enum { CALLS, FILES, PASS, FAIL, ERROR, MATCHED, FAILED };

static char directory[4096];
static size_t directory_length;
static int log_file = -1;
static int64_t log_length;
static volatile int64_t *faults;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { uint64_t inode; int files; } known[65536];
static int known_count;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void append(const void *bytes, size_t length) {
	for (size_t at = 0; at < length;) {
		ssize_t written = syscall(SYS_write, log_file, (const char *)bytes + at, length - at);
		if (written < 0) abort();
		at += written;
	}
	log_length += length;
}

static void record(int kind, uint64_t inode, int64_t offset, int64_t length, int64_t covered, const char *one, const char *two,
				   const struct iovec *parts, int count) {
	if (log_file < 0) return;
	int64_t head[7] = {kind, inode, offset, length, covered, one ? strlen(one) : 0, two ? strlen(two) : 0};
	pthread_mutex_lock(&lock);
	append(head, sizeof head);
	if (one) append(one, strlen(one));
	if (two) append(two, strlen(two));
	for (int i = 0; i < count; i++) append(parts[i].iov_base, parts[i].iov_len);
	pthread_mutex_unlock(&lock);
}

static int is_inside(const char *path) {
	return directory_length && !strncmp(path, directory, directory_length) && path[directory_length] == '/';
}

static int files_of(const char *path) {
	if (!strstr(path, "data.mdb")) return OF_OTHERS;
	return strstr(path, "/catalog/") ? OF_CATALOG : OF_COLLECTION;
}

// The device of the directory. Files of other devices can have the same inodes: all eventfds of a system share a small one.
static dev_t device;

static uint64_t inode_of(int file) {
	struct stat st;
	return syscall(SYS_fstat, file, &st) || st.st_dev != device ? 0 : st.st_ino;
}

static void know(uint64_t inode, int files) {
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < known_count && known[i].inode != inode) i++;
	if (i < 65536) known[i].inode = inode, known[i].files = files;
	if (i == known_count && i < 65536) known_count++;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void) {
	const char *dir = getenv("QUIVER_SHIM_DIR"), *log = getenv("QUIVER_SHIM_LOG"), *fault = getenv("QUIVER_SHIM_FAULTS");
	if (!dir) return;
	snprintf(directory, sizeof directory, "%s", dir);
	directory_length = strlen(directory);
	struct stat st;
	if (syscall(SYS_newfstatat, AT_FDCWD, directory, &st, 0)) {
		fprintf(stderr, "disk-shim: there is no directory %s\n", directory);
		abort();
	}
	device = st.st_dev;
	know(st.st_ino, OF_OTHERS);
	if (log) {
		log_file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		log_length = lseek(log_file, 0, SEEK_END);
	}
	if (fault) {
		int file = syscall(SYS_openat, AT_FDCWD, fault, O_RDWR | O_CLOEXEC);
		faults = (int64_t *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	}
}

/** The files that an open file is among; 0 outside the directory. */
static int watched(int file, uint64_t *inode) {
	int files = 0;
	if (!directory_length || !(*inode = inode_of(file))) return 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < known_count && !files; i++)
		if (known[i].inode == *inode) files = known[i].files;
	pthread_mutex_unlock(&lock);
	return files;
}

/** Whether a call is to fail; errno is set then. */
static int fails(int calls, int files) {
	if (!faults || !(faults[CALLS] & calls) || !(faults[FILES] & files)) return 0;
	__atomic_add_fetch(&faults[MATCHED], 1, __ATOMIC_SEQ_CST);
	if (__atomic_fetch_sub(&faults[PASS], 1, __ATOMIC_SEQ_CST) > 0) return 0;
	if (__atomic_fetch_sub(&faults[FAIL], 1, __ATOMIC_SEQ_CST) <= 0) return 0;
	__atomic_add_fetch(&faults[FAILED], 1, __ATOMIC_SEQ_CST);
	errno = faults[ERROR];
	return 1;
}

static int64_t total(const struct iovec *parts, int count) {
	int64_t sum = 0;
	for (int i = 0; i < count; i++) sum += parts[i].iov_len;
	return sum;
}

/** Before a write. @param offset -1 for the file's own position */
static int before_write(int file, const struct iovec *parts, int count, int64_t offset, uint64_t *inode, int64_t *from) {
	int files = watched(file, inode);
	if (!files) return 0;
	struct stat st;
	syscall(SYS_fstat, file, &st);
	int flags = fcntl(file, F_GETFL);
	*from = offset >= 0 ? offset : (flags & O_APPEND) ? st.st_size : lseek(file, 0, SEEK_CUR);
	int calls = (flags & O_DSYNC) ? ON_META : ON_WRITE;
	if (*from + total(parts, count) > st.st_size) calls |= ON_GROWTH;
	if (fails(calls, files)) return -1;
	record(WRITE, *inode, *from, total(parts, count), 0, NULL, NULL, parts, count);
	return (flags & O_DSYNC) ? 2 : 1;
}

static void after_write(int how, int file, uint64_t inode, int64_t from, ssize_t written) {
	(void)file;
	if (how == 2 && written > 0) record(RANGE, inode, from, written, 0, NULL, NULL, NULL, 0);
}

#define AROUND(call, parts, count, offset)                                       \
	uint64_t inode = 0;                                                          \
	int64_t from = 0;                                                            \
	int how = before_write(file, parts, count, offset, &inode, &from);           \
	if (how < 0) return -1;                                                      \
	ssize_t written = call;                                                      \
	after_write(how, file, inode, from, written);                                \
	return written;

ssize_t write(int file, const void *bytes, size_t length) {
	struct iovec one = {(void *)bytes, length};
	AROUND(REAL(write)(file, bytes, length), &one, 1, -1)
}
ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) {
	struct iovec one = {(void *)bytes, length};
	AROUND(REAL(pwrite)(file, bytes, length, offset), &one, 1, offset)
}
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
	return pwrite(file, bytes, length, offset);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
	AROUND(REAL(writev)(file, parts, count), parts, count, -1)
}
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
	AROUND(REAL(pwritev)(file, parts, count, offset), parts, count, offset)
}
ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset) {
	return pwritev(file, parts, count, offset);
}

static int sync_by(int (*real)(int), int file) {
	uint64_t inode;
	int files = watched(file, &inode);
	if (!files) return real(file);
	if (fails(ON_SYNC, files)) return -1;
	pthread_mutex_lock(&lock);
	int64_t covered = log_length;
	pthread_mutex_unlock(&lock);
	int result = real(file);
	if (!result) record(SYNC, inode, 0, 0, covered, NULL, NULL, NULL, 0);
	return result;
}
int fsync(int file) { return sync_by(REAL(fsync), file); }
int fdatasync(int file) { return sync_by(REAL(fdatasync), file); }

int ftruncate(int file, off_t length) {
	uint64_t inode;
	int files = watched(file, &inode);
	if (files && fails(ON_WRITE, files)) return -1;
	if (files) record(TRUNCATE, inode, 0, length, 0, NULL, NULL, NULL, 0);
	return REAL(ftruncate)(file, length);
}
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
	struct stat st;
	if (!is_inside(path)) return real(path, flags, mode);
	int was_there = !syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0);
	if (!was_there && (flags & O_CREAT) && fails(ON_NAMES, files_of(path))) return -1;
	int file = real(path, flags, mode);
	if (file < 0) return file;
	uint64_t inode = inode_of(file);
	know(inode, files_of(path));
	if (!was_there) record(CREATE, inode, 0, 0, 0, path, NULL, NULL, 0);
	else if (flags & O_TRUNC) record(TRUNCATE, inode, 0, 0, 0, NULL, NULL, NULL, 0);
	return file;
}

#define MODE                                   \
	va_list list;                              \
	va_start(list, flags);                     \
	mode_t mode = va_arg(list, unsigned);      \
	va_end(list);

int open(const char *path, int flags, ...) { MODE return opened(REAL(open), path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(REAL(open64), path, flags, mode); }

int mkdir(const char *path, mode_t mode) {
	if (is_inside(path) && fails(ON_NAMES, OF_OTHERS)) return -1;
	int result = REAL(mkdir)(path, mode);
	struct stat st;
	if (result || !is_inside(path) || syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0)) return result;
	know(st.st_ino, OF_OTHERS);
	record(MKDIR, st.st_ino, 0, 0, 0, path, NULL, NULL, 0);
	return result;
}

int rename(const char *from, const char *to) {
	if (!is_inside(from)) return REAL(rename)(from, to);
	if (fails(ON_NAMES, OF_OTHERS)) return -1;
	int result = REAL(rename)(from, to);
	if (!result) record(RENAME, 0, 0, 0, 0, from, to, NULL, 0);
	return result;
}

static int removed(int result, int kind, const char *path) {
	if (!result && is_inside(path)) record(kind, 0, 0, 0, 0, path, NULL, NULL, 0);
	return result;
}
int unlink(const char *path) { return removed(REAL(unlink)(path), UNLINK, path); }
int rmdir(const char *path) { return removed(REAL(rmdir)(path), RMDIR, path); }
int remove(const char *path) {
	struct stat st;
	int kind = !syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) ? RMDIR : UNLINK;
	return removed(REAL(remove)(path), kind, path);
}
int unlinkat(int dir, const char *name, int flags) {
	char path[8192], link[64];
	ssize_t length = 0;
	if (name[0] != '/') {
		if (dir == AT_FDCWD) length = getcwd(path, 4096) ? (ssize_t)strlen(path) : 0;
		else {
			snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
			length = readlink(link, path, 4096);
		}
		if (length < 0) length = 0;
		path[length++] = '/';
	}
	snprintf(path + length, 4096, "%s", name);
	return removed(REAL(unlinkat)(dir, name, flags), (flags & AT_REMOVEDIR) ? RMDIR : UNLINK, path);
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
	uint64_t inode;
	if (file >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED) && watched(file, &inode))
		record(MAPPED, inode, 0, length, 0, NULL, NULL, NULL, 0);
	return (void *)syscall(SYS_mmap, at, length, protection, flags, file, offset);
}
void *mmap64(void *at, size_t length, int protection, int flags, int file, off64_t offset) {
	return mmap(at, length, protection, flags, file, offset);
}

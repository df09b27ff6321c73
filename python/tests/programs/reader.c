// Reads a file in every way that C offers and says what it found. Argument 1: how; 2: the file;
// 3: another file, which nothing stages.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file;
static size_t size;

static void check(int holds, const char *what) {
    if (!holds) {
        printf("failed: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static uint64_t sum(const unsigned char *bytes, size_t count) {
    uint64_t hash = 1469598103934665603u;
    for (size_t at = 0; at < count; at++) hash = (hash ^ bytes[at]) * 1099511628211u;
    return hash;
}

static void say(const char *how, const void *bytes, size_t count) {
    printf("%s %zu %016llx\n", how, count, (unsigned long long)sum(bytes, count));
    fflush(stdout);
}

static int opened(const char *path) {
    int fd = open(path, O_RDONLY);
    check(fd >= 0, "open");
    return fd;
}

static unsigned char *whole(void) {
    unsigned char *bytes = malloc(size + 1);
    int fd = opened(file);
    size_t done = 0;
    for (ssize_t got; (got = read(fd, bytes + done, size + 1 - done)) > 0;) done += got;
    check(done == size, "as many bytes as fstat says");
    close(fd);
    return bytes;
}

static void *volatile nowhere = (void *)8;

// Reads, offsets and ends of file.
static void calls(void) {
    unsigned char *bytes = calloc(size + 1, 1);
    int fd = opened(file);
    say("read", bytes, read(fd, bytes, 1000));
    check(lseek(fd, 0, SEEK_CUR) == 1000, "the offset moved as far as was read");
    check(lseek(fd, -500, SEEK_END) == (off_t)size - 500, "lseek");
    check(read(fd, bytes, size) == 500, "a read ends where the file does");
    check(read(fd, bytes, 1) == 0, "nothing is behind it");
    check(lseek(fd, 0, SEEK_CUR) == (off_t)size, "the offset is at the end");
    check(pread(fd, bytes, 10, size + 5) == 0, "nor farther on");
    check(pread(fd, bytes, 10, -1) == -1 && errno == EINVAL, "an offset below 0");
    check(read(fd, bytes, 0) == 0, "nothing is asked for");
    check(pread(fd, bytes, size, 0) == (ssize_t)size, "pread");
    say("pread", bytes, size);
    struct iovec parts[3] = {{bytes, 10}, {bytes + 10, 0}, {bytes + 10, size}};
    check(lseek(fd, 7, SEEK_SET) == 7, "lseek");
    say("readv", bytes, readv(fd, parts, 3));
    say("preadv", bytes, preadv(fd, parts, 3, 100));
    say("preadv2", bytes, preadv2(fd, parts, 3, 100, 0));
    check(lseek(fd, 7, SEEK_SET) == 7, "lseek");
    say("preadv2 at the offset", bytes, preadv2(fd, parts, 2, -1, 0));
    int copy = dup(fd);
    check(lseek(fd, 3, SEEK_SET) == 3, "lseek");
    say("dup", bytes, read(copy, bytes, 100));
    check(lseek(fd, 0, SEEK_CUR) == 103, "a copy shares the offset");
    close(copy);
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    check(copy >= 100, "fcntl");
    say("F_DUPFD", bytes, pread(copy, bytes, size, 0));
    check(dup2(fd, 200) == 200 && dup3(fd, 201, O_CLOEXEC) == 201, "dup2 and dup3");
    close(fd);
    say("dup2", bytes, pread(200, bytes, size, 1));
    say("dup3", bytes, pread(201, bytes, size, 2));
    errno = EXDEV;
    check(pread(200, bytes, size, 1) > 0 && errno == EXDEV, "errno is left alone");
    check(pread(200, nowhere, 10, 0) == -1 && errno == EFAULT, "memory that is not there");
}

// What the kernel is given: mappings and copies.
static void kernel(void) {
    long page = sysconf(_SC_PAGESIZE);
    int fd = opened(file);
    unsigned char *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    check(map != MAP_FAILED, "mmap");
    unsigned char *part = mmap(NULL, size - page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, page);
    check(part != MAP_FAILED, "mmap");
    close(fd);
    // A mapping outlives its descriptor, and all others.
    close_range(3, ~0u, 0);
    say("mmap", map, size);
    say("mmap of a part", part, size - page);
    part[0]++;
    check(map[page] + 1 == part[0] || part[0] == 0, "a private mapping is its own");
    for (size_t at = size; at % page; at++) check(map[at] == 0, "zeros behind the end");
    fd = opened(file);
    check(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED, "no writing");
    int out = memfd_create("out", 0);
    off_t at = 11;
    size_t left = size - 11;
    while (left > 0) {
        ssize_t done = sendfile(out, fd, &at, left);
        check(done > 0, "sendfile");
        left -= done;
    }
    check(at == (off_t)size && lseek(fd, 0, SEEK_CUR) == 0, "its offset moved, and no other");
    check(lseek(fd, 5, SEEK_SET) == 5, "lseek");
    for (ssize_t done; (done = sendfile(out, fd, NULL, size)) != 0;) check(done > 0, "sendfile");
    unsigned char *bytes = malloc(2 * size);
    say("sendfile", bytes, pread(out, bytes, 2 * size, 0));
    // On the same file system as `file`, or the kernel will not do it.
    FILE *scratch = tmpfile();
    check(scratch != NULL, "tmpfile");
    check(lseek(fd, 2, SEEK_SET) == 2, "lseek");
    for (ssize_t done; (done = copy_file_range(fd, NULL, fileno(scratch), NULL, size, 0)) != 0;) {
        if (done < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP)) break;
        check(done > 0, "copy_file_range");
    }
    check(lseek(fd, 0, SEEK_CUR) == (off_t)size || lseek(fd, 0, SEEK_CUR) == 2, "all or nothing");
}

// Streams of stdio.
static void streams(void) {
    char *bytes = malloc(size + 1);
    FILE *stream = fopen(file, "rb");
    check(stream != NULL, "fopen");
    struct stat found;
    check(fstat(fileno(stream), &found) == 0 && (size_t)found.st_size == size, "fileno");
    say("fread", bytes, fread(bytes, 1, size + 1, stream));
    check(feof(stream) && !ferror(stream), "it is at its end");
    check(fseek(stream, 77, SEEK_SET) == 0 && ftell(stream) == 77, "fseek");
    say("getc", &(char){getc(stream)}, 1);
    check(ungetc('x', stream) == 'x' && getc(stream) == 'x', "ungetc");
    check(fseeko(stream, -10, SEEK_END) == 0, "fseeko");
    say("end", bytes, fread(bytes, 1, 100, stream));
    rewind(stream);
    char *line = NULL;
    size_t room = 0;
    ssize_t length = getdelim(&line, &room, 'e', stream);
    say("getdelim", line, length);
    stream = freopen("/dev/null", "r", stream);
    check(stream != NULL && getc(stream) == EOF && fileno(stream) >= 0, "freopen");
    check(fseek(stream, 0, SEEK_SET) == 0 && getc(stream) == EOF, "nothing is left in its buffer");
    stream = freopen(file, "r", stream);
    check(stream != NULL && fread(bytes, 1, 5000, stream) == 5000, "freopen of what is staged");
    say("freopen", bytes, 5000);
    char scratch[] = "/tmp/forebay-reader-XXXXXX";
    close(mkstemp(scratch));
    stream = freopen(scratch, "w", stream);
    check(stream != NULL && ftell(stream) == 0, "freopen to write");
    check(fputs("written", stream) >= 0 && getc(stream) == EOF && ftell(stream) == 7, "writes");
    stream = freopen(scratch, "a+", stream);
    check(stream != NULL && fputs(" and more", stream) >= 0, "freopen to append");
    check(fseek(stream, 2, SEEK_SET) == 0, "fseek");
    say("freopened", bytes, fread(bytes, 1, 100, stream));
    stream = freopen(NULL, "r", stream);
    check(stream != NULL, "freopen in another mode");
    say("another mode", bytes, fread(bytes, 1, 100, stream));
    check(fputc('x', stream) == EOF && errno == EBADF, "it cannot be written any more");
    unlink(scratch);
    fclose(stream);
    stream = fdopen(dup(opened(file)), "r");
    check(stream != NULL, "fdopen");
    say("fdopen", bytes, fread(bytes, 1, size, stream));
    check(fclose(stream) == 0, "fclose");
    check(fopen("/nonexistent/file", "r") == NULL && errno == ENOENT, "a file that is not there");
}

static void *at_random(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    unsigned char *bytes = malloc(size), *wanted = whole();
    int fd = opened(file);
    for (int round = 0; round < 50; round++) {
        size_t from = rand_r(&seed) % size, count = rand_r(&seed) % (size - from) + 1;
        check(pread(fd, bytes, count, from) == (ssize_t)count, "pread");
        check(memcmp(bytes, wanted + from, count) == 0, "the same bytes in every thread");
    }
    close(fd);
    return NULL;
}

static int shared;
static uint64_t seen[4];

// Who shares an offset gets each byte once.
static void *in_turn(void *argument) {
    unsigned char bytes[777];
    for (ssize_t got; (got = read(shared, bytes, sizeof bytes)) > 0;)
        for (ssize_t at = 0; at < got; at++) seen[(uintptr_t)argument] += bytes[at];
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    for (uintptr_t n = 0; n < 4; n++) pthread_create(&all[n], NULL, at_random, (void *)(n + 1));
    for (int n = 0; n < 4; n++) pthread_join(all[n], NULL);
    shared = opened(file);
    for (uintptr_t n = 0; n < 4; n++) pthread_create(&all[n], NULL, in_turn, (void *)n);
    for (int n = 0; n < 4; n++) pthread_join(all[n], NULL);
    check(lseek(shared, 0, SEEK_CUR) == (off_t)size, "all of it was read");
    printf("threads %llu\n", (unsigned long long)(seen[0] + seen[1] + seen[2] + seen[3]));
    say("whole", whole(), size);
}

static void forks(const char *self) {
    unsigned char *bytes = malloc(size);
    int fd = opened(file);
    check(read(fd, bytes, 100) == 100, "read");
    fflush(stdout);
    for (int child = 0; child < 4; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            say("child", bytes, pread(fd, bytes, size, child));
            say("child anew", whole(), size);
            exit(0);
        }
        int status;
        check(waitpid(pid, &status, 0) == pid && status == 0, "the child ended well");
    }
    pid_t pid = vfork();
    if (pid == 0) {
        close(fd);
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    check(waitpid(pid, NULL, 0) == pid, "waitpid");
    say("parent", bytes, pread(fd, bytes, size, 0));
    // A program that is given the descriptor, with its offset.
    check(dup2(fd, 0) == 0, "dup2");
    execl(self, self, "stdin", file, (char *)NULL);
    check(0, "exec");
}

// Numbers that became those of other files, behind the library's back.
static void numbers(const char *other) {
    unsigned char bytes[64], wanted[64];
    FILE *stream = fopen(other, "r");
    size_t count = fread(wanted, 1, sizeof wanted, stream);
    fclose(stream);
    for (int how = 0; how < 4; how++) {
        int fd = opened(file);
        check(read(fd, bytes, 1) == 1, "read");
        if (how == 0) {
            syscall(SYS_close, fd);
            check(syscall(SYS_openat, AT_FDCWD, other, O_RDONLY) == fd, "the same number");
        } else if (how == 1) {
            int foreign = syscall(SYS_openat, AT_FDCWD, other, O_RDONLY);
            check(syscall(SYS_dup3, foreign, fd, 0) == fd, "dup3");
            close(foreign);
        } else if (how == 2) {
            close(fd);
            check(open(other, O_RDONLY) == fd, "the same number");
        } else {
            // Those of the library itself too.
            close_range(3, ~0u, 0);
            while (fd != (int)syscall(SYS_openat, AT_FDCWD, other, O_RDONLY)) continue;
            for (int more = 0; more < 20; more++) syscall(SYS_openat, AT_FDCWD, other, O_RDONLY);
        }
        check(pread(fd, bytes, sizeof bytes, 0) == (ssize_t)count, "pread");
        check(memcmp(bytes, wanted, count) == 0, "a number is of the file that the kernel says");
        say("staged", whole(), size);
    }
}

static unsigned char *expected;
static int interrupted;
static volatile sig_atomic_t wrong, handled;

static void handler(int number) {
    unsigned char bytes[4096];
    size_t at = (size_t)handled * 4096 % (size - 4096);
    if (pread(interrupted, bytes, 4096, at) != 4096 || memcmp(bytes, expected + at, 4096)) wrong = 1;
    handled++;
    (void)number;
}

static void signals(void) {
    expected = whole();
    interrupted = opened(file);
    signal(SIGALRM, handler);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, NULL);
    unsigned char *bytes = malloc(size);
    while (handled < 200) {
        free(malloc(1 + handled * 100));
        check(pread(interrupted, bytes, size, 0) == (ssize_t)size, "pread");
        check(memcmp(bytes, expected, size) == 0, "the bytes");
    }
    check(!wrong, "the bytes in the handler");
    say("signals", expected, size);
}

static void *asleep(void *argument) {
    pause();
    return argument;
}

static void reads_cold(int number) {
    unsigned char bytes[512];
    // Elsewhere each time: most of it is asked of the daemon.
    size_t at = (size_t)handled * 65537 % (size - sizeof bytes);
    if (pread(interrupted, bytes, sizeof bytes, at) != (ssize_t)sizeof bytes ||
        memcmp(bytes, expected + at, sizeof bytes))
        wrong = 1;
    handled++;
    (void)number;
}

// Handlers that interrupt malloc, with its lock held, and read what is not there yet. Argument 3 is
// the same file by a name that nothing stages.
static void allocations(const char *other) {
    expected = malloc(size);
    int fd = opened(other);
    check(read(fd, expected, size) == (ssize_t)size, "read");
    interrupted = opened(file);
    // A program of one thread takes no locks.
    pthread_t second;
    pthread_create(&second, NULL, asleep, NULL);
    signal(SIGALRM, reads_cold);
    struct itimerval every = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &every, NULL);
    void *held[64] = {0};
    for (size_t round = 0; handled < 400; round++) {
        // Of sizes that threads keep no store of.
        free(held[round % 64]);
        held[round % 64] = malloc(2000 + round * 977 % 60000);
    }
    check(!wrong, "the bytes in the handler");
    printf("allocations\n");
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    file = arguments[2];
    struct stat found;
    check(stat(file, &found) == 0, "stat");
    size = found.st_size;
    const char *how = arguments[1];
    if (!strcmp(how, "calls")) calls();
    else if (!strcmp(how, "kernel")) kernel();
    else if (!strcmp(how, "streams")) streams();
    else if (!strcmp(how, "threads")) threads();
    else if (!strcmp(how, "forks")) forks(arguments[0]);
    else if (!strcmp(how, "numbers")) numbers(arguments[3]);
    else if (!strcmp(how, "signals")) signals();
    else if (!strcmp(how, "allocations")) allocations(arguments[3]);
    else if (!strcmp(how, "stdin")) {
        unsigned char *bytes = malloc(size);
        say("stdin", bytes, read(0, bytes, size));
    } else return 2;
    return 0;
}

/* The system calls of the suite's metadata benchmarks in a loop, and nothing else.
 *
 * loop create|list|delete FOLDER FILES BYTES
 * prints the nanoseconds of the loop, twice: of a first round, and of a second that counts.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* More than the processor's caches hold. */
#define POOL_BYTES ((size_t)64 << 20)

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Bytes that files are written from, as in the suite: each has some of its own. */
struct pool {
    char *bytes;
    size_t size;
};

static void make(int folder, char (*names)[32], int files, struct pool pool, size_t size) {
    size_t at = 0;
    for (int n = 0; n < files; n++, at = (at + size) % pool.size) {
        int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
        int file = openat(folder, names[n], flags, 0644);
        must(file >= 0, "open");
        must(write(file, pool.bytes + at, size) == (ssize_t)size, "write");
        must(close(file) == 0, "close");
    }
}

static void clear(int folder, char (*names)[32], int files) {
    for (int n = 0; n < files; n++)
        must(unlinkat(folder, names[n], 0) == 0, "unlink");
}

static void list(int folder, char *found, int files, size_t size) {
    int opened = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(opened >= 0, "open folder");
    DIR *entries = fdopendir(opened);
    must(entries != NULL, "list");
    char *end = found;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        end = stpcpy(end, entry->d_name) + 1;
        count++;
    }
    closedir(entries);
    must(count == files, "count");
    for (char *name = found; name < end; name += strlen(name) + 1) {
        struct stat stat;
        must(fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0, "stat");
        must((size_t)stat.st_size == size, "size");
    }
}

int main(int count, char **words) {
    must(count == 5, "usage");
    int files = atoi(words[3]);
    size_t size = atol(words[4]);
    int folder = open(words[2], O_RDONLY | O_DIRECTORY);
    must(folder >= 0, "open folder");
    char(*names)[32] = calloc(files, sizeof *names);
    char *found = malloc((size_t)files * 32);
    struct pool pool = {.size = POOL_BYTES / size * size};
    pool.bytes = malloc(pool.size);
    for (int n = 0; n < files; n++)
        snprintf(names[n], sizeof *names, "file_%d.dat", n);
    for (size_t at = 0; at < pool.size; at++)
        pool.bytes[at] = at * 2654435761u >> 24;
    for (int round = 0; round < 2; round++) {
        if (words[1][0] != 'c')
            make(folder, names, files, pool, size);
        long long began = now();
        if (words[1][0] == 'c')
            make(folder, names, files, pool, size);
        else if (words[1][0] == 'l')
            list(folder, found, files, size);
        else
            clear(folder, names, files);
        printf("%lld\n", now() - began);
        if (words[1][0] != 'd')
            clear(folder, names, files);
    }
    return 0;
}

// Times calls of this process: on each line of its input it makes a round of them and says how many
// nanoseconds one took.
//   pread FILE LENGTH COUNT SEED     reads of LENGTH bytes at random places
//   foreign FILE COUNT               a read and a seek of a file that nothing stages, each on its own
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static uint64_t drawn(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

int main(int arguments, char **words) {
    if (arguments < 4) return 2;
    int is_read = !strcmp(words[1], "pread");
    int file = open(words[2], O_RDONLY);
    struct stat found;
    if (file < 0 || fstat(file, &found)) return 1;
    size_t length = is_read ? strtoul(words[3], NULL, 10) : 1;
    long count = strtol(words[is_read ? 4 : 3], NULL, 10);
    uint64_t state = is_read ? strtoul(words[5], NULL, 10) : 1;
    char *bytes = malloc(length), line[16];
    memset(bytes, 1, length);
    while (fgets(line, sizeof line, stdin)) {
        long long began = now();
        for (long n = 0; n < count; n++) {
            off_t at = is_read ? drawn(&state) % (found.st_size - length + 1) : 0;
            if (pread(file, bytes, length, at) != (ssize_t)length) return 1;
        }
        printf("%.1f\n", (double)(now() - began) / count);
        fflush(stdout);
    }
    return 0;
}

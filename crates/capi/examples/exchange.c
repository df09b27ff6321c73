/* Publishes a file, waits for it as a consumer would, and compares. Usage: exchange CACHE FILE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forebay.h"

static void check(int status, const char *act)
{
    if (status != FOREBAY_OK) {
        fprintf(stderr, "cannot %s (%s): %s\n", act, forebay_status_name(status), forebay_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    forebay_file *file = NULL;
    struct forebay_stat stat;
    char *bytes;
    size_t read = 0;
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: %s CACHE FILE\n", argv[0]);
        return 2;
    }
    /* Nobody has published it yet. */
    status = forebay_consume("example", argv[1], 0.2, &file);
    if (status != FOREBAY_DEADLINE) {
        fprintf(stderr, "found before it was published (%s)\n", forebay_status_name(status));
        return 1;
    }
    check(forebay_publish("example", argv[2], argv[1], 10.0), "publish");
    check(forebay_consume("example", argv[1], 10.0, &file), "consume");
    check(forebay_file_stat(file, &stat), "stat");

    bytes = malloc(stat.size + 1);
    if (bytes == NULL) {
        return 1;
    }
    check(forebay_read_at(file, 0, bytes, stat.size, &read), "read");
    printf("%s: %zu bytes: %.*s\n", stat.name, read, (int)read, bytes);
    /* Past the end there is nothing. */
    check(forebay_read_at(file, stat.size, bytes, 1, &read), "read past the end");
    if (read != 0) {
        return 1;
    }
    free(bytes);
    forebay_file_close(file);
    check(forebay_unpublish("example", argv[1], 10.0), "unpublish");
    return 0;
}

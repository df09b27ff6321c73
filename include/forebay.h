/* Forebay in C and C++: samples of a data set, staged on node-local storage, and files that are
 * published by name between the nodes of a job. docs/C_API.md shows how it is used.
 *
 * - Functions that return int return FOREBAY_OK, or the status of what went wrong; forebay_error()
 *   then has the words for it.
 * - Text is UTF-8 and ends with a zero byte. Where it is returned it belongs to the handle, or to
 *   the library, and must not be freed or changed.
 * - A handle may be used by several threads at once, and in children of fork(). It is closed once,
 *   when nobody uses it any more.
 * - `cache` is the cache folder of the node's daemon; NULL for $FOREBAY_CACHE, else
 *   $XDG_CACHE_HOME/forebay, else ~/.cache/forebay. A daemon is started where there is none, by
 *   the command that $FOREBAY_COMMAND names, else `forebay` on the PATH.
 * - `timeout_s` is the longest wait, in seconds.
 */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the caller can do about what went wrong. */
enum forebay_status {
    FOREBAY_OK = 0,
    FOREBAY_INVALID_INPUT = 1, /* The request is wrong and will stay wrong. */
    FOREBAY_NOT_FOUND = 2,     /* The named thing does not exist. */
    FOREBAY_STALE = 3,         /* A file is not what it was when it was indexed or published. */
    FOREBAY_UNAVAILABLE = 4,   /* Storage, a daemon or a node did not answer: try again. */
    FOREBAY_CORRUPT = 5,       /* Stored bytes contradict their checksum or format. */
    FOREBAY_NO_SPACE = 6,      /* There is no room. */
    FOREBAY_DEADLINE = 7,      /* The timeout passed first. */
    FOREBAY_UNSUPPORTED = 8    /* A format or feature that is not supported. */
};

/* An open data set. */
typedef struct forebay_dataset forebay_dataset;

/* An open published file. */
typedef struct forebay_file forebay_file;

enum { FOREBAY_MAX_DIMS = 32 };

/* Where a field lies in the buffer of its sample, and its shape. */
struct forebay_place {
    uint64_t offset; /* First byte; a multiple of 64. */
    uint64_t bytes;
    uint64_t dims;
    uint64_t shape[FOREBAY_MAX_DIMS]; /* The first `dims` of them. */
};

/* A published file. */
struct forebay_stat {
    const char *name;
    const char *node;    /* The member of the job that has it; empty for a node alone. */
    uint64_t generation; /* Later versions of a name have greater ones. */
    uint64_t size;       /* In bytes. */
};

/* The words for what went wrong last in a call of this thread; empty if nothing did. They stay as
 * they are until the next call of this thread that fails. */
const char *forebay_error(void);

/* A status as text, such as "not-found". Never NULL. */
const char *forebay_status_name(int code);

/* Has waits ask `interrupted` when a signal comes; they end with FOREBAY_UNAVAILABLE where it
 * returns anything but 0. NULL to go on waiting, as without this call. */
void forebay_on_signal(int (*interrupted)(void));

/* Opens a data set by its index file. `root` is the folder or URL of the origin files, NULL for the
 * one that the index records. A daemon that cannot be reached is no error, and forebay_warning()
 * says why: samples are then read from the origin. */
int forebay_open(const char *index, const char *root, const char *cache, double timeout_s,
                 forebay_dataset **out);

/* Closes it. NULL is left alone. */
void forebay_close(forebay_dataset *dataset);

/* Why the daemon could not be reached when the data set was opened; NULL if it could. */
const char *forebay_warning(const forebay_dataset *dataset);

/* Number of samples. */
uint64_t forebay_samples(const forebay_dataset *dataset);

/* Number of fields that each sample has. */
size_t forebay_fields(const forebay_dataset *dataset);

/* Name of a field; NULL if there is no such field. */
const char *forebay_field_name(const forebay_dataset *dataset, size_t field);

/* Type of a field's elements as numpy writes it, such as "<f4"; NULL if there is no such field. */
const char *forebay_field_dtype(const forebay_dataset *dataset, size_t field);

/* Bytes that a sample takes in a buffer: its fields, each aligned. */
int forebay_sample_bytes(const forebay_dataset *dataset, uint64_t sample, uint64_t *bytes);

/* Where a field of a sample lies in that buffer. */
int forebay_field_place(const forebay_dataset *dataset, uint64_t sample, size_t field,
                        struct forebay_place *out);

/* Reads a sample into a buffer of at least forebay_sample_bytes(). */
int forebay_read(const forebay_dataset *dataset, uint64_t sample, void *out, size_t len);

/* Has the daemon make `count` samples resident. `complete`, which may be NULL, is set to 0 if it has
 * no room for all of them or cannot be reached, and else to 1. */
int forebay_stage(const forebay_dataset *dataset, const uint64_t *samples, size_t count,
                  int *complete);

/* Publishes a complete file by a name, in place of what had the name before. The file stays where it
 * is and must be left as it is: close it before. */
int forebay_publish(const char *name, const char *path, const char *cache, double timeout_s);

/* Lets nobody find a name any more, whichever node published it. The file is left where it is. */
int forebay_unpublish(const char *name, const char *cache, double timeout_s);

/* Opens the file of a name, waiting until some node has published it. Reads of it wait as long,
   and 10 s at least. */
int forebay_consume(const char *name, const char *cache, double timeout_s, forebay_file **out);

/* Name, node, generation and size. The texts live as long as the handle. */
int forebay_file_stat(const forebay_file *file, struct forebay_stat *out);

/* Reads at most `len` bytes from byte `start` on. `read` is set to how many those were: fewer than
 * `len` at the end of the file alone, and none from there on. */
int forebay_read_at(const forebay_file *file, uint64_t start, void *out, size_t len, size_t *read);

/* Closes it. NULL is left alone. */
void forebay_file_close(forebay_file *file);

#ifdef __cplusplus
}
#endif

#endif

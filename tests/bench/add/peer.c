/* What ./add competes with: plain C that reads both inputs, adds, and writes, all in two threads, then makes the file durable and puts it in place.
 *
 *   peer A.bin B.bin C.bin [CHUNK]     raw f32 of equal size; each thread goes through its half CHUNK elements at a time, or all at once without it
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 2 };

typedef struct Part {
    int a_fd, b_fd, c_fd;
    size_t first, count, chunk; /* elements */
} Part;

static _Noreturn void fail(const char *what) {
    perror(what);
    exit(1);
}

static void read_all(int fd, void *to, size_t size, off_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, (char *)to + done, size - done, offset + (off_t)done);
        if (n <= 0)
            fail("pread");
        done += (size_t)n;
    }
}

static void write_all(int fd, const void *from, size_t size, off_t offset) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, (const char *)from + done, size - done, offset + (off_t)done);
        if (n <= 0)
            fail("pwrite");
        done += (size_t)n;
    }
}

static void *add_part(void *argument) {
    const Part *part = argument;
    size_t chunk = part->chunk < part->count ? part->chunk : part->count;
    float *a = malloc(chunk * sizeof *a), *b = malloc(chunk * sizeof *b);
    if (!a || !b)
        fail("malloc");
    for (size_t done = 0; done < part->count; done += chunk) {
        size_t count = chunk < part->count - done ? chunk : part->count - done;
        size_t size = count * sizeof(float);
        off_t offset = (off_t)((part->first + done) * sizeof(float));
        read_all(part->a_fd, a, size, offset);
        read_all(part->b_fd, b, size, offset);
        for (size_t i = 0; i < count; i++)
            a[i] += b[i];
        write_all(part->c_fd, a, size, offset);
    }
    free(a);
    free(b);
    return NULL;
}

int main(int argc, char **argv) {
    size_t chunk = argc == 5 ? strtoul(argv[4], NULL, 10) : SIZE_MAX;
    if (argc < 4 || argc > 5 || chunk == 0) {
        fprintf(stderr, "usage: %s A.bin B.bin C.bin [CHUNK]\n", argv[0]);
        return 2;
    }
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.tmp", argv[3]);
    int a_fd = open(argv[1], O_RDONLY), b_fd = open(argv[2], O_RDONLY), c_fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    struct stat info;
    if (a_fd < 0 || b_fd < 0 || c_fd < 0 || fstat(a_fd, &info) != 0)
        fail("open");
    size_t count = (size_t)info.st_size / sizeof(float);

    pthread_t threads[THREADS];
    Part parts[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        size_t first = count * i / THREADS;
        parts[i] = (Part){a_fd, b_fd, c_fd, first, count * (i + 1) / THREADS - first, chunk};
        if (pthread_create(&threads[i], NULL, add_part, &parts[i]) != 0)
            fail("pthread_create");
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (fdatasync(c_fd) != 0 || close(c_fd) != 0 || rename(temporary, argv[3]) != 0)
        fail(argv[3]);
    return 0;
}

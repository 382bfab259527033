/* Any bytes as a job file: a job or errors with positions, nothing written. */
#define _GNU_SOURCE
#include "tests/unit/job_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fixture_enter();
        atexit(fixture_leave);
        fd = memfd_create("job", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    ErrorList errors = {0};
    Job *job = job_load(&fixture_program, path, &errors);
    if ((job == NULL) != (errors.count > 0))
        abort();
    for (int i = 0; i < errors.count; i++)
        if (strchr(errors.lines[i], '\n') != NULL)
            abort();
    job_free(job);
    errors_free(&errors);
    return 0;
}

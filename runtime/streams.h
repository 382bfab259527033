/* What a process begins with: a file that it opens must not become the standard output, or what is said go into it. */
#ifndef PHOBOS_STREAMS_H
#define PHOBOS_STREAMS_H

#include <fcntl.h>

/* Where the input, the output or that of messages is closed, something stands there that cannot be read, or written, either. */
static inline void streams_open(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            return; /* without it, as before */
}

#endif

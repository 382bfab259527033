#define _GNU_SOURCE /* SCM_CREDENTIALS */
#include "runtime/pod/neighbour.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- names ---- */

/* Everybody sees the names of sockets: this one does not tell the job's id, which whoever asks has to know. */
static socklen_t address_of(const NeighbourName *name, struct sockaddr_un *address) {
    XXH128_hash_t hash = XXH3_128bits(name, sizeof *name);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "phobos-%016llx%016llx", (unsigned long long)hash.high64,
        (unsigned long long)hash.low64);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* ---- messages: a few bytes with one descriptor; the kernel says who sends ---- */

typedef union Ancillary {
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr align;
} Ancillary;

static bool tell_senders(int fd) {
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) == 0;
}

static bool put(int fd, const struct sockaddr_un *to, socklen_t to_size, const void *bytes, size_t size, int given) {
    Ancillary ancillary = {{0}};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_name = (void *)to,
        .msg_namelen = to_size,
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = ancillary.bytes,
        .msg_controllen = CMSG_SPACE(sizeof given)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof given)};
    memcpy(CMSG_DATA(header), &given, sizeof given);
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

/* The one descriptor of a message; of several, none. */
static int take_descriptor(const struct cmsghdr *header) {
    int given = -1;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof given;
    for (size_t i = 0; i < count; i++) {
        memcpy(&given, CMSG_DATA(header) + i * sizeof given, sizeof given);
        if (count > 1)
            close(given);
    }
    return count == 1 ? given : -1;
}

/* What has come: its bytes, at most `size` of them, and its descriptor, -1 where there is none, its sender is another user, or there are fewer bytes.
 * -1: nothing has come, 0: nothing will. */
static ssize_t take(int fd, void *bytes, size_t size, int *given) {
    Ancillary ancillary;
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary.bytes, .msg_controllen = sizeof ancillary.bytes};
    struct ucred sender = {.uid = (uid_t)-1};
    *given = -1;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    for (struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL; header != NULL; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS)
            memcpy(&sender, CMSG_DATA(header), sizeof sender);
        else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            *given = take_descriptor(header);
    }
    if (*given >= 0 && (sender.uid != geteuid() || got < (ssize_t)size)) {
        close(*given);
        *given = -1;
    }
    return got;
}

/* ---- who has the memory ---- */

int neighbour_listen(const NeighbourName *name) {
    struct sockaddr_un address;
    socklen_t size = address_of(name, &address);
    int listener = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 && tell_senders(listener) && bind(listener, (struct sockaddr *)&address, size) == 0)
        return listener;
    if (listener >= 0)
        close(listener);
    return -1;
}

/* A question is the job's id and the end of a pair that the answer goes to. */
void neighbour_answer(int listener, const NeighbourName *name, int memory) {
    enum { AT_ONCE = 64 }; /* others wait for the pod as well */
    uint8_t job_id[sizeof name->job_id];
    int back;
    for (int i = 0; i < AT_ONCE && take(listener, job_id, sizeof job_id, &back) >= 0; i++) {
        if (back < 0)
            continue;
        if (memcmp(job_id, name->job_id, sizeof job_id) == 0)
            put(back, NULL, 0, "", 1, memory);
        close(back);
    }
}

/* ---- who wants it ---- */

int neighbour_ask(const NeighbourName *name) {
    struct sockaddr_un address;
    socklen_t size = address_of(name, &address);
    int pair[2], from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (from < 0)
        return -1;
    bool asked = false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
        asked = tell_senders(pair[0]) && put(from, &address, size, name->job_id, sizeof name->job_id, pair[1]);
        close(pair[1]);
        if (!asked)
            close(pair[0]);
    }
    close(from);
    return asked ? pair[0] : -1;
}

NeighbourAnswer neighbour_take(int asked, int *memory) {
    char byte;
    ssize_t got = take(asked, &byte, 1, memory);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return NEIGHBOUR_WAITS;
    return *memory >= 0 ? NEIGHBOUR_GIVES : NEIGHBOUR_REFUSES;
}

/* Memory from pod to pod of one host: who gets it, who does not, and that nobody waits. */
#define _GNU_SOURCE
#include "runtime/pod/neighbour.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGER = 65534 }; /* a user */

static NeighbourName name;

static void setup(void) {
    name = (NeighbourName){.job_id = "neighbours", .plan_epoch = (uint32_t)getpid(), .node = 3};
}

static int make_memory(const char *text) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

/* What comes within a moment. */
static NeighbourAnswer wait_for(int asked, int *memory) {
    ck_assert_int_eq(poll(&(struct pollfd){.fd = asked, .events = POLLIN}, 1, 5000), 1);
    NeighbourAnswer answer = neighbour_take(asked, memory);
    close(asked);
    return answer;
}

static int open_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

START_TEST(memory_is_given) {
    int before = open_files(), memory = make_memory("tiles"), got;
    char text[5];
    ck_assert_int_lt(neighbour_ask(&name), 0); /* nobody is there */
    int listener = neighbour_listen(&name);
    ck_assert_int_ge(listener, 0);
    ck_assert_int_lt(neighbour_listen(&name), 0); /* one of a name */
    for (int i = 0; i < 3; i++) {
        int asked = neighbour_ask(&name);
        ck_assert_int_ge(asked, 0);
        ck_assert_int_eq(neighbour_take(asked, &got), NEIGHBOUR_WAITS);
        neighbour_answer(listener, &name, memory);
        ck_assert_int_eq(wait_for(asked, &got), NEIGHBOUR_GIVES);
        ck_assert(pread(got, text, 5, 0) == 5 && memcmp(text, "tiles", 5) == 0);
        ck_assert_int_ne(fcntl(got, F_GETFD) & FD_CLOEXEC, 0);
        close(got);
    }
    close(listener);
    ck_assert_int_lt(neighbour_ask(&name), 0);
    close(memory);
    ck_assert_int_eq(open_files(), before);
}
END_TEST

/* Each part of the name counts; and whoever has found a socket has to know the job. */
START_TEST(names_differ) {
    int listener = neighbour_listen(&name), memory = make_memory("x"), got;
    NeighbourName others[3] = {name, name, name};
    others[0].job_id[15] = 1;
    others[1].plan_epoch++;
    others[2].node++;
    for (int i = 0; i < 3; i++)
        ck_assert_int_lt(neighbour_ask(&others[i]), 0);
    int asked = neighbour_ask(&name);
    neighbour_answer(listener, &others[0], memory);
    ck_assert_int_eq(wait_for(asked, &got), NEIGHBOUR_REFUSES);
    close(listener);
    close(memory);
}
END_TEST

/* Either side may go at any time. */
START_TEST(who_goes_is_not_waited_for) {
    int before = open_files(), listener = neighbour_listen(&name), memory = make_memory("x"), got;
    int asked = neighbour_ask(&name);
    close(listener);
    ck_assert_int_eq(wait_for(asked, &got), NEIGHBOUR_REFUSES);
    listener = neighbour_listen(&name);
    close(neighbour_ask(&name));
    neighbour_answer(listener, &name, memory);
    asked = neighbour_ask(&name);
    neighbour_answer(listener, &name, memory);
    ck_assert_int_eq(wait_for(asked, &got), NEIGHBOUR_GIVES);
    close(got);
    close(listener);
    close(memory);
    ck_assert_int_eq(open_files(), before);
}
END_TEST

START_TEST(a_flood_ends) {
    int before = open_files(), listener = neighbour_listen(&name), memory = make_memory("x"), asked[200], got;
    for (int i = 0; i < 200; i++)
        asked[i] = neighbour_ask(&name); /* what does not fit is asked another time */
    neighbour_answer(listener, &name, memory);
    for (int i = 0; i < 200; i++) {
        if (asked[i] < 0)
            continue;
        ck_assert_int_eq(wait_for(asked[i], &got), NEIGHBOUR_GIVES);
        close(got);
    }
    close(listener);
    close(memory);
    ck_assert_int_eq(open_files(), before);
}
END_TEST

/* Messages that are no questions, nor answers: of what is sent along nothing stays open. */
static void send_along(int to, const struct sockaddr_un *address, socklen_t address_size, const char *bytes, size_t size, int count) {
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } ancillary = {{0}};
    int given[4] = {0, 1, 2, 0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_name = (void *)address,
        .msg_namelen = address_size,
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = ancillary.bytes,
        .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN((size_t)count * sizeof(int))};
    memcpy(CMSG_DATA(header), given, (size_t)count * sizeof(int));
    ck_assert_int_eq(sendmsg(to, &message, 0), (ssize_t)size);
}

START_TEST(nothing_of_strangers_stays) {
    int before = open_files(), listener = neighbour_listen(&name), memory = make_memory("x"), got;
    int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;
    socklen_t size = sizeof address;
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    static const size_t lengths[] = {0, 1, sizeof name.job_id, 100};
    char bytes[100] = {0};
    memcpy(bytes, name.job_id, sizeof name.job_id);
    int held = open_files();
    for (int count = 1; count <= 4; count++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            send_along(from, &address, size, bytes, lengths[i], count);
            neighbour_answer(listener, &name, memory);
            ck_assert_int_eq(open_files(), held);
        }
    for (int count = 1; count <= 4; count++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)), 0);
        send_along(pair[1], NULL, 0, bytes, count > 1, count);
        ck_assert_int_eq(neighbour_take(pair[0], &got), NEIGHBOUR_REFUSES);
        close(pair[0]);
        close(pair[1]);
        ck_assert_int_eq(open_files(), held);
    }
    close(from);
    close(listener);
    close(memory);
    ck_assert_int_eq(open_files(), before);
}
END_TEST

/* Another user gets nothing, and what another user gives is not taken. */
START_TEST(other_users_are_strangers) {
    if (geteuid() != 0) {
        puts("other_users_are_strangers skipped: not root");
        return;
    }
    int memory = make_memory("x"), got, listener = neighbour_listen(&name), tell[2];
    pid_t stranger = fork();
    if (stranger == 0) {
        if (setuid(STRANGER) != 0)
            _exit(2);
        int asked = neighbour_ask(&name);
        bool refused =
            asked < 0 || (poll(&(struct pollfd){.fd = asked, .events = POLLIN}, 1, 5000) == 1 && neighbour_take(asked, &got) == NEIGHBOUR_REFUSES);
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    while (waitpid(stranger, &status, WNOHANG) == 0) {
        poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 10);
        neighbour_answer(listener, &name, memory);
    }
    ck_assert_int_eq(status, 0);
    close(listener);
    ck_assert_int_eq(pipe(tell), 0);
    stranger = fork();
    if (stranger == 0) {
        listener = setuid(STRANGER) == 0 ? neighbour_listen(&name) : -1;
        if (listener < 0 || write(tell[1], "x", 1) != 1)
            _exit(1);
        for (int i = 0; i < 500; i++) {
            poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 10);
            neighbour_answer(listener, &name, memory);
        }
        _exit(0);
    }
    char byte;
    close(tell[1]);
    ck_assert_int_eq(read(tell[0], &byte, 1), 1); /* else it could not become another user, or not listen */
    int asked = neighbour_ask(&name);
    ck_assert_int_eq(wait_for(asked, &got), NEIGHBOUR_REFUSES); /* a stranger does not even look at our question: it is another user's */
    kill(stranger, SIGKILL);
    waitpid(stranger, &status, 0);
    ck_assert_int_lt(neighbour_ask(&name), 0); /* nothing stays behind of who was killed */
    close(tell[0]);
    close(memory);
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("neighbour");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 20);
    tcase_add_test(tests, memory_is_given);
    tcase_add_test(tests, names_differ);
    tcase_add_test(tests, who_goes_is_not_waited_for);
    tcase_add_test(tests, a_flood_ends);
    tcase_add_test(tests, nothing_of_strangers_stays);
    tcase_add_test(tests, other_users_are_strangers);
    Suite *suite = suite_create("neighbour");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

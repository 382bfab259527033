/* A TCP peer that does not speak the protocol:
 *
 *     junk_peer PORT raw | http | zmtp1 | huge | stall | idle COUNT
 *
 * raw: random bytes. http: a GET. zmtp1: a ZMTP/1.0 message, which needs no handshake. huge: a ZMTP/3 greeting and the header of a 2^62-byte frame.
 * stall: a greeting, then never reads. idle: COUNT connections that say nothing. The last two stay for 5 seconds. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("junk_peer: connect");
        exit(1);
    }
    return fd;
}

static void put(int fd, const void *bytes, size_t size) {
    if (send(fd, bytes, size, MSG_NOSIGNAL) < 0)
        perror("junk_peer: send"); /* the other side may well have hung up */
}

/* signature, version 3.0, mechanism NULL, as a client */
static void put_greeting(int fd) {
    unsigned char greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
    put(fd, greeting, sizeof greeting);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: junk_peer PORT raw|http|zmtp1|huge|stall|idle [COUNT]\n");
        return 2;
    }
    int port = atoi(argv[1]);
    const char *what = argv[2];
    if (strcmp(what, "idle") == 0) {
        int count = argc > 3 ? atoi(argv[3]) : 200;
        for (int i = 0; i < count; i++)
            dial(port);
        sleep(5);
        return 0;
    }
    int fd = dial(port);
    if (strcmp(what, "raw") == 0) {
        unsigned char bytes[4096];
        uint32_t state = 12345;
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525 + 1013904223;
            bytes[i] = (unsigned char)(state >> 24);
        }
        put(fd, bytes, sizeof bytes);
    } else if (strcmp(what, "http") == 0) {
        put(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 37);
    } else if (strcmp(what, "zmtp1") == 0) {
        put(fd, "\x01\x00\x06\x00hello", 9); /* an anonymous peer, then one message */
    } else if (strcmp(what, "huge") == 0) {
        put_greeting(fd);
        put(fd,
            "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06"
            "DEALER",
            34);
        put(fd, "\x02\x40\x00\x00\x00\x00\x00\x00\x00", 9);
    } else if (strcmp(what, "stall") == 0) {
        put_greeting(fd);
        sleep(5);
    } else {
        fprintf(stderr, "junk_peer: unknown way '%s'\n", what);
        return 2;
    }
    usleep(200000);
    close(fd);
    return 0;
}

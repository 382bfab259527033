/* A TCP relay between two hosts, or two addresses of one:
 *
 *     relay ADDRESS PORT TO_ADDRESS TO_PORT delay MS | flip BYTE [once]
 *
 * delay: all that is said goes on MS milliseconds later, both ways. flip: in what the other side says, over all connections, every byte whose number
 * is a multiple of BYTE has a bit changed, or only the first such byte. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LINKS = 64, PIECE_BYTES = 1 << 16, MOST_PIECES = 256 };

/* What was read at one time, on its way. */
typedef struct Piece {
    uint64_t due_ms;
    size_t sent, length;
    struct Piece *next;
    uint8_t bytes[PIECE_BYTES];
} Piece;

/* One way of a connection; the other one is the next of the array, or the one before. */
typedef struct Way {
    int from, to; /* -1: there is no connection */
    bool answers; /* from the side that is connected to */
    int pieces;
    Piece *first, **end;
} Way;

static Way ways[2 * MOST_LINKS];
static uint64_t delay_ms, flip_every, heard;
static bool flip_once;

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in address_of(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die(host);
    return address;
}

static void open_way(Way *way, int from, int to, bool answers) {
    *way = (Way){.from = from, .to = to, .answers = answers};
    way->end = &way->first;
}

static void close_link(Way *link) {
    close(link->from);
    close(link->to);
    for (int w = 0; w < 2; w++) {
        link[w].from = link[w].to = -1;
        for (Piece *piece; (piece = link[w].first) != NULL; free(piece))
            link[w].first = piece->next;
    }
}

static void take_connection(int listener, const struct sockaddr_in *target) {
    int near = accept(listener, NULL, NULL), far = socket(AF_INET, SOCK_STREAM, 0);
    for (Way *link = ways; near >= 0 && far >= 0 && link < ways + 2 * MOST_LINKS; link += 2) {
        if (link->from >= 0 || connect(far, (const struct sockaddr *)target, sizeof *target) != 0)
            continue;
        open_way(link, near, far, false);
        open_way(link + 1, far, near, true);
        return;
    }
    close(near);
    close(far);
}

static void flip(Piece *piece) {
    for (size_t i = 0; i < piece->length; i++) {
        if (++heard % flip_every != 0 || (flip_once && heard > flip_every))
            continue;
        piece->bytes[i] ^= 4;
        fprintf(stderr, "flipped a bit of byte %llu\n", (unsigned long long)heard);
    }
}

/* False: that side has closed. */
static bool read_piece(Way *way) {
    Piece *piece = malloc(sizeof *piece);
    if (piece == NULL)
        die("malloc");
    ssize_t got = read(way->from, piece->bytes, sizeof piece->bytes);
    if (got <= 0) {
        free(piece);
        return false;
    }
    piece->due_ms = now_ms() + delay_ms;
    piece->sent = 0;
    piece->length = (size_t)got;
    piece->next = NULL;
    if (way->answers && flip_every > 0)
        flip(piece);
    *way->end = piece;
    way->end = &piece->next;
    way->pieces++;
    return true;
}

static bool write_piece(Way *way) {
    Piece *piece = way->first;
    ssize_t sent = send(way->to, piece->bytes + piece->sent, piece->length - piece->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return false;
    piece->sent += (size_t)sent;
    if (piece->sent < piece->length)
        return true;
    way->first = piece->next;
    way->end = way->first != NULL ? way->end : &way->first;
    way->pieces--;
    free(piece);
    return true;
}

/* Until something is to be done: reads that may be, writes that are due. */
static void turn(int listener, const struct sockaddr_in *target) {
    struct pollfd polled[1 + 4 * MOST_LINKS] = {{.fd = listener, .events = POLLIN}};
    uint64_t now = now_ms();
    int wait_ms = 1000;
    for (int w = 0; w < 2 * MOST_LINKS; w++) {
        const Way *way = &ways[w];
        bool due = way->first != NULL && way->first->due_ms <= now;
        polled[1 + 2 * w] = (struct pollfd){.fd = way->pieces < MOST_PIECES ? way->from : -1, .events = POLLIN};
        polled[2 + 2 * w] = (struct pollfd){.fd = due ? way->to : -1, .events = POLLOUT};
        if (way->first != NULL && !due && way->first->due_ms - now < (uint64_t)wait_ms)
            wait_ms = (int)(way->first->due_ms - now);
    }
    if (poll(polled, 1 + 4 * MOST_LINKS, wait_ms) < 0)
        die("poll");
    for (int w = 0; w < 2 * MOST_LINKS; w++) {
        bool fine =
            ways[w].from < 0 || ((!polled[1 + 2 * w].revents || read_piece(&ways[w])) && (!polled[2 + 2 * w].revents || write_piece(&ways[w])));
        if (!fine)
            close_link(&ways[w & ~1]);
    }
    if (polled[0].revents)
        take_connection(listener, target);
}

int main(int argc, char **argv) {
    bool delays = argc == 7 && strcmp(argv[5], "delay") == 0, flips = argc >= 7 && strcmp(argv[5], "flip") == 0;
    if (!delays && !flips) {
        fprintf(stderr, "usage: relay ADDRESS PORT TO_ADDRESS TO_PORT delay MS | flip BYTE [once]\n");
        return 2;
    }
    *(delays ? &delay_ms : &flip_every) = strtoull(argv[6], NULL, 10);
    flip_once = argc > 7;
    struct sockaddr_in here = address_of(argv[1], argv[2]), target = address_of(argv[3], argv[4]);
    for (int w = 0; w < 2 * MOST_LINKS; w++)
        ways[w].from = ways[w].to = -1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 16) != 0)
        die("relay");
    for (;;)
        turn(listener, &target);
}

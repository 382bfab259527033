#include "runtime/net/curve.h"
#include "runtime/net/socket.h"
#include "runtime/thread.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ZAP_ENFORCE_DOMAIN 93 /* in libzmq since 4.3.0, in its header only with drafts */
#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define DOMAIN "phobos"
#define SELF_TEST_MS 5000

/* ---- the guard ---- */

struct Guard {
    void *socket; /* the thread's own once it runs */
    const Keys *keys;
    pthread_t thread;
    atomic_ullong refused;
};

enum { ZAP_VERSION, ZAP_REQUEST_ID, ZAP_DOMAIN_PART, ZAP_ADDRESS, ZAP_IDENTITY, ZAP_MECHANISM, ZAP_CREDENTIALS, ZAP_PARTS };

typedef struct ZapPart {
    char bytes[256];
    size_t length;
} ZapPart;

/* False when the context is shut down. `count` gets how many parts there were; those beyond ZAP_PARTS, and what is longer than a part may be, are cut
 * off. */
static bool zap_receive(void *socket, ZapPart parts[ZAP_PARTS], int *count) {
    int more = 1;
    for (*count = 0; more; ++*count) {
        ZapPart dropped, *part = *count < ZAP_PARTS ? &parts[*count] : &dropped;
        int length = zmq_recv(socket, part->bytes, sizeof part->bytes, 0);
        if (length < 0)
            return false;
        part->length = (size_t)length < sizeof part->bytes ? (size_t)length : sizeof part->bytes;
        size_t size = sizeof more;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) != 0)
            return false;
    }
    return true;
}

static bool part_is(const ZapPart *part, const char *text) {
    return part->length == strlen(text) && memcmp(part->bytes, text, part->length) == 0;
}

/* The name of whose key it is; NULL refuses. */
static const char *judge(const Guard *guard, const ZapPart *parts, int count) {
    char key[KEY_TEXT];
    if (count != ZAP_PARTS || !part_is(&parts[ZAP_VERSION], "1.0") || !part_is(&parts[ZAP_DOMAIN_PART], DOMAIN) ||
        !part_is(&parts[ZAP_MECHANISM], "CURVE") || parts[ZAP_CREDENTIALS].length != 32 ||
        zmq_z85_encode(key, (const uint8_t *)parts[ZAP_CREDENTIALS].bytes, 32) == NULL)
        return NULL;
    return keys_name_of(guard->keys, key);
}

static bool zap_send(void *socket, const void *bytes, size_t length, bool more) {
    return zmq_send(socket, bytes, length, more ? ZMQ_SNDMORE : 0) >= 0;
}

static bool zap_answer(void *socket, const ZapPart *id, const char *name) {
    const char *code = name ? "200" : "400", *text = name ? "OK" : "this key is not known here";
    return zap_send(socket, "1.0", 3, true) && zap_send(socket, id->bytes, id->length, true) && zap_send(socket, code, 3, true) &&
           zap_send(socket, text, strlen(text), true) && zap_send(socket, name ? name : "", name ? strlen(name) : 0, true) &&
           zap_send(socket, "", 0, false);
}

static void *guard_thread(void *context) {
    Guard *guard = context;
    ZapPart parts[ZAP_PARTS];
    int count;
    memset(parts, 0, sizeof parts);
    while (zap_receive(guard->socket, parts, &count)) {
        const char *name = judge(guard, parts, count);
        if (!name)
            atomic_fetch_add(&guard->refused, 1);
        if (!zap_answer(guard->socket, &parts[ZAP_REQUEST_ID], name))
            break;
    }
    zmq_close(guard->socket);
    return NULL;
}

Guard *guard_start(void *context, const Keys *keys, Error *error) {
    Guard *guard = new_zeroed(1, sizeof *guard);
    guard->keys = keys;
    guard->socket = zmq_socket(context, ZMQ_REP);
    if (guard->socket && zmq_setsockopt(guard->socket, ZMQ_LINGER, &(int){0}, sizeof(int)) == 0 && zmq_bind(guard->socket, ZAP_ENDPOINT) == 0 &&
        thread_start(&guard->thread, "phb-guard", guard_thread, guard, error))
        return guard;
    error_set(error, "cannot start checking keys: %s", zmq_strerror(zmq_errno()));
    if (guard->socket)
        zmq_close(guard->socket);
    free(guard);
    return NULL;
}

void guard_free(Guard *guard) {
    if (!guard)
        return;
    pthread_join(guard->thread, NULL);
    free(guard);
}

uint64_t guard_refused(const Guard *guard) {
    return atomic_load(&guard->refused);
}

/* ---- sockets ---- */

static bool set_text(void *socket, int option, const char *text) {
    return zmq_setsockopt(socket, option, text, strlen(text) + (option != ZMQ_ZAP_DOMAIN)) == 0;
}

static bool fail(Error *error) {
    return error_set(error, "cannot set keys: %s", zmq_strerror(zmq_errno()));
}

bool curve_serve(void *socket, const Keys *keys, Error *error) {
    /* Without ENFORCE a handler that is not there lets everybody in. */
    return (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &(int){1}, sizeof(int)) == 0 && set_text(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key) &&
               set_text(socket, ZMQ_ZAP_DOMAIN, DOMAIN) && zmq_setsockopt(socket, ZAP_ENFORCE_DOMAIN, &(int){1}, sizeof(int)) == 0) ||
           fail(error);
}

static bool connect_as(void *socket, const char *public_key, const char *secret_key, const char *server_key, Error *error) {
    return (set_text(socket, ZMQ_CURVE_SERVERKEY, server_key) && set_text(socket, ZMQ_CURVE_PUBLICKEY, public_key) &&
               set_text(socket, ZMQ_CURVE_SECRETKEY, secret_key)) ||
           fail(error);
}

bool curve_connect(void *socket, const Keys *keys, const char *server_key, Error *error) {
    return connect_as(socket, keys->public_key, keys->secret_key, server_key, error);
}

void curve_sender(void *frame, char name[KEY_NAME]) {
    const char *user = zmq_msg_gets(frame, "User-Id");
    snprintf(name, KEY_NAME, "%s", user ? user : "");
}

/* ---- handshakes ---- */

#define WATCHED \
    (ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)

void *handshake_watch(void *context, void *socket, Error *error) {
    static atomic_uint number;
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://handshakes-%u", atomic_fetch_add(&number, 1));
    void *watch = zmq_socket(context, ZMQ_PAIR);
    if (watch && zmq_setsockopt(watch, ZMQ_LINGER, &(int){0}, sizeof(int)) == 0 && zmq_socket_monitor(socket, endpoint, WATCHED) == 0 &&
        zmq_connect(watch, endpoint) == 0)
        return watch;
    error_set(error, "cannot watch a socket: %s", zmq_strerror(zmq_errno()));
    if (watch)
        zmq_close(watch);
    return NULL;
}

Handshake handshake_next(void *watch) {
    uint8_t event[6]; /* u16 event, u32 value; then the address as a part of its own */
    int length = zmq_recv(watch, event, sizeof event, ZMQ_DONTWAIT);
    if (length < 0)
        return HANDSHAKE_NONE;
    char address[256];
    zmq_recv(watch, address, sizeof address, ZMQ_DONTWAIT);
    uint16_t kind;
    memcpy(&kind, event, sizeof kind);
    switch (kind) {
    case ZMQ_EVENT_CONNECTED:
        return HANDSHAKE_BEGUN;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return HANDSHAKE_DONE;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return HANDSHAKE_REFUSED;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        return HANDSHAKE_FOREIGN;
    default:
        return HANDSHAKE_BROKEN;
    }
}

void handshake_unwatch(void *socket, void *watch) {
    if (!watch)
        return;
    zmq_socket_monitor(socket, NULL, 0);
    zmq_close(watch);
}

/* ---- the self-test ---- */

/* An address of this machine for one that is bound on all its interfaces. */
static void reachable(const char *bound, char endpoint[256]) {
    const char *port = strrchr(bound, ':');
    bool any = strncmp(bound, "tcp://0.0.0.0:", 14) == 0, any6 = strncmp(bound, "tcp://[::]:", 11) == 0;
    if (port && (any || any6))
        snprintf(endpoint, 256, "tcp://%s%s", any ? "127.0.0.1" : "[::1]", port);
    else
        snprintf(endpoint, 256, "%s", bound);
}

/* What the first handshake ends with; NONE: it has not ended. */
static Handshake wait_handshake(void *watch) {
    zmq_pollitem_t item = {.socket = watch, .events = ZMQ_POLLIN};
    while (zmq_poll(&item, 1, SELF_TEST_MS) > 0) {
        Handshake became = handshake_next(watch);
        if (became != HANDSHAKE_BEGUN)
            return became;
    }
    return HANDSHAKE_NONE;
}

bool curve_self_test(void *context, const char *bound, const Keys *keys, Error *error) {
    char public_key[KEY_TEXT], secret_key[KEY_TEXT], endpoint[256];
    reachable(bound, endpoint);
    if (zmq_curve_keypair(public_key, secret_key) != 0)
        return fail(error);
    void *socket = socket_open(context, ZMQ_DEALER, 1024, SELF_TEST_MS, error);
    void *watch = socket ? handshake_watch(context, socket, error) : NULL;
    Handshake became = HANDSHAKE_NONE;
    bool tried = watch && connect_as(socket, public_key, secret_key, keys->public_key, error) && socket_connect(socket, endpoint, error);
    if (tried)
        became = wait_handshake(watch);
    handshake_unwatch(socket, watch);
    socket_close(socket);
    explicit_bzero(secret_key, sizeof secret_key);
    if (!tried)
        return false;
    if (became == HANDSHAKE_DONE)
        return error_set(error, "'%s' lets in whoever comes: the check of keys does not work here", bound);
    return became == HANDSHAKE_REFUSED || error_set(error, "'%s' does not answer a stranger, so whether keys are checked cannot be told", bound);
}

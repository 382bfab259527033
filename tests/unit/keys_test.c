/* Key files, and who is let in: known keys, strangers, clients without keys, and a server whose guard is missing. */
#include "runtime/net/curve.h"
#include "runtime/net/socket.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

static char folder[] = "/tmp/phobos-keys-XXXXXX";
static Error error;

static const char *in_folder(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text, mode_t mode) {
    const char *path = in_folder(name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(fd, mode);
    close(fd);
}

static void get(const char *name, char text[512]) {
    FILE *file = fopen(in_folder(name), "r");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, 511, file)] = '\0';
    fclose(file);
}

static void make_folder(void) {
    strcpy(folder, "/tmp/phobos-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Keys for each name, and one file of peers with all of them but "stranger". */
static void make_keys(void) {
    static const char *const names[] = {"sched", "pod-a", "stranger"};
    char peers[1024] = "# who may come\n\n";
    for (int i = 0; i < 3; i++) {
        char line[512], file[80];
        snprintf(file, sizeof file, "%s.key", names[i]);
        ck_assert_msg(keys_generate(in_folder(file), names[i], &error), "%s", error.text);
        snprintf(file, sizeof file, "%s.key.pub", names[i]);
        get(file, line);
        if (i < 2)
            strcat(peers, line);
    }
    put("peers", peers, 0644);
}

static Keys *load(const char *name) {
    char file[80];
    snprintf(file, sizeof file, "%s.key", name);
    Keys *keys = keys_load(in_folder(file), in_folder("peers"), &error);
    ck_assert_msg(keys != NULL, "%s", error.text);
    return keys;
}

START_TEST(keys_are_made_and_loaded) {
    make_keys();
    struct stat status;
    ck_assert_int_eq(stat(in_folder("pod-a.key"), &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0600);
    Keys *keys = load("pod-a"), *sched = load("sched");
    ck_assert_str_eq(keys->name, "pod-a");
    ck_assert_str_eq(keys_of_name(keys, SCHED_NAME), sched->public_key);
    ck_assert_str_eq(keys_name_of(keys, keys->public_key), "pod-a");
    ck_assert_ptr_null(keys_of_name(keys, "stranger"));
    keys_free(keys);
    keys_free(sched);
    char before[512], after[512];
    get("pod-a.key", before);
    ck_assert(!keys_generate(in_folder("pod-a.key"), "pod-a", &error)); /* never over an old one */
    get("pod-a.key", after);
    ck_assert_str_eq(before, after);
    ck_assert(!keys_generate(in_folder("new.key"), "a name", &error));
    ck_assert_int_ne(access(in_folder("new.key"), F_OK), 0);
}
END_TEST

/* NAME.key and its file of peers, as they are after `spoil`, and a part of why they are refused. */
static void refused(const char *key, const char *peers, const char *text) {
    ck_assert_msg(keys_load(in_folder(key), in_folder(peers), &error) == NULL, "%s and %s are taken", key, peers);
    ck_assert_msg(strstr(error.text, text) != NULL, "'%s', expected '%s'", error.text, text);
}

START_TEST(bad_files_are_refused) {
    make_keys();
    char key[512], line[512], text[2048];
    get("pod-a.key", key);
    get("pod-a.key.pub", line);
    chmod(in_folder("pod-a.key"), 0640);
    refused("pod-a.key", "peers", "others than its owner may read the key");
    chmod(in_folder("pod-a.key"), 0600);
    refused("absent.key", "peers", "cannot open");
    refused("pod-a.key", "absent", "cannot open");
    put("dev.key", "", 0600);
    refused("dev.key", "peers", "is no key; --role=keygen");
    put("cut.key", key, 0600);
    truncate(in_folder("cut.key"), (off_t)strlen(key) - 20);
    refused("cut.key", "peers", "is damaged");
    char *secret = strstr(key, "secret ") + 7;
    secret[0] = secret[0] == 'a' ? 'b' : 'a';
    put("other.key", key, 0600);
    refused("other.key", "peers", "is damaged");
    put("none", "# nobody\n\n", 0644);
    refused("pod-a.key", "none", "nobody is named");
    put("short", "pod-a abc\n", 0644);
    refused("pod-a.key", "short", "short:1: expected NAME KEY");
    snprintf(text, sizeof text, "\n%s%s", line, line);
    put("twice", text, 0644);
    refused("pod-a.key", "twice", "twice:3: 'pod-a' has a key already");
    snprintf(text, sizeof text, "%spod-b %s", line, strchr(line, ' ') + 1);
    put("shared", text, 0644);
    refused("pod-a.key", "shared", "shared:2: 'pod-b' and 'pod-a' have one key");
    line[strcspn(line, "\n")] = '\0';
    snprintf(text, sizeof text, "%s more\n", line);
    put("more", text, 0644);
    refused("pod-a.key", "more", "more:1: expected NAME KEY, found more");
    ck_assert_int_eq(mkfifo(in_folder("pipe"), 0600), 0);
    refused("pipe", "peers", "not a regular file");
}
END_TEST

/* What becomes of a client of `server`; with keys of its own, with made-up ones, or without. */
static Handshake try(void *context, const char *endpoint, const Keys *keys, const char *server_key) {
    void *socket = socket_open(context, ZMQ_DEALER, 1024, 3000, &error);
    void *watch = handshake_watch(context, socket, &error);
    ck_assert_ptr_nonnull(watch);
    if (keys)
        ck_assert(curve_connect(socket, keys, server_key, &error));
    ck_assert(socket_connect(socket, endpoint, &error));
    zmq_pollitem_t item = {.socket = watch, .events = ZMQ_POLLIN};
    Handshake became = HANDSHAKE_NONE;
    for (int begun = 0; zmq_poll(&item, 1, 4000) > 0;) {
        became = handshake_next(watch);
        if (became == HANDSHAKE_BEGUN && ++begun > 1)
            became = HANDSHAKE_BROKEN; /* the other side closed, and nothing was told of it */
        if (became != HANDSHAKE_BEGUN)
            break;
    }
    handshake_unwatch(socket, watch);
    socket_close(socket);
    return became;
}

START_TEST(strangers_stay_outside) {
    make_keys();
    Keys *sched = load("sched"), *pod = load("pod-a"), *stranger = load("stranger");
    void *context = socket_context_new(&error), *clients = socket_context_new(&error);
    Guard *guard = guard_start(context, sched, &error);
    ck_assert_ptr_nonnull(guard);
    void *server = socket_open(context, ZMQ_ROUTER, 1024, 3000, &error);
    char bound[256];
    ck_assert(curve_serve(server, sched, &error) && socket_bind(server, "tcp://127.0.0.1:*", bound, sizeof bound, &error));
    ck_assert_msg(curve_self_test(context, bound, sched, &error), "%s", error.text);
    ck_assert_uint_eq(guard_refused(guard), 1);
    ck_assert_int_eq(try(clients, bound, pod, sched->public_key), HANDSHAKE_DONE);
    ck_assert_int_eq(try(clients, bound, stranger, sched->public_key), HANDSHAKE_REFUSED);
    ck_assert_uint_eq(guard_refused(guard), 2);
    Handshake keyless = try(clients, bound, NULL, NULL); /* who notices first is chance */
    ck_assert(keyless == HANDSHAKE_FOREIGN || keyless == HANDSHAKE_BROKEN);
    ck_assert_int_eq(try(clients, bound, pod, stranger->public_key), HANDSHAKE_BROKEN); /* another server than the one that is known */

    /* The sender's name comes with what it sends. */
    void *client = socket_open(clients, ZMQ_DEALER, 1024, 3000, &error);
    ck_assert(curve_connect(client, pod, sched->public_key, &error) && socket_connect(client, bound, &error));
    zmq_pollitem_t writable = {.socket = client, .events = ZMQ_POLLOUT}, readable = {.socket = server, .events = ZMQ_POLLIN};
    ck_assert_int_eq(zmq_poll(&writable, 1, 4000), 1);
    ck_assert_int_eq(zmq_send(client, "hello", 5, 0), 5);
    ck_assert_int_eq(zmq_poll(&readable, 1, 4000), 1);
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    Route route;
    ck_assert_int_eq(socket_receive(server, &frame, &route), RECEIVED_FRAME);
    char name[KEY_NAME];
    curve_sender(&frame, name);
    ck_assert_str_eq(name, "pod-a");
    zmq_msg_close(&frame);

    socket_close(client);
    socket_close(server);
    socket_context_free(clients);
    socket_context_free(context);
    guard_free(guard);
    keys_free(sched);
    keys_free(pod);
    keys_free(stranger);
}
END_TEST

/* A CURVE server that nobody guards lets anybody in unless it insists on a guard; the self-test tells. */
START_TEST(a_missing_guard_is_found) {
    make_keys();
    Keys *sched = load("sched");
    void *context = socket_context_new(&error);
    char bound[256];
    void *open = socket_open(context, ZMQ_ROUTER, 1024, 3000, &error);
    ck_assert_int_eq(zmq_setsockopt(open, ZMQ_CURVE_SERVER, &(int){1}, sizeof(int)), 0);
    ck_assert_int_eq(zmq_setsockopt(open, ZMQ_CURVE_SECRETKEY, sched->secret_key, 41), 0);
    ck_assert(socket_bind(open, "tcp://127.0.0.1:*", bound, sizeof bound, &error));
    ck_assert(!curve_self_test(context, bound, sched, &error));
    ck_assert_msg(strstr(error.text, "lets in whoever comes") != NULL, "%s", error.text);
    socket_close(open);
    void *closed = socket_open(context, ZMQ_ROUTER, 1024, 3000, &error);
    ck_assert(curve_serve(closed, sched, &error) && socket_bind(closed, "tcp://127.0.0.1:*", bound, sizeof bound, &error));
    error.text[0] = '\0';
    curve_self_test(context, bound, sched, &error); /* refused or unanswered: never let in */
    ck_assert_ptr_null(strstr(error.text, "lets in whoever comes"));
    socket_close(closed);
    socket_context_free(context);
    keys_free(sched);
}
END_TEST

/* Files are opened inside of the roots alone, whatever links and dots say. */
START_TEST(addresses_lead_here_or_home) {
    static const struct {
        const char *endpoint;
        bool here;
    } cases[] = {
        {"tcp://10.0.0.7:5871", true},
        {"tcp://node7:5871", true},
        {"tcp://[fe80::7]:5871", true},
        {"tcp://eth0:5871", true},
        {"tcp://0.0.0.0:5871", false},
        {"tcp://[::]:5871", false},
        {"tcp://127.0.0.1:5871", false},
        {"tcp://127.1.2.3:5871", false},
        {"tcp://[::1]:5871", false},
        {"tcp://localhost:5871", false},
        {"ipc:///tmp/pod", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(endpoint_leads_here(cases[i].endpoint) == cases[i].here, "%s", cases[i].endpoint);
}
END_TEST

START_TEST(roots_confine) {
    char outside[] = "/tmp/phobos-outside-XXXXXX", path[300];
    int fd = mkstemp(outside);
    ck_assert_int_ge(fd, 0);
    close(fd);
    put("inside", "x", 0644);
    ck_assert_int_eq(symlink(outside, in_folder("out")), 0);
    ck_assert_int_eq(symlink("inside", in_folder("in")), 0);
    ck_assert_int_eq(symlink("/", in_folder("top")), 0);
    char link_to_root[sizeof outside + 8], through_link[sizeof link_to_root + 8];
    snprintf(link_to_root, sizeof link_to_root, "%s-link", outside);
    snprintf(through_link, sizeof through_link, "%s/inside", link_to_root);
    ck_assert_int_eq(symlink(folder, link_to_root), 0);
    Roots *roots = roots_open(&(const char *){folder}, 1, &error);
    ck_assert_msg(roots != NULL, "%s", error.text);
    static const char *const bad[] = {"out", "../etc/passwd", "top/etc/passwd", "sub/../../etc/passwd"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fd = roots_open_file(roots, in_folder(bad[i]), O_RDONLY);
        ck_assert_msg(fd < 0, "%s is opened", bad[i]);
    }
    ck_assert_int_lt(roots_open_file(roots, outside, O_RDONLY), 0);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert_int_lt(roots_open_file(roots, folder, O_RDONLY), 0);
    snprintf(path, sizeof path, "%s-beside", folder); /* begins with the root's name */
    ck_assert_int_lt(roots_open_file(roots, path, O_RDONLY | O_CREAT), 0);
    static const char *const good[] = {"inside", "in"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fd = roots_open_file(roots, in_folder(good[i]), O_RDONLY);
        ck_assert_msg(fd >= 0, "%s: %s", good[i], strerror(errno));
        close(fd);
    }
    fd = roots_open_file(roots, through_link, O_RDONLY);
    ck_assert_msg(fd >= 0, "a link into the root: %s", strerror(errno));
    close(fd);
    fd = roots_open_file(NULL, outside, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    close(fd);
    roots_free(roots);
    ck_assert_ptr_null(roots_open(&(const char *){"/nonexistent"}, 1, &error));
    unlink(link_to_root);
    unlink(outside);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("keys");
    TCase *tests = tcase_create("keys");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, keys_are_made_and_loaded);
    tcase_add_test(tests, bad_files_are_refused);
    tcase_add_test(tests, strangers_stay_outside);
    tcase_add_test(tests, a_missing_guard_is_found);
    tcase_add_test(tests, addresses_lead_here_or_home);
    tcase_add_test(tests, roots_confine);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

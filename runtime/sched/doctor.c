#include "runtime/sched/doctor.h"
#include "runtime/clock.h"
#include "runtime/net/curve.h"
#include "runtime/net/proof.h"
#include "runtime/net/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

enum { DEAD_MS = 10000, AGAIN_MS = 1000, ROUND_TRIPS = 8, MAX_PATIENTS = 64, TICK_MS = 50 };

/* A pod that came. */
typedef struct Patient {
    Hello hello;
    Route route;
    int trips;            /* answered */
    uint64_t quickest_ns; /* of them */
    bool asked, told;
    Examined *result; /* told */
} Patient;

typedef struct Doctor {
    const PhbProgram *program;
    const Job *job;
    const DoctorOptions *options;
    void *context, *control;
    Guard *guard;
    WireMessage *inbox, *outbox;
    zmq_msg_t frame;
    Patient patients[MAX_PATIENTS];
    uint32_t count;
    uint64_t token;     /* of patient 0 */
    uint64_t joined_ms; /* when the last one came */
    int fine, failures;
    uint8_t away[MAX_PATIENTS][16]; /* incarnations that were turned away */
    uint32_t away_count;
    char *failed; /* what did, for the end of the report */
} Doctor;

static WireMessage *compose(Doctor *doctor, WireType type) {
    doctor->outbox->header = (WireHeader){.type = (uint16_t)type};
    return doctor->outbox;
}

static void send(Doctor *doctor, const Route *route) {
    socket_send(doctor->control, route, doctor->outbox, NULL, 0);
}

__attribute__((format(printf, 3, 4))) static void tell(Doctor *doctor, bool fine, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    doctor->fine += fine;
    doctor->failures += !fine;
}

static void name_failure(Doctor *doctor, const char *from, const char *to) {
    doctor->failed = text_append(doctor->failed, "%s%s -> %s", doctor->failed ? ", " : "", from, to);
}

/* ---- who comes ---- */

static void ask_time(Doctor *doctor, uint32_t number) {
    compose(doctor, WIRE_CLOCK)->clock = (Clock){.token = doctor->token + number, .sent_ns = clock_ns()};
    send(doctor, &doctor->patients[number].route);
}

/* NULL, or why a pod cannot take part in a job. */
static const char *objection(const Doctor *doctor, const Hello *hello, const char *sender) {
    if (memcmp(hello->build_id, doctor->program->build_id, sizeof hello->build_id) != 0)
        return "it is another build; start all from one executable";
    if (doctor->guard && strncmp(hello->node, sender, sizeof hello->node) != 0)
        return "its key does not prove its name; --node-name must be the key's";
    return doctor->count == MAX_PATIENTS ? "more pods than a doctor takes" : NULL;
}

static void take_hello(Doctor *doctor, const Route *route, const char *sender) {
    const Hello *hello = &doctor->inbox->hello;
    for (uint32_t p = 0; p < doctor->count; p++)
        if (memcmp(doctor->patients[p].hello.incarnation, hello->incarnation, sizeof hello->incarnation) == 0) {
            doctor->patients[p].route = *route;
            if (doctor->patients[p].trips == 0)
                ask_time(doctor, p); /* it may have been lost */
            return;
        }
    const char *why = objection(doctor, hello, sender);
    if (why != NULL) {
        Reject *reject = &compose(doctor, WIRE_REJECT)->reject;
        *reject = (Reject){.code = REJECT_BUILD};
        snprintf(reject->text, sizeof reject->text, "%s", why);
        send(doctor, route);
        for (uint32_t a = 0; a < doctor->away_count; a++)
            if (memcmp(doctor->away[a], hello->incarnation, sizeof hello->incarnation) == 0)
                return; /* its hello was repeated */
        if (doctor->away_count < MAX_PATIENTS)
            memcpy(doctor->away[doctor->away_count++], hello->incarnation, sizeof hello->incarnation);
        tell(doctor, false, "%s -> sched: FAILED: %s\n", hello->node, why);
        name_failure(doctor, hello->node, "sched");
        return;
    }
    Patient *patient = &doctor->patients[doctor->count];
    patient->hello = *hello;
    patient->route = *route;
    doctor->joined_ms = clock_ms();
    ask_time(doctor, doctor->count++);
}

static void take_time(Doctor *doctor, const Clock *clock) {
    uint64_t took = clock_ns() - clock->sent_ns;
    uint64_t number = clock->token - doctor->token;
    if (number >= doctor->count || clock->sent_ns > clock_ns())
        return;
    Patient *patient = &doctor->patients[number];
    if (patient->trips++ == 0 || took < patient->quickest_ns)
        patient->quickest_ns = took;
    if (patient->trips < ROUND_TRIPS)
        ask_time(doctor, (uint32_t)number);
}

static void take_examined(Doctor *doctor, const Examined *examined) {
    uint64_t number = examined->token - doctor->token;
    if (number >= doctor->count)
        return;
    Patient *patient = &doctor->patients[number];
    if (patient->told || !patient->asked)
        return;
    patient->told = true;
    patient->result = new_zeroed(1, sizeof *patient->result);
    memcpy(patient->result, examined, sizeof *examined);
}

static void turn(Doctor *doctor) {
    Route route;
    ReceiveResult result;
    zmq_poll(&(zmq_pollitem_t){.socket = doctor->control, .events = ZMQ_POLLIN}, 1, TICK_MS);
    while ((result = socket_receive(doctor->control, &doctor->frame, &route)) != RECEIVED_NOTHING) {
        char sender[KEY_NAME];
        curve_sender(&doctor->frame, sender);
        if (result == RECEIVED_JUNK || wire_decode(zmq_msg_data(&doctor->frame), zmq_msg_size(&doctor->frame), doctor->inbox, NULL, NULL))
            continue;
        if (doctor->inbox->header.type == WIRE_HELLO)
            take_hello(doctor, &route, sender);
        else if (doctor->inbox->header.type == WIRE_CLOCK)
            take_time(doctor, &doctor->inbox->clock);
        else if (doctor->inbox->header.type == WIRE_EXAMINED)
            take_examined(doctor, &doctor->inbox->examined);
    }
}

/* True: there are pods to examine. */
static bool wait_for_pods(Doctor *doctor) {
    const DoctorOptions *options = doctor->options;
    uint64_t begun = clock_ms();
    for (;;) {
        turn(doctor);
        uint64_t now = clock_ms(), least = options->nodes > 0 ? (uint64_t)options->nodes : 1;
        bool here = doctor->count >= least && (options->nodes > 0 || now - doctor->joined_ms >= (uint64_t)options->join_window_ms);
        if (here || atomic_load(&interrupted) || now - begun >= (uint64_t)options->join_timeout_ms)
            return doctor->count > 0 && !atomic_load(&interrupted);
    }
}

/* ---- what they are asked ---- */

static void fill_request(const Doctor *doctor, uint32_t number, Examine *examine) {
    memset(examine, 0, sizeof *examine);
    examine->token = doctor->token + number;
    examine->node = number;
    examine->peers_count = doctor->count;
    for (uint32_t p = 0; p < doctor->count; p++) {
        memcpy(examine->peers[p].endpoint, doctor->patients[p].hello.tile_endpoint, sizeof examine->peers[p].endpoint);
        memcpy(examine->peers[p].node, doctor->patients[p].hello.node, sizeof examine->peers[p].node);
    }
    for (int t = 0; doctor->job != NULL && t < doctor->job->kernel->tensor_count; t++) {
        WirePath *path = &examine->paths[examine->paths_count];
        const char *name = doctor->job->tensors[t].path;
        int mode = doctor->job->kernel->tensors[t].mode;
        if (name == NULL)
            continue;
        snprintf(path->path, sizeof path->path, "%s", name);
        path->written = mode != PHB_READ;
        path->read = mode != PHB_WRITE && doctor->job->tensors[t].exists;
        examine->paths_count++;
    }
}

/* One after the other, so that no way is tried while another one is. */
static void examine(Doctor *doctor, uint32_t number) {
    Patient *patient = &doctor->patients[number];
    uint64_t begun = clock_ms(), asked = 0, most = 20000 + 12000 * (uint64_t)doctor->count;
    patient->asked = true;
    while (!patient->told && clock_ms() - begun < most && !atomic_load(&interrupted)) {
        if (asked == 0 || clock_ms() - asked >= AGAIN_MS) {
            fill_request(doctor, number, &compose(doctor, WIRE_EXAMINE)->examine);
            send(doctor, &patient->route);
            asked = clock_ms();
        }
        turn(doctor);
    }
}

/* ---- what is said ---- */

static void tell_way(Doctor *doctor, const Patient *from, const Patient *to, const WireWay *way) {
    static const char *const why[] = {
        [WAY_UNREACHED] = "not reached within 5 s; is the address one that it can reach (--listen, --advertise), and the port open?",
        [WAY_REFUSED] = "its key is not known there; the --peers of both must name both",
        [WAY_FOREIGN] = "it speaks another way, such as with keys where this one has none",
        [WAY_SILENT] = "reached, but nothing comes back",
        [WAY_DAMAGED] = "what comes back is damaged",
        [WAY_KEYLESS] = "the file that its --peers names has no key of that one"};
    const char *names[] = {from->hello.node, to->hello.node};
    if (way->state == WAY_FINE) {
        tell(doctor, true, "%s -> %s (%s): %.3f ms, %.4g B/s\n", names[0], names[1], to->hello.tile_endpoint, (double)way->round_trip_ns / 1e6,
            (double)way->rate);
        return;
    }
    tell(doctor, false, "%s -> %s (%s): FAILED: %s\n", names[0], names[1], to->hello.tile_endpoint,
        way->state <= WAY_KEYLESS ? why[way->state] : "no reason given");
    name_failure(doctor, names[0], names[1]);
}

/* What the pod sees at a path against what is seen here. */
static void tell_sight(Doctor *doctor, const Patient *patient, const WirePath *path, const WireSight *sight) {
    const char *node = patient->hello.node;
    WireSeen here = {.size = 0};
    for (int t = 0; path->read && t < doctor->job->kernel->tensor_count; t++)
        if (strcmp(doctor->job->tensors[t].path, path->path) == 0)
            proof_look(&(TensorFile){.old_fd = doctor->job->tensors[t].old_fd, .staging_fd = -1}, 0, 0, &here);
    if (sight->error != 0)
        tell(doctor, false, "%s: %s: FAILED: %s\n", node, path->path,
            sight->error == EXDEV ? "in no folder that its --root allows" : strerror((int)sight->error));
    else if (path->read && (sight->size != here.size || sight->hash != here.hash))
        tell(doctor, false, "%s: %s: FAILED: another file than here (%" PRId64 " bytes, here %" PRId64 ")\n", node, path->path, sight->size,
            here.size);
    else if (path->read)
        tell(doctor, true, "%s: %s: %.4g B/s%s\n", node, path->path, (double)sight->rate, path->written ? ", can be written" : "");
    else
        tell(doctor, true, "%s: %s: can be written\n", node, path->path);
    bool failed = sight->error != 0 || (path->read && (sight->size != here.size || sight->hash != here.hash));
    if (failed)
        name_failure(doctor, node, path->path);
}

static void tell_patient(Doctor *doctor, uint32_t number) {
    const Patient *patient = &doctor->patients[number];
    const char *node = patient->hello.node;
    if (patient->trips > 0)
        tell(doctor, true, "sched <-> %s: %.3f ms\n", node, (double)patient->quickest_ns / 1e6);
    fill_request(doctor, number, &doctor->outbox->examine);
    const Examine *request = &doctor->outbox->examine;
    if (patient->trips == 0 || !patient->told || patient->result->ways_count != request->peers_count ||
        patient->result->sights_count != request->paths_count) {
        tell(doctor, false, "sched <-> %s: FAILED: it said hello and answers nothing\n", node);
        name_failure(doctor, "sched", node);
        return;
    }
    for (uint32_t p = 0; p < request->peers_count; p++)
        if (p != number)
            tell_way(doctor, patient, &doctor->patients[p], &patient->result->ways[p]);
    for (uint32_t p = 0; p < request->paths_count; p++)
        tell_sight(doctor, patient, &request->paths[p], &patient->result->sights[p]);
}

/* ---- the whole ---- */

static bool open_socket(Doctor *doctor, Error *error) {
    const char *listen = doctor->options->listen ? doctor->options->listen : DEFAULT_SCHED_ENDPOINT;
    const Keys *keys = doctor->options->keys;
    char bound[256];
    if (!endpoint_check_bind(listen, doctor->options->insecure || keys, error) || !(doctor->context = socket_context_new(error)) ||
        (keys && !(doctor->guard = guard_start(doctor->context, keys, error))) ||
        !(doctor->control = socket_open(doctor->context, ZMQ_ROUTER, WIRE_CONTROL_BYTES, DEAD_MS, error)) ||
        (keys && !curve_serve(doctor->control, keys, error)) || !socket_bind(doctor->control, listen, bound, sizeof bound, error) ||
        (keys && !curve_self_test(doctor->context, bound, keys, error)))
        return false;
    if (doctor->options->log >= LOG_INFO)
        fprintf(stderr, "waiting for pods at %s\n", bound);
    return true;
}

static void close_all(Doctor *doctor) {
    socket_close(doctor->control);
    socket_context_free(doctor->context);
    guard_free(doctor->guard);
    for (uint32_t p = 0; p < doctor->count; p++)
        free(doctor->patients[p].result);
    zmq_msg_close(&doctor->frame);
    free(doctor->failed);
    free(doctor->inbox);
    free(doctor->outbox);
}

static int conclude(Doctor *doctor) {
    const DoctorOptions *options = doctor->options;
    uint64_t strangers = doctor->guard ? guard_refused(doctor->guard) : 0;
    if (strangers > 1) { /* the self-test was one */
        printf("refused: %" PRIu64 " connections whose keys are not among the peers\n", strangers - 1);
        doctor->failures++;
    }
    int awaited = options->nodes > 0 ? options->nodes : 1;
    if ((int)doctor->count < awaited) {
        fprintf(stderr, "error: waited %g s for %d pod%s; %" PRIu32 " came\n", options->join_timeout_ms / 1000.0, awaited, awaited == 1 ? "" : "s",
            doctor->count);
        return EXIT_FAILED;
    }
    if (doctor->failures > 0) {
        fprintf(stderr, "error: %d of %d checks failed%s%s\n", doctor->failures, doctor->failures + doctor->fine, doctor->failed ? ": " : "",
            doctor->failed ? doctor->failed : "");
        return EXIT_FAILED;
    }
    printf("all %d checks are fine\n", doctor->fine);
    return EXIT_DONE;
}

int doctor_serve(const PhbProgram *program, const Job *job, const DoctorOptions *options) {
    Doctor *doctor = new_zeroed(1, sizeof *doctor);
    *doctor = (Doctor){.program = program, .job = job, .options = options};
    doctor->inbox = new_zeroed(1, sizeof *doctor->inbox);
    doctor->outbox = new_zeroed(1, sizeof *doctor->outbox);
    zmq_msg_init(&doctor->frame);
    Error error;
    int exit_code = EXIT_FAILED;
    if (getrandom(&doctor->token, sizeof doctor->token, 0) != (ssize_t)sizeof doctor->token) {
        perror("error: cannot draw a random number");
    } else if (!open_socket(doctor, &error)) {
        fprintf(stderr, "error: %s\n", error.text);
    } else {
        if (wait_for_pods(doctor))
            for (uint32_t p = 0; p < doctor->count; p++)
                examine(doctor, p);
        for (uint32_t p = 0; p < doctor->count; p++)
            tell_patient(doctor, p);
        exit_code = conclude(doctor);
    }
    close_all(doctor);
    free(doctor);
    return exit_code;
}

#include "runtime/sched/doctor.h"
#include "runtime/net/curve.h"
#include "runtime/net/proof.h"
#include "runtime/sched/survey.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEAD_MS = 10000 };

typedef struct Doctor {
    const PhbProgram *program;
    const Job *job;
    const DoctorOptions *options;
    void *context, *control;
    Guard *guard;
    Survey *survey;
    int fine, failures;
    char *failed; /* what did, for the end of the report */
} Doctor;

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

static void tell_refused(void *context, const char *node, const char *why) {
    Doctor *doctor = context;
    tell(doctor, false, "%s -> sched: FAILED: %s\n", node, why);
    name_failure(doctor, node, "sched");
}

/* ---- what they are asked ---- */

static const Examine *compose_request(const Doctor *doctor, uint32_t number) {
    Examine *examine = survey_request(doctor->survey, number);
    examine->node = number;
    for (uint32_t p = 0; p < doctor->survey->count; p++)
        survey_add_peer(examine, &doctor->survey->pods[p]);
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
    return examine;
}

/* One after the other, so that no way is tried while another one is. */
static void examine_pods(const Doctor *doctor) {
    for (uint32_t p = 0; p < doctor->survey->count && !atomic_load(&interrupted); p++) {
        compose_request(doctor, p);
        survey_ask(doctor->survey, p);
    }
}

/* ---- what is said ---- */

static void tell_way(Doctor *doctor, const Surveyed *from, const Surveyed *to, const WireWay *way) {
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
static void tell_sight(Doctor *doctor, const Surveyed *pod, const WirePath *path, const WireSight *sight) {
    const char *node = pod->hello.node;
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

static void tell_pod(Doctor *doctor, uint32_t number) {
    const Surveyed *pods = doctor->survey->pods, *pod = &pods[number];
    const char *node = pod->hello.node;
    if (pod->trips > 0)
        tell(doctor, true, "sched <-> %s: %.3f ms\n", node, (double)pod->quickest_ns / 1e6);
    const Examine *request = compose_request(doctor, number);
    if (pod->trips == 0 || pod->result == NULL || pod->result->ways_count != request->peers_count ||
        pod->result->sights_count != request->paths_count) {
        tell(doctor, false, "sched <-> %s: FAILED: it said hello and answers nothing\n", node);
        name_failure(doctor, "sched", node);
        return;
    }
    for (uint32_t p = 0; p < request->peers_count; p++)
        if (p != number)
            tell_way(doctor, pod, &pods[p], &pod->result->ways[p]);
    for (uint32_t p = 0; p < request->paths_count; p++)
        tell_sight(doctor, pod, &request->paths[p], &pod->result->sights[p]);
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

static bool begin_survey(Doctor *doctor, Error *error) {
    const DoctorOptions *options = doctor->options;
    SurveyOptions survey = {
        .build_id = doctor->program->build_id,
        .keyed = doctor->guard != NULL,
        .nodes = options->nodes,
        .join_window_ms = options->join_window_ms,
        .join_timeout_ms = options->join_timeout_ms,
        .refused = tell_refused,
        .context = doctor,
    };
    doctor->survey = survey_new(doctor->control, &survey, error);
    return doctor->survey != NULL;
}

static void close_all(Doctor *doctor) {
    survey_free(doctor->survey);
    socket_close(doctor->control);
    socket_context_free(doctor->context);
    guard_free(doctor->guard);
    free(doctor->failed);
}

static int conclude(Doctor *doctor) {
    const DoctorOptions *options = doctor->options;
    for (uint32_t p = 0; p < doctor->survey->count; p++)
        tell_pod(doctor, p);
    uint64_t strangers = doctor->guard ? guard_refused(doctor->guard) : 0;
    if (strangers > 1) { /* the self-test was one */
        printf("refused: %" PRIu64 " connections whose keys are not among the peers\n", strangers - 1);
        doctor->failures++;
    }
    int awaited = options->nodes > 0 ? options->nodes : 1;
    if ((int)doctor->survey->count < awaited) {
        fprintf(stderr, "error: waited %g s for %d pod%s; %" PRIu32 " came\n", options->join_timeout_ms / 1000.0, awaited, awaited == 1 ? "" : "s",
            doctor->survey->count);
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
    Error error;
    int exit_code = EXIT_FAILED;
    if (!open_socket(doctor, &error) || !begin_survey(doctor, &error)) {
        fprintf(stderr, "error: %s\n", error.text);
    } else {
        survey_wait(doctor->survey, &error);
        examine_pods(doctor);
        if (atomic_load(&interrupted))
            fprintf(stderr, "error: stopped by the user\n");
        else
            exit_code = conclude(doctor);
    }
    close_all(doctor);
    free(doctor);
    return exit_code;
}

#include "runtime/sched/survey.h"
#include "runtime/clock.h"
#include "runtime/net/curve.h"
#include "runtime/net/endpoint.h"
#include "runtime/sched/core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { AGAIN_MS = 1000, ROUND_TRIPS = 8, TICK_MS = 50, ANSWER_MS = 20000, ANSWER_MS_A_WAY = 30000 };

Survey *survey_new(void *control, const SurveyOptions *options, Error *error) {
    Survey *survey = new_zeroed(1, sizeof *survey);
    survey->options = *options;
    survey->control = control;
    survey->inbox = new_zeroed(1, sizeof *survey->inbox);
    survey->outbox = new_zeroed(1, sizeof *survey->outbox);
    survey->request = new_zeroed(1, sizeof *survey->request);
    zmq_msg_init(&survey->frame);
    if (getrandom(&survey->token, sizeof survey->token, 0) == (ssize_t)sizeof survey->token)
        return survey;
    error_errno(error, "cannot draw a random number");
    survey_free(survey);
    return NULL;
}

void survey_free(Survey *survey) {
    if (survey == NULL)
        return;
    for (uint32_t p = 0; p < survey->count; p++)
        free(survey->pods[p].result);
    zmq_msg_close(&survey->frame);
    free(survey->inbox);
    free(survey->outbox);
    free(survey->request);
    free(survey);
}

/* ---- who comes ---- */

static WireMessage *compose(Survey *survey, WireType type) {
    survey->outbox->header = (WireHeader){.type = (uint16_t)type};
    return survey->outbox;
}

static void send(Survey *survey, const Route *route) {
    socket_send(survey->control, route, survey->outbox, NULL, 0);
}

static void ask_time(Survey *survey, uint32_t number) {
    compose(survey, WIRE_CLOCK)->clock = (Clock){.token = survey->token + number, .sent_ns = clock_ns()};
    send(survey, &survey->pods[number].route);
}

/* NULL, or why a pod cannot take part in a job. */
static const char *objection(const Survey *survey, const Hello *hello, const char *sender) {
    if (memcmp(hello->build_id, survey->options.build_id, sizeof hello->build_id) != 0)
        return "it is another build; start all from one executable";
    if (survey->options.keyed && strncmp(hello->node, sender, sizeof hello->node) != 0)
        return "its key does not prove its name; --node-name must be the key's";
    return survey->count == SURVEY_PODS ? "more pods than are looked at" : hello_objection(hello);
}

static void refuse(Survey *survey, const Hello *hello, const Route *route, const char *why) {
    if (survey->options.refused == NULL)
        return;
    Reject *reject = &compose(survey, WIRE_REJECT)->reject;
    *reject = (Reject){.code = REJECT_BUILD};
    snprintf(reject->text, sizeof reject->text, "%s", why);
    send(survey, route);
    for (uint32_t a = 0; a < survey->away_count; a++)
        if (memcmp(survey->away[a], hello->incarnation, sizeof hello->incarnation) == 0)
            return; /* its hello was repeated */
    if (survey->away_count < SURVEY_PODS)
        memcpy(survey->away[survey->away_count++], hello->incarnation, sizeof hello->incarnation);
    survey->options.refused(survey->options.context, hello->node, why);
}

static void take_hello(Survey *survey, const Route *route, const char *sender) {
    const Hello *hello = &survey->inbox->hello;
    for (uint32_t p = 0; p < survey->count; p++)
        if (memcmp(survey->pods[p].hello.incarnation, hello->incarnation, sizeof hello->incarnation) == 0) {
            survey->pods[p].route = *route;
            if (survey->pods[p].trips == 0)
                ask_time(survey, p); /* it may have been lost */
            return;
        }
    const char *why = objection(survey, hello, sender);
    if (why != NULL) {
        refuse(survey, hello, route, why);
        return;
    }
    if (survey->complete)
        return;
    survey->pods[survey->count].hello = *hello;
    survey->pods[survey->count].route = *route;
    survey->joined_ms = clock_ms();
    ask_time(survey, survey->count++);
}

static void take_time(Survey *survey, const Clock *clock) {
    uint64_t took = clock_ns() - clock->sent_ns;
    uint64_t number = clock->token - survey->token;
    if (number >= survey->count || clock->sent_ns > clock_ns())
        return;
    Surveyed *pod = &survey->pods[number];
    if (pod->trips++ == 0 || took < pod->quickest_ns)
        pod->quickest_ns = took;
    if (pod->trips < ROUND_TRIPS)
        ask_time(survey, (uint32_t)number);
}

static void take_examined(Survey *survey, const Examined *examined) {
    uint64_t number = examined->token - survey->token;
    if (number >= survey->count)
        return;
    Surveyed *pod = &survey->pods[number];
    if (pod->result != NULL || !pod->asked)
        return;
    pod->result = new_zeroed(1, sizeof *pod->result);
    memcpy(pod->result, examined, sizeof *examined);
}

static void turn(Survey *survey) {
    Route route;
    ReceiveResult result;
    zmq_poll(&(zmq_pollitem_t){.socket = survey->control, .events = ZMQ_POLLIN}, 1, TICK_MS);
    while ((result = socket_receive(survey->control, &survey->frame, &route)) != RECEIVED_NOTHING) {
        char sender[KEY_NAME];
        curve_sender(&survey->frame, sender);
        if (result == RECEIVED_JUNK || wire_decode(zmq_msg_data(&survey->frame), zmq_msg_size(&survey->frame), survey->inbox, NULL, NULL))
            continue;
        if (survey->inbox->header.type == WIRE_HELLO)
            take_hello(survey, &route, sender);
        else if (survey->inbox->header.type == WIRE_CLOCK)
            take_time(survey, &survey->inbox->clock);
        else if (survey->inbox->header.type == WIRE_EXAMINED)
            take_examined(survey, &survey->inbox->examined);
    }
}

static bool say_missing(const Survey *survey, Error *error) {
    char *names = NULL;
    for (uint32_t p = 0; p < survey->count; p++)
        names = text_append(names, "%s%s", names != NULL ? ", " : "", survey->pods[p].hello.node);
    error_set(error, "waited %d s for %d pod%s; came: %s", survey->options.join_timeout_ms / 1000,
        survey->options.nodes > 0 ? survey->options.nodes : 1, survey->options.nodes > 1 ? "s" : "", names != NULL ? names : "none");
    free(names);
    return false;
}

static bool wait_for_pods(Survey *survey, Error *error) {
    const SurveyOptions *options = &survey->options;
    uint64_t begun = clock_ms(), least = options->nodes > 0 ? (uint64_t)options->nodes : 1;
    for (;;) {
        turn(survey);
        uint64_t now = clock_ms();
        if (atomic_load(&interrupted))
            return error_set(error, "stopped by the user");
        if (survey->count >= least && (options->nodes > 0 || now - survey->joined_ms >= (uint64_t)options->join_window_ms))
            return true;
        if (now - begun >= (uint64_t)options->join_timeout_ms)
            return say_missing(survey, error);
    }
}

bool survey_wait(Survey *survey, Error *error) {
    bool came = wait_for_pods(survey, error);
    survey->complete = true;
    return came;
}

/* ---- what they are asked ---- */

Examine *survey_request(Survey *survey, uint32_t number) {
    survey->request->header = (WireHeader){.type = WIRE_EXAMINE};
    memset(&survey->request->examine, 0, sizeof survey->request->examine);
    survey->request->examine.token = survey->token + number;
    return &survey->request->examine;
}

void survey_add_peer(Examine *examine, const Surveyed *pod) {
    WirePeer *peer = &examine->peers[examine->peers_count++];
    memcpy(peer->endpoint, pod->hello.tile_endpoint, sizeof peer->endpoint);
    memcpy(peer->node, pod->hello.node, sizeof peer->node);
}

const Examined *survey_ask(Survey *survey, uint32_t number) {
    Surveyed *pod = &survey->pods[number];
    uint64_t begun = clock_ms(), asked = 0, most = ANSWER_MS + ANSWER_MS_A_WAY * (uint64_t)survey->request->examine.peers_count;
    pod->asked = true;
    while (pod->result == NULL && clock_ms() - begun < most && !atomic_load(&interrupted)) {
        if (asked == 0 || clock_ms() - asked >= AGAIN_MS) {
            socket_send(survey->control, &pod->route, survey->request, NULL, 0);
            asked = clock_ms();
        }
        turn(survey);
    }
    return pod->result;
}

/* ---- what a model needs ---- */

/* The first pod of another host than pod 0 is on; 0: there is none. */
static uint32_t find_apart(const Survey *survey) {
    uint32_t p = 1;
    while (p < survey->count && endpoints_share_host(survey->pods[0].hello.tile_endpoint, survey->pods[p].hello.tile_endpoint))
        p++;
    return p < survey->count ? p : 0;
}

/* Bytes a second from pod `other` to pod 0; 0: it could not be measured. */
static double measure_link(Survey *survey, uint32_t other) {
    Examine *examine = survey_request(survey, 0);
    survey_add_peer(examine, &survey->pods[0]);
    survey_add_peer(examine, &survey->pods[other]);
    const Examined *result = survey_ask(survey, 0);
    return result != NULL && result->ways_count == 2 && result->ways[1].state == WAY_FINE ? (double)result->ways[1].rate : 0;
}

static void sum_up(const Survey *survey, TuneMachine *machine) {
    machine->pods = survey->count;
    machine->threads = (int)survey->pods[0].hello.threads;
    machine->class = (DeviceClass)survey->pods[0].hello.device_class;
    machine->memory = INT64_MAX;
    for (uint32_t p = 0; p < survey->count; p++)
        if ((int64_t)survey->pods[p].hello.memory < machine->memory)
            machine->memory = (int64_t)survey->pods[p].hello.memory;
    int share = machine_processors() / (int)survey->count; /* of each, where this is the host of all */
    if (machine->one_host && machine->threads > share)
        machine->threads = share > 1 ? share : 1;
}

bool survey_machine(void *control, const SurveyOptions *options, LogLevel log, TuneMachine *machine, Error *error) {
    Survey *survey = survey_new(control, options, error);
    bool fine = survey != NULL && survey_wait(survey, error);
    uint32_t other = fine ? find_apart(survey) : 0;
    if (fine) {
        machine->one_host = other == 0;
        sum_up(survey, machine);
    }
    if (other > 0 && machine->link_bw <= 0) {
        const char *from = survey->pods[other].hello.node, *to = survey->pods[0].hello.node;
        machine->link_bw = measure_link(survey, other);
        if (machine->link_bw <= 0 && log >= LOG_WARNING)
            fprintf(stderr, "warning: how fast pod %s reaches pod %s could not be measured\n", from, to);
        else if (log >= LOG_INFO)
            fprintf(stderr, "measured the link from pod %s to pod %s: %.3g B/s\n", from, to, machine->link_bw);
    }
    survey_free(survey);
    return fine;
}

/* Pods that say hello before there is a job for them: who they are, how far away, and what they answer when asked to try ways and files. */
#ifndef PHOBOS_SURVEY_H
#define PHOBOS_SURVEY_H

#include "runtime/net/socket.h"
#include "runtime/tune.h"

#include <zmq.h>

enum { SURVEY_PODS = WIRE_MAX_PODS };

/* A pod that came. */
typedef struct Surveyed {
    Hello hello;
    Route route;
    int trips;            /* to it and back, answered, */
    uint64_t quickest_ns; /* the quickest of them */
    bool asked;
    Examined *result; /* NULL: it has not told */
} Surveyed;

typedef struct SurveyOptions {
    const uint8_t *build_id;
    bool keyed; /* a pod's key proves its name */
    int nodes;  /* 0: whoever comes within the join window */
    int join_window_ms, join_timeout_ms;
    /* Told of each pod that cannot take part, which is refused; NULL: who listens here next refuses it. */
    void (*refused)(void *context, const char *node, const char *why);
    void *context;
} SurveyOptions;

typedef struct Survey {
    SurveyOptions options;
    void *control; /* borrowed: the socket that pods speak to */
    WireMessage *inbox, *outbox, *request;
    zmq_msg_t frame;
    Surveyed pods[SURVEY_PODS];
    uint32_t count;
    bool complete;                 /* who comes now is not looked at: the others are being examined */
    uint64_t token;                /* of pod 0 */
    uint64_t joined_ms;            /* when the last one came */
    uint8_t away[SURVEY_PODS][16]; /* incarnations that were refused */
    uint32_t away_count;
} Survey;

/* NULL with the reason. */
Survey *survey_new(void *control, const SurveyOptions *options, Error *error);
void survey_free(Survey *survey);
/* Until as many are there as are waited for; false with the reason: they did not come in time, or the user gave up. */
bool survey_wait(Survey *survey, Error *error);
/* A request to pod `number`, with no ways and files in it. */
Examine *survey_request(Survey *survey, uint32_t number);
void survey_add_peer(Examine *examine, const Surveyed *pod);
/* Sends what survey_request made until it is answered; NULL: it is not. */
const Examined *survey_ask(Survey *survey, uint32_t number);

/* What --autotune needs to know of the pods that are waited for: sets all of *machine but for the device. The link is measured
 * between two pods of different hosts, unless it is known. */
bool survey_machine(void *control, const SurveyOptions *options, LogLevel log, TuneMachine *machine, Error *error);

#endif

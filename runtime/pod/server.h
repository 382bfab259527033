/* --role=pod: the shell around agent.c and the pod's engine. One thread owns the socket, the agent and the engine. */
#ifndef PHOBOS_POD_SERVER_H
#define PHOBOS_POD_SERVER_H

#include "runtime/net/keys.h"

typedef struct PodServeOptions {
    const char *sched;     /* NULL: DEFAULT_SCHED_ENDPOINT */
    const char *listen;    /* of the tile plane; NULL: DEFAULT_POD_ENDPOINT */
    const char *advertise; /* what peers are told to connect to; NULL: what was bound */
    const char *node_name; /* NULL: the key's, else the host's name and the process's number */
    const char *device;    /* the value of --device; NULL: auto */
    SimtOptions simt;
    int threads;           /* 0: the processors that this process may use */
    int64_t memory;        /* 0: half of the machine's, or most of the card's */
    bool insecure;
    bool persist; /* when a job is over, waits for the next one */
    const Keys *keys;   /* borrowed; NULL: whoever connects is let in */
    const Roots *roots; /* borrowed: where files may be; NULL: anywhere */
    LogLevel log;
} PodServeOptions;

int pod_serve(const PhbProgram *program, const PodServeOptions *options); /* an exit code; messages on stderr */

#endif

/* --autotune where pods are: the machine is measured, combinations of @cluster values are ranked, the best one is the job's. */
#ifndef PHOBOS_TUNE_H
#define PHOBOS_TUNE_H

#include "runtime/device/device.h"
#include "runtime/sched/sched.h"

typedef struct TuneMachine {
    const Job *files;           /* whose files are read and written: the job whose steps are tuned */
    const DeviceChoice *device; /* that leaves are timed on; NULL: there is none like the pods' */
    int64_t pods;
    int threads;    /* of each pod */
    bool one_host;  /* nothing is fetched */
    DeviceClass class;
    int64_t memory; /* of the smallest pod, bytes; 0: not known */
    double link_bw; /* bytes a second; 0: not known */
    /* Looks at the pods, once it is known that some combination can run, and sets all of this but for the device. NULL: it is known. */
    bool (*look)(void *context, struct TuneMachine *machine, Error *error);
    void *context;
} TuneMachine;

typedef struct Tuned {
    char *text;     /* what was found; the caller's */
    double seconds; /* that the run will take */
} Tuned;

/* False with the reason where no combination can run. What cannot be measured is assumed. */
bool job_tune(Job *job, TuneMachine *machine, const PlanOptions *options, Model *model, Tuned *tuned, Error *error);

/* ---- probe.c: files ---- */

/* The model's figures of files and fresh memory, read by so many threads at once. */
void probe_files(const Job *job, int threads, Model *model);

#endif

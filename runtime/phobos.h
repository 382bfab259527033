/* Running compiled kernels from C: what NAME.h, which `phobosc --emit=lib` writes beside the archive NAME.a, is made of.
 *
 * Nothing here ends the process, prints, or changes state that calls share: any thread may call any function at any time, and jobs may run at the same time.
 * What goes wrong is in the result. Two limits of a process concern its owner: writing beyond its file size limit raises SIGXFSZ, and a child that forks
 * while a job runs must not touch it. */
#ifndef PHOBOS_API_H
#define PHOBOS_API_H

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of one source, and their code. */
typedef struct PhbProgram PhbProgram;

/* As the exit codes of an executable. */
enum {
    PHB_DONE = 0,   /* the outputs are in place */
    PHB_FAILED = 1, /* the job failed; the old outputs are untouched */
    PHB_WRONG = 2   /* the job or an option is wrong; nothing was done */
};

typedef struct PhbResult {
    int status;     /* PHB_DONE, PHB_FAILED, PHB_WRONG */
    char *text;     /* PHB_DONE: the summary; else the errors, a line each */
    char *messages; /* warnings, remarks, progress: what an executable prints on stderr; "" where there is nothing to say */
} PhbResult;

typedef struct PhbRun {
    const char *const *options;    /* of `add --help` that concern a run: "--pods=2", ...; NULL ends them. NULL: none */
    const char *folder;            /* what relative paths in a job given as text start from; NULL: the current folder */
    int (*is_cancelled)(void *context); /* asked at times, from the calling thread: not 0 ends the job as failed. NULL: never */
    void *context;
} PhbRun;

/* Runs the job in the file at `path`, or in the text `json`, and waits for its end. `run` may be NULL. The result is the caller's, for phb_result_free. */
PhbResult phb_run_file(const PhbProgram *program, const char *path, const PhbRun *run);
PhbResult phb_run_text(const PhbProgram *program, const char *json, const PhbRun *run);
void phb_result_free(PhbResult *result);

/* The kernels with their dims, tensors and scalars, as JSON: what `add --info=json` prints. For free(); NULL: no memory. */
char *phb_info(const PhbProgram *program);

#ifdef __cplusplus
}
#endif

#endif

/* Two libraries of kernels in one program: jobs in several threads at once, and every way to be wrong. Prints nothing unless something is. */
#include "add.h"
#include "saxpy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(int status, const char *text, PhbResult result, const char *what) {
    if (result.status != status || !result.text || !result.messages || !strstr(result.text, text)) {
        fprintf(stderr, "%s: status %d, expected %d; said '%s', expected '%s'\n", what, result.status, status, result.text, text);
        failures++;
    }
    phb_result_free(&result);
}

static int always(void *context) {
    ++*(int *)context;
    return 1;
}

typedef struct Caller {
    const char *job;
    char text[4096];
    int wrong;
} Caller;

static void *call(void *context) {
    Caller *caller = context;
    for (int i = 0; i < 3; i++) {
        PhbResult result = phb_run_text(&add_program, caller->text, NULL);
        caller->wrong += result.status != PHB_DONE;
        if (result.status != PHB_DONE)
            fprintf(stderr, "%s", result.text);
        phb_result_free(&result);
    }
    return NULL;
}

/* argv: job.json, then folders with a.npy and b.npy to which c.npy comes. */
int main(int argc, char **argv) {
    int asked = 0;
    const char *const two_pods[] = {"--pods=2", "--threads", "1", NULL}, *const unknown[] = {"--pod=2", NULL}, *const plan[] = {"--plan", NULL};
    const char *const sched[] = {"--role=sched", NULL};
    expect(PHB_DONE, "tiles in", phb_run_file(&add_program, argv[1], &(PhbRun){.options = two_pods}), "a job");
    expect(PHB_WRONG, "cannot open the job file", phb_run_file(&add_program, "/nonexistent", NULL), "no job file");
    expect(PHB_WRONG, "did you mean \"--pods\"?", phb_run_file(&add_program, argv[1], &(PhbRun){.options = unknown}), "an unknown option");
    expect(PHB_WRONG, "--plan runs no job", phb_run_file(&add_program, argv[1], &(PhbRun){.options = plan}), "a plan");
    expect(PHB_WRONG, "--role runs no job", phb_run_file(&add_program, argv[1], &(PhbRun){.options = sched}), "a role");
    expect(PHB_WRONG, "job:1:1: tensor \"a\" is missing", phb_run_text(&add_program, "{}", NULL), "an empty job");
    expect(PHB_WRONG, "job:1:2:", phb_run_text(&add_program, "{x", NULL), "no JSON");
    expect(PHB_WRONG, "no kernel \"add\"", phb_run_text(&saxpy_program, "{\"kernel\": \"add\"}", NULL), "another library's kernel");
    expect(PHB_FAILED, "interrupted", phb_run_file(&add_program, argv[1], &(PhbRun){.is_cancelled = always, .context = &asked}), "a cancelled job");
    if (!asked) {
        fprintf(stderr, "nobody asked whether the job is cancelled\n");
        failures++;
    }
    char *info = phb_info(&saxpy_program);
    if (!info || !strstr(info, "\"saxpy\"")) {
        fprintf(stderr, "phb_info: %s\n", info);
        failures++;
    }
    free(info);

    enum { MOST = 8 };
    Caller callers[MOST];
    pthread_t threads[MOST];
    int count = argc - 2 < MOST ? argc - 2 : MOST;
    for (int i = 0; i < count; i++) {
        callers[i].wrong = 0;
        snprintf(callers[i].text, sizeof callers[i].text,
            "{\"tensors\": {\"a\": \"%s/a.npy\", \"b\": \"%s/b.npy\", \"c\": \"%s/c.npy\"}}", argv[i + 2], argv[i + 2], argv[i + 2]);
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        failures += callers[i].wrong;
    }
    return failures != 0;
}

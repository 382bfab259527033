/* What Slurm says of a job in its environment, for roles whose options leave it open. */
#include "runtime/slurm.h"
#include "runtime/net/socket.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

char *slurm_first_host(const char *list) {
    char *host = new_zeroed(strlen(list) + 1, 1);
    size_t length = 0;
    for (const char *at = list; *at != '\0' && *at != ','; at++) {
        if (*at != '[') {
            host[length++] = *at;
            continue;
        }
        size_t number = strcspn(++at, "-,]");
        memcpy(host + length, at, number);
        length += number;
        at += strcspn(at, "]");
        if (*at == '\0')
            break;
    }
    return host;
}

static bool positive(const char *text, int *value) {
    char *end;
    long number = text != NULL ? strtol(text, &end, 10) : 0;
    *value = (int)number;
    return text != NULL && *text != '\0' && *end == '\0' && number > 0 && number < INT_MAX;
}

int slurm_pods(FILE *out) {
    static const char *const variables[] = {"SLURM_NTASKS", "SLURM_JOB_NUM_NODES"};
    int count;
    for (int i = 0; i < 2; i++)
        if (positive(getenv(variables[i]), &count)) {
            fprintf(out, "slurm: the job begins with %d pod%s (%s)\n", count, count > 1 ? "s" : "", variables[i]);
            return count;
        }
    return 0;
}

char *slurm_node_name(FILE *out) {
    const char *node = getenv("SLURMD_NODENAME"), *task = getenv("SLURM_LOCALID");
    if (node == NULL || *node == '\0' || getenv("SLURM_STEP_ID") == NULL)
        return NULL;
    bool several = task != NULL && strcmp(task, "0") != 0;
    char *name = format_text("%s%s%s", node, several ? "." : "", several ? task : "");
    fprintf(out, "slurm: this pod is %s (SLURMD_NODENAME%s)\n", name, several ? ", SLURM_LOCALID" : "");
    return name;
}

char *slurm_scheduler(FILE *out) {
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    if (nodes == NULL || *nodes == '\0' || getenv("SLURM_STEP_ID") == NULL)
        return NULL;
    char *host = slurm_first_host(nodes), *address = format_text("tcp://%s:%s", host, DEFAULT_SCHED_PORT);
    free(host);
    fprintf(out, "slurm: the scheduler is at %s, the first of SLURM_JOB_NODELIST\n", address);
    return address;
}

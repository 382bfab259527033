/* Which devices a job's pods run on: what --device asks for, or what this machine has and the executable has code for. */
#include "runtime/device/device.h"
#include "runtime/sched/sched.h"

#include <stdlib.h>
#include <string.h>

static bool has_code(const PhbKernel *kernel, DeviceClass class) {
    for (int v = 0; v < kernel->variant_count; v++)
        if (variant_has_code(&kernel->variants[v], class))
            return true;
    return false;
}

static void add(DeviceSet *set, const DeviceType *type, DeviceClass class, int number) {
    set->class = class;
    set->items[set->count++] = (DeviceChoice){.type = type, .number = number};
}

static void add_card(DeviceSet *set, int number, const CudaCard *card) {
    add(set, &cuda_device, CLASS_GPU, number);
    set->items[set->count - 1].card = *card;
    set->arch = set->items[0].card.arch;
}

static bool choose_card(const PhbKernel *kernel, int number, DeviceSet *set, Error *error) {
    CudaCard card;
    int count = cuda_count(error);
    if (count < 0)
        return false;
    if (number >= count)
        return error_set(error, "--device=cuda:%d: there %s %d card%s here", number, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    if (!cuda_runs(number, kernel, NULL, &card, error))
        return false;
    add_card(set, number, &card);
    return true;
}

/* Every card that can run the kernel and is of the first one's architecture; else the CPU, and `reason` says why. */
static void choose_best(const PhbKernel *kernel, bool mixed, DeviceSet *set) {
    Error error;
    CudaCard card;
    set->missed = has_code(kernel, CLASS_GPU);
    int count = set->missed ? cuda_count(&error) : 0;
    if (!set->missed)
        error_set(&error, "no code for GPUs is embedded");
    else if (count == 0)
        error_set(&error, "no card is visible");
    for (int c = 0; c < count && c < DEVICE_MOST; c++)
        if (cuda_runs(c, kernel, NULL, &card, &error) && (set->count == 0 || mixed || card.arch == set->arch))
            add_card(set, c, &card);
    if (set->count > 0)
        return;
    add(set, &cpu_device, CLASS_CPU, 0);
    set->reason = error;
}

bool device_select(const char *wanted, const PhbKernel *kernel, bool mixed, DeviceSet *set, Error *error) {
    *set = (DeviceSet){.count = 0};
    if (wanted == NULL || strcmp(wanted, "auto") == 0) {
        choose_best(kernel, mixed, set);
        return true;
    }
    if (strncmp(wanted, "cuda:", 5) == 0)
        return choose_card(kernel, atoi(wanted + 5), set, error);
    if (strcmp(wanted, "simt") == 0) {
        add(set, &simt_device, CLASS_SIMT, 0);
        return has_code(kernel, CLASS_SIMT) || error_set(error, "no code of kernel '%s' for the simulator is embedded; compile with --simt", kernel->name);
    }
    add(set, &cpu_device, CLASS_CPU, 0);
    if (has_code(kernel, CLASS_CPU))
        return true;
    return error_set(error, "kernel '%s' has no code for the CPU", kernel->name);
}

void device_bar(const DeviceSet *set, Job *job) {
    int count = job->kernel->variant_count;
    bool *runs = new_zeroed((size_t)count, sizeof *runs);
    memset(runs, 1, (size_t)count);
    for (int d = 0; d < set->count && set->class == CLASS_GPU; d++) {
        CudaCard card;
        Error ignored; /* a card that is gone by now says so when it is opened */
        cuda_runs(set->items[d].number, job->kernel, runs, &card, &ignored);
    }
    if (job->barred == NULL)
        job->barred = new_zeroed((size_t)count, sizeof *job->barred);
    for (int v = 0; v < count; v++)
        job->barred[v] |= !runs[v] && variant_has_code(&job->kernel->variants[v], set->class);
    free(runs);
}

const char *device_name(const DeviceChoice *choice) {
    return choice->type == &cuda_device ? choice->card.name : choice->type == &simt_device ? "simulator" : "cpu";
}

int64_t device_memory(const DeviceSet *set, const DeviceChoice *choice, int pods, Error *error) {
    if (set->class != CLASS_GPU)
        return machine_memory() / pods;
    int sharing = (pods + set->count - 1) / set->count;
    int64_t available = cuda_free_memory(choice->number, error);
    return available / 10 * 9 / sharing; /* the driver wants some for itself */
}

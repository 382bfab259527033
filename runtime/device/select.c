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
    set->items[set->count++] = (DeviceChoice){type, number};
}

static bool choose_card(const PhbKernel *kernel, int number, DeviceSet *set, Error *error) {
    int count = cuda_count(error);
    if (count < 0)
        return false;
    if (number >= count)
        return error_set(error, "--device=cuda:%d: there %s %d card%s here", number, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    if (!cuda_runs(number, kernel, error))
        return false;
    add(set, &cuda_device, CLASS_GPU, number);
    return true;
}

/* Every card that can run the kernel; else the CPU, and `reason` says why. */
static void choose_best(const PhbKernel *kernel, DeviceSet *set) {
    Error error;
    int count = has_code(kernel, CLASS_GPU) ? cuda_count(&error) : 0;
    if (!has_code(kernel, CLASS_GPU))
        error_set(&error, "no code for GPUs is embedded");
    else if (count == 0)
        error_set(&error, "no card is visible");
    for (int c = 0; c < count && c < DEVICE_MOST; c++)
        if (cuda_runs(c, kernel, &error))
            add(set, &cuda_device, CLASS_GPU, c);
    if (set->count > 0)
        return;
    add(set, &cpu_device, CLASS_CPU, 0);
    set->reason = error;
}

bool device_select(const char *wanted, const PhbKernel *kernel, DeviceSet *set, Error *error) {
    *set = (DeviceSet){.count = 0};
    if (wanted == NULL || strcmp(wanted, "auto") == 0) {
        choose_best(kernel, set);
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

int64_t device_memory(const DeviceSet *set, const DeviceChoice *choice, int pods, Error *error) {
    if (set->class != CLASS_GPU)
        return machine_memory() / pods;
    int sharing = (pods + set->count - 1) / set->count;
    int64_t available = cuda_free_memory(choice->number, error);
    return available / 10 * 9 / sharing; /* the driver wants some for itself */
}

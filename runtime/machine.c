/* What of the machine this process may use. Cgroups give less than there is, and each that a process is in counts: its own and all above it. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "runtime/runtime.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- cgroups ---- */

/* What one folder allows; INT64_MAX: as much as there is. */
typedef int64_t FolderLimit(const char *folder);

/* The first two numbers of a file, "max" for INT64_MAX; how many there are. */
static int read_numbers(const char *folder, const char *name, int64_t numbers[2]) {
    char path[4096], words[2][32];
    int count = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    int read = fscanf(file, "%31s %31s", words[0], words[1]);
    fclose(file);
    for (char *end; count < read; count++) {
        numbers[count] = strcmp(words[count], "max") == 0 ? INT64_MAX : strtoll(words[count], &end, 10);
        if (numbers[count] != INT64_MAX && (end == words[count] || *end != '\0'))
            break;
    }
    return count;
}

static int64_t memory_limit(const char *folder) {
    static const char *const names[] = {"memory.max", "memory.high", "memory.limit_in_bytes"};
    int64_t least = INT64_MAX, numbers[2];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (read_numbers(folder, names[i], numbers) > 0 && numbers[0] > 0 && numbers[0] < least)
            least = numbers[0];
    return least;
}

/* Time of processors, in whole ones. */
static int64_t processor_limit(const char *folder) {
    int64_t numbers[2], period[2];
    if (read_numbers(folder, "cpu.max", numbers) < 2) {
        if (read_numbers(folder, "cpu.cfs_quota_us", numbers) < 1 || read_numbers(folder, "cpu.cfs_period_us", period) < 1)
            return INT64_MAX;
        numbers[1] = period[0];
    }
    if (numbers[0] <= 0 || numbers[0] == INT64_MAX || numbers[1] <= 0)
        return INT64_MAX;
    return numbers[0] / numbers[1] + (numbers[0] % numbers[1] != 0);
}

/* Of a folder and those above it, up to the mount: in a container the ones above are not to be seen, and the path may be one that leads nowhere. */
static int64_t path_limit(const char *mount, const char *path, FolderLimit *limit) {
    char folder[4096];
    int64_t least = INT64_MAX;
    size_t length = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= (int)sizeof folder)
        return least;
    for (char *end = folder + strlen(folder);; end = strrchr(folder, '/')) {
        *end = '\0';
        int64_t here = limit(folder);
        least = here < least ? here : least;
        if (strlen(folder) <= length)
            return least;
    }
}

static bool lists_controller(const char *controllers, const char *name) {
    size_t length = strlen(name);
    for (const char *at = controllers; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* Of one controller, by each hierarchy that it may be in. `self`: lines "NUMBER:CONTROLLERS:PATH", of the second version without controllers. */
static int64_t controller_limit(const char *mounts, const char *self, const char *name, FolderLimit *limit) {
    char line[4096], mount[4096];
    int64_t least = INT64_MAX;
    FILE *file = fopen(self, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *path = controllers != NULL ? strchr(++controllers, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        bool second = *controllers == '\0';
        if (!second && !lists_controller(controllers, name))
            continue;
        const char *const folders[] = {second ? "" : name, second ? "unified" : controllers};
        for (int i = 0; i < 2; i++) {
            int length = snprintf(mount, sizeof mount, "%s%s%s", mounts, *folders[i] != '\0' ? "/" : "", folders[i]);
            int64_t here = length < (int)sizeof mount ? path_limit(mount, path, limit) : INT64_MAX;
            least = here < least ? here : least;
        }
    }
    if (file != NULL)
        fclose(file);
    return least;
}

int64_t cgroup_memory(const char *mounts, const char *self) {
    return controller_limit(mounts, self, "memory", memory_limit);
}

int64_t cgroup_processors(const char *mounts, const char *self) {
    return controller_limit(mounts, self, "cpu", processor_limit);
}

/* ---- the machine ---- */

#define CGROUPS "/sys/fs/cgroup"
#define CGROUPS_OF_SELF "/proc/self/cgroup"

int64_t machine_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t bytes = pages > 0 && page > 0 ? (int64_t)pages * page : INT64_C(2) << 30, limit = cgroup_memory(CGROUPS, CGROUPS_OF_SELF);
    return limit < bytes ? limit : bytes;
}

int64_t machine_memory(void) {
    return machine_bytes() / 2;
}

bool machine_holds(int64_t bytes, Error *error) {
    int64_t most = machine_bytes();
    return bytes <= most ||
           error_set(error, "tiles would take %" PRId64 " bytes of memory, of which this process may have %" PRId64 "; say a smaller --memory", bytes,
               most);
}

int machine_processors(void) {
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t count = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : online > 0 ? online : 1;
    int64_t limit = cgroup_processors(CGROUPS, CGROUPS_OF_SELF);
    return (int)(limit < count ? limit : count);
}

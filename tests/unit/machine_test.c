/* What cgroups allow, in hierarchies as either version has them, whole and as containers see them. */
#include "runtime/runtime.h"

#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/phobos-machine-XXXXXX";

static void setup(void) {
    memcpy(folder, "/tmp/phobos-machine-XXXXXX", sizeof folder);
    ck_assert(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void teardown(void) {
    char *command = format_text("rm -rf '%s'", folder);
    ck_assert(chdir("/") == 0 && system(command) == 0);
    free(command);
}

/* A file and the folders above it. */
static void put(const char *path, const char *text) {
    char folders[PATH_MAX];
    for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
        memcpy(folders, path, (size_t)(slash - path));
        folders[slash - path] = '\0';
        mkdir(folders, 0700);
    }
    FILE *file = fopen(path, "w");
    ck_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static const struct {
    const char *self;
    const char *files[10];      /* path, text, ... */
    int64_t memory, processors; /* INT64_MAX: no limit */
} cases[] = {
    /* no cgroups; no limits; files that say nothing that is a number */
    {"", {NULL}, INT64_MAX, INT64_MAX},
    {"0::/a\n", {"m/a/memory.max", "max\n", "m/a/cpu.max", "max 100000\n"}, INT64_MAX, INT64_MAX},
    {"0::/a\n", {"m/a/memory.max", "lots\n", "m/a/cpu.max", "12x 100000\n"}, INT64_MAX, INT64_MAX},
    {"nonsense\n5\n:\n::\n", {"m/memory.max", "1\n"}, 1, INT64_MAX},
    /* second version: its own, one above, the least of all, what throttles; parts of a processor are a whole one */
    {"0::/a/b\n", {"m/a/b/memory.max", "4096\n", "m/a/b/cpu.max", "150000 100000\n"}, 4096, 2},
    {"0::/a/b\n", {"m/a/memory.max", "8192\n", "m/a/b/memory.max", "max\n", "m/a/cpu.max", "10000 100000\n"}, 8192, 1},
    {"0::/a/b\n", {"m/a/memory.max", "8192\n", "m/a/b/memory.max", "9000\n", "m/memory.max", "10000\n"}, 8192, INT64_MAX},
    {"0::/a\n", {"m/a/memory.max", "8192\n", "m/a/memory.high", "5000\n"}, 5000, INT64_MAX},
    {"0::/\n", {"m/memory.max", "7\n", "m/cpu.max", "400000 100000\n"}, 7, 4},
    /* a container that sees its own part alone, whatever its path says */
    {"0::/machine/box\n", {"m/memory.max", "123456\n"}, 123456, INT64_MAX},
    {"0::/../..\n", {"m/memory.max", "123456\n"}, 123456, INT64_MAX},
    /* first version, and both side by side */
    {"3:cpu,cpuacct:/c\n4:memory:/a\n1:name=systemd:/a\n",
        {"m/memory/a/memory.limit_in_bytes", "5555\n", "m/cpu,cpuacct/c/cpu.cfs_quota_us", "300000\n", "m/cpu,cpuacct/c/cpu.cfs_period_us",
            "100000\n"},
        5555, 3},
    {"3:cpuacct,cpu:/c\n", {"m/cpu/c/cpu.cfs_quota_us", "-1\n", "m/cpu/c/cpu.cfs_period_us", "100000\n"}, INT64_MAX, INT64_MAX},
    {"4:memory:/docker/1\n0::/\n", {"m/memory/memory.limit_in_bytes", "9223372036854771712\n"}, 9223372036854771712, INT64_MAX},
    {"4:memory:/a\n0::/u\n", {"m/memory/a/memory.limit_in_bytes", "5555\n", "m/unified/u/memory.max", "4444\n"}, 4444, INT64_MAX},
    {"4:memories:/a\n", {"m/memory/a/memory.limit_in_bytes", "5555\n"}, INT64_MAX, INT64_MAX},
};

START_TEST(limits_are_found) {
    put("self", cases[_i].self);
    for (int f = 0; cases[_i].files[f] != NULL; f += 2)
        put(cases[_i].files[f], cases[_i].files[f + 1]);
    char *mounts = format_text("%s/m", folder);
    ck_assert_int_eq(cgroup_memory(mounts, "self"), cases[_i].memory);
    ck_assert_int_eq(cgroup_processors(mounts, "self"), cases[_i].processors);
    free(mounts);
}
END_TEST

START_TEST(machine_is_there) {
    Error error;
    ck_assert_int_gt(machine_bytes(), 0);
    ck_assert_int_ge(machine_processors(), 1);
    ck_assert(machine_holds(machine_bytes(), &error) && !machine_holds(machine_bytes() + 1, &error) && strstr(error.text, "--memory") != NULL);
    ck_assert_int_eq(cgroup_memory("/nowhere", "/nowhere/self"), INT64_MAX);
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("machine");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, limits_are_found, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tests, machine_is_there);
    Suite *suite = suite_create("machine");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

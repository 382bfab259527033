/* The journal: what is written comes back, what was not written to the end was not written, and nothing else is believed. */
#include "runtime/sched/journal.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/phobos-journal-XXXXXX", path[64];

static void setup(void) {
    memcpy(folder, "/tmp/phobos-journal-XXXXXX", sizeof folder);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.phobos-journal", folder);
}

static void teardown(void) {
    char *command = format_text("rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    free(command);
}

static const JournalPlan plan = {
    .build_id = {1, 2, 3, [15] = 255},
    .generation = 7,
    .dims_count = 2,
    .tensors_count = 2,
    .job_hash = 0x0123456789abcdef,
    .units = 1000,
    .variants = {2, -1, 0},
    .dims = {INT64_MAX, -1},
    .tensors = {{.seen = 42}, {.staging = "/data/.c.npy.0123.part"}},
};

static const JournalStored batches[] = {
    {.first = 0, .count = 10, .step = 1, .checksum = UINT64_MAX, .device = CLASS_CPU},
    {.first = 1, .count = 333, .step = 3, .checksum = 1, .device = CLASS_GPU, .arch = 90},
    {.first = 999, .count = 1, .step = 1, .device = CLASS_SIMT},
};
enum { BATCHES = sizeof batches / sizeof *batches };

static const JournalPublish publish = {.tensors_count = 2, .tensors = {[1] = {.inode = 99, .staging = "/data/.c.npy.4567.part"}}};

static uint8_t *read_file(size_t *size) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    ck_assert(file != NULL && bytes != NULL);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static Journal *begin(size_t count) {
    Error error = {""};
    Journal *journal = journal_new(path, &plan, batches, count, &error);
    ck_assert_msg(journal != NULL, "%s", error.text);
    return journal;
}

static JournalState *read_back(void) {
    Error error = {""};
    JournalState *state;
    ck_assert_msg(journal_read(path, &state, &error), "%s", error.text);
    return state;
}

static void same_plan(const JournalPlan *found) {
    ck_assert_int_eq(memcmp(found->build_id, plan.build_id, sizeof plan.build_id), 0);
    ck_assert(found->generation == plan.generation && found->job_hash == plan.job_hash && found->units == plan.units);
    ck_assert(found->dims_count == 2 && found->dims[0] == INT64_MAX && found->dims[1] == -1);
    ck_assert(found->variants[0] == 2 && found->variants[1] == -1 && found->variants[2] == 0);
    ck_assert(found->tensors_count == 2 && found->tensors[0].seen == 42);
    ck_assert_str_eq(found->tensors[0].staging, "");
    ck_assert_str_eq(found->tensors[1].staging, plan.tensors[1].staging);
}

static void same_stored(const JournalStored *found, const JournalStored *expected) {
    ck_assert(found->first == expected->first && found->count == expected->count && found->step == expected->step &&
              found->checksum == expected->checksum && found->device == expected->device && found->arch == expected->arch);
}

START_TEST(comes_back) {
    Error error = {""};
    Journal *journal = begin(1);
    for (int i = 1; i < BATCHES; i++)
        ck_assert(journal_stored(journal, &batches[i], &error));
    JournalState *state = read_back();
    same_plan(&state->plan);
    ck_assert_uint_eq(state->stored_count, BATCHES);
    for (int i = 0; i < BATCHES; i++)
        same_stored(&state->stored[i], &batches[i]);
    ck_assert(!state->publishing && !state->done);
    journal_state_free(state);
    ck_assert(journal_publish(journal, &publish, &error));
    state = read_back();
    ck_assert(state->publishing && !state->done && state->publish.tensors_count == 2 && state->publish.tensors[1].inode == 99);
    ck_assert_str_eq(state->publish.tensors[1].staging, publish.tensors[1].staging);
    journal_state_free(state);
    struct stat status;
    ck_assert(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600);
    ck_assert(!journal_is_done(journal));
    journal_done(journal);
    ck_assert(journal_is_done(journal));
    state = read_back();
    ck_assert(state->publishing && state->done && state->publish.tensors[1].inode == 99);
    journal_state_free(state);
    journal_remove(journal);
    journal_free(journal);
    ck_assert_ptr_null(read_back());
    ck_assert_int_eq(rmdir(folder), 0); /* nothing is left in it */
    ck_assert_int_eq(mkdir(folder, 0700), 0);
}
END_TEST

/* A later one takes the place of an earlier one, whatever that was, and of one that somebody was writing. */
START_TEST(is_written_anew) {
    char *other = format_text("%s.new", path);
    ck_assert_int_eq(close(open(other, O_CREAT | O_WRONLY, 0600)), 0);
    free(other);
    journal_free(begin(BATCHES));
    journal_free(begin(1));
    JournalState *state = read_back();
    ck_assert_uint_eq(state->stored_count, 1);
    journal_state_free(state);
}
END_TEST

/* Where it is cut off, what stands before counts and what stands behind does not. */
START_TEST(torn_anywhere) {
    Error error = {""};
    size_t size, ends[BATCHES + 3];
    Journal *journal = begin(0);
    free(read_file(&ends[0]));
    for (int i = 0; i < BATCHES; i++) {
        ck_assert(journal_stored(journal, &batches[i], &error));
        free(read_file(&ends[i + 1]));
    }
    ck_assert(journal_publish(journal, &publish, &error));
    journal_free(journal);
    uint8_t *bytes = read_file(&size);
    for (size_t length = 0; length <= size; length++) {
        bool fine;
        uint8_t *part = malloc(length + 1);
        memcpy(part, bytes, length);
        JournalState *state = journal_fold(part, length, &fine);
        free(part);
        ck_assert(fine);
        ck_assert((state != NULL) == (length >= ends[0]));
        if (state == NULL)
            continue;
        size_t whole = 0;
        while (whole < BATCHES && length >= ends[whole + 1])
            whole++;
        ck_assert_uint_eq(state->stored_count, whole);
        ck_assert(state->publishing == (length == size));
        journal_state_free(state);
    }
    free(bytes);
}
END_TEST

/* One wrong bit: the record that it is in and all behind it are gone. */
START_TEST(wrong_bits) {
    size_t size, planned;
    journal_free(begin(0));
    free(read_file(&planned));
    journal_free(begin(BATCHES));
    uint8_t *bytes = read_file(&size);
    size_t record = (size - planned) / BATCHES;
    for (size_t at = 0; at < size; at++) {
        bool fine;
        bytes[at] ^= (uint8_t)(1u << at % 8);
        JournalState *state = journal_fold(bytes, size, &fine);
        bytes[at] ^= (uint8_t)(1u << at % 8);
        ck_assert(fine == (at >= JOURNAL_MAGIC_BYTES));
        ck_assert((state != NULL) == (at >= planned));
        ck_assert(state == NULL || state->stored_count == (at - planned) / record);
        journal_state_free(state);
    }
    free(bytes);
}
END_TEST

/* What cannot stand there is refused, not passed over. */
START_TEST(wrong_order) {
    enum { PLAN, STORED, PUBLISH, DONE, KINDS };
    static JournalRecord records[KINDS];
    static uint8_t bytes[4 * JOURNAL_RECORD_BYTES];
    records[PLAN] = (JournalRecord){.kind = JOURNAL_PLAN, .plan = plan};
    records[STORED] = (JournalRecord){.kind = JOURNAL_STORED, .stored = batches[0]};
    records[PUBLISH] = (JournalRecord){.kind = JOURNAL_PUBLISH, .publish = publish};
    records[DONE] = (JournalRecord){.kind = JOURNAL_DONE};
    static const struct {
        int count, kinds[4];
        bool fine;
    } orders[] = {
        {1, {PLAN}, true},
        {4, {PLAN, STORED, PUBLISH, DONE}, true},
        {3, {PLAN, PUBLISH, DONE}, true},
        {1, {STORED}, false},
        {1, {PUBLISH}, false},
        {1, {DONE}, false},
        {2, {PLAN, PLAN}, false},
        {2, {PLAN, DONE}, false},
        {3, {PLAN, PUBLISH, STORED}, false},
        {3, {PLAN, PUBLISH, PUBLISH}, false},
        {4, {PLAN, PUBLISH, DONE, DONE}, false},
    };
    memcpy(bytes, "PHBJRN1", JOURNAL_MAGIC_BYTES);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        size_t size = JOURNAL_MAGIC_BYTES;
        for (int r = 0; r < orders[i].count; r++)
            size += journal_encode(&records[orders[i].kinds[r]], (int64_t)size, bytes + size);
        bool fine;
        JournalState *state = journal_fold(bytes, size, &fine);
        ck_assert_msg(fine == orders[i].fine && (state != NULL) == fine, "order %zu", i);
        journal_state_free(state);
    }
}
END_TEST

static const JournalStored impossible[] = {
    {.first = 0, .count = 0, .step = 1},
    {.first = 0, .count = 2, .step = 0},
    {.first = 1000, .count = 1, .step = 1},
    {.first = 0, .count = 1001, .step = 1},
    {.first = 999, .count = 2, .step = 1},
    {.first = 1, .count = 2, .step = UINT64_MAX},
    {.first = 1, .count = UINT64_MAX, .step = UINT64_MAX},
    {.first = 0, .count = 1, .step = 1, .device = CLASS_COUNT},
};

START_TEST(impossible_batches) {
    Error error = {""};
    JournalState *state;
    Journal *journal = begin(1);
    ck_assert(journal_stored(journal, &impossible[_i], &error));
    journal_free(journal);
    ck_assert(!journal_read(path, &state, &error) && state == NULL);
    ck_assert_ptr_nonnull(strstr(error.text, "is no journal of this version"));
}
END_TEST

START_TEST(no_journal) {
    Error error = {""};
    JournalState *state;
    ck_assert_ptr_null(read_back());
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* whose opening must not wait */
    ck_assert(!journal_read(path, &state, &error) && strstr(error.text, "is no journal") != NULL);
    ck_assert(unlink(path) == 0 && symlink("/etc/passwd", path) == 0);
    ck_assert(!journal_read(path, &state, &error) && strstr(error.text, "cannot open the journal") != NULL);
    ck_assert(unlink(path) == 0 && close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    ck_assert_ptr_null(read_back());
    ck_assert_int_eq(truncate(path, JOURNAL_MAX_BYTES + 1), 0);
    ck_assert(!journal_read(path, &state, &error) && strstr(error.text, "is no journal") != NULL);
}
END_TEST

/* A disk that takes no more: what is there stays right, and it goes on when there is room. */
START_TEST(full_disk) {
    Error error = {""};
    size_t size;
    struct rlimit old, limit;
    signal(SIGXFSZ, SIG_IGN);
    Journal *journal = begin(1);
    free(read_file(&size));
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){size + 20, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit); /* which holds for what libcheck writes, too */
    bool stored = journal_stored(journal, &batches[1], &error);
    Error publishing = {""}, another = {""};
    bool published = journal_publish(journal, &publish, &publishing);
    Journal *second = journal_new(path, &plan, batches, BATCHES, &another);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert(!stored && !published && second == NULL);
    ck_assert_ptr_nonnull(strstr(error.text, "cannot write the journal"));
    JournalState *state = read_back();
    ck_assert(state->stored_count == 1 && !state->publishing);
    journal_state_free(state);
    ck_assert(journal_stored(journal, &batches[2], &error));
    journal_free(journal);
    state = read_back();
    ck_assert_uint_eq(state->stored_count, 2);
    same_stored(&state->stored[1], &batches[2]);
    journal_state_free(state);
    char *other = format_text("%s.new", path);
    ck_assert_int_ne(access(other, F_OK), 0);
    free(other);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("journal");
    TCase *tests = tcase_create("journal");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, comes_back);
    tcase_add_test(tests, is_written_anew);
    tcase_add_test(tests, torn_anywhere);
    tcase_add_test(tests, wrong_bits);
    tcase_add_test(tests, wrong_order);
    tcase_add_loop_test(tests, impossible_batches, 0, sizeof impossible / sizeof *impossible);
    tcase_add_test(tests, no_journal);
    tcase_add_test(tests, full_disk);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

/* The store: what is written comes back, also where a region is moved in several pieces by several threads; failures are told once for each task. */
#include "runtime/checksum.h"
#include "runtime/pod/pod.h"
#include "tests/unit/random_job.h"

#include <check.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAPACITY = 8 };

static sem_t an_end;
static _Atomic int ended[CAPACITY], failed[CAPACITY];
static Error error;

static void note_end(void *context, uint32_t instruction, const Error *failure) {
    (void)context;
    ended[instruction]++;
    failed[instruction] += failure != NULL;
    sem_post(&an_end);
}

static void wait_end(void) {
    while (sem_wait(&an_end) != 0)
        continue;
}

static void setup(void) {
    memset((void *)ended, 0, sizeof ended);
    memset((void *)failed, 0, sizeof failed);
    sem_init(&an_end, 0, 0);
}

/* A file that is read and written through the same descriptor, so that what was stored can be loaded. */
static TensorFile open_file(int rank, const int64_t *shape) {
    char path[] = "/tmp/phobos-test-XXXXXX";
    TensorFile file = {.path = "test", .dtype = PHB_F32, .rank = rank, .shape = {1, 1, 1, 1}, .exists = true, .lock_fd = -1};
    file.old_fd = file.staging_fd = mkstemp(path);
    ck_assert_int_ge(file.old_fd, 0);
    unlink(path);
    int64_t bytes = 4;
    for (int k = 0; k < rank; k++)
        bytes *= file.shape[k] = shape[k];
    file.file_size = bytes;
    ck_assert_int_eq(ftruncate(file.old_fd, bytes), 0);
    return file;
}

/* A device with memory of its own: its addresses are the host's, moved where nothing lies. */
#define FAR ((uintptr_t)1 << 62)
enum { MOST_LANE_BYTES = 1 << 20 };

struct DeviceLane {
    size_t bytes;
    char buffer[MOST_LANE_BYTES];
};

static DeviceLane *lane_open(Device *device, size_t bytes, void **buffer, Error *failure) {
    (void)device;
    (void)failure;
    ck_assert_uint_le(bytes, MOST_LANE_BYTES);
    DeviceLane *lane = new_zeroed(1, sizeof *lane);
    lane->bytes = bytes;
    *buffer = lane->buffer;
    return lane;
}

static bool lane_in(DeviceLane *lane, void *to, size_t bytes, Error *failure) {
    (void)failure;
    ck_assert_uint_le(bytes, lane->bytes);
    memcpy((void *)((uintptr_t)to - FAR), lane->buffer, bytes);
    return true;
}

static bool lane_out(DeviceLane *lane, const void *from, size_t bytes, Error *failure) {
    (void)failure;
    ck_assert_uint_le(bytes, lane->bytes);
    memcpy(lane->buffer, (const void *)((uintptr_t)from - FAR), bytes);
    return true;
}

static void lane_close(DeviceLane *lane) {
    free(lane);
}

static const DeviceType far_type = {.name = "far", .lane_open = lane_open, .lane_in = lane_in, .lane_out = lane_out, .lane_close = lane_close};
static Device near = {&cpu_device}, far = {&far_type};

static void *device_address(const Device *device, void *host) {
    return device == &far ? (void *)((uintptr_t)host + FAR) : host;
}

static const struct {
    int rank;
    int64_t shape[PHB_MAX_RANK], origin[PHB_MAX_RANK], extent[PHB_MAX_RANK];
} cases[] = {
    {1, {6000000, 1, 1, 1}, {7, 0, 0, 0}, {5900001, 1, 1, 1}}, /* pieces of one row */
    {2, {9, 300000, 1, 1}, {1, 5, 0, 0}, {7, 299990, 1, 1}},   /* a row is longer than a piece */
    {2, {70000, 33, 1, 1}, {3, 2, 0, 0}, {50001, 30, 1, 1}},   /* many rows a piece */
    {3, {3, 500, 700, 1}, {1, 10, 3, 0}, {1, 480, 690, 1}},    /* the first axis has one step */
    {4, {2, 3, 400, 600}, {0, 1, 0, 1}, {2, 2, 400, 599}},
    {1, {10, 1, 1, 1}, {9, 0, 0, 0}, {1, 1, 1, 1}},
};

static void check_region(int c, Device *device) {
    setup();
    TensorFile file = open_file(cases[c].rank, cases[c].shape);
    Region region;
    memcpy(region.origin, cases[c].origin, sizeof region.origin);
    memcpy(region.extent, cases[c].extent, sizeof region.extent);
    const int64_t *extent = region.extent, *origin = region.origin, *shape = cases[c].shape;
    int last = cases[c].rank - 1;
    int64_t row = extent[last] * 4, pitch = (row + PHB_ROW_ALIGN - 1) / PHB_ROW_ALIGN * PHB_ROW_ALIGN, rows = 1;
    for (int k = 0; k < last; k++)
        rows *= extent[k];
    char *written = new_zeroed((size_t)rows, (size_t)pitch), *read = new_zeroed((size_t)rows, (size_t)pitch);
    uint64_t state = 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < row; i++)
            written[r * pitch + i] = (char)random_next(&state);
    Store *store = store_open(3, CAPACITY, device, note_end, NULL, &error);
    ck_assert_msg(store != NULL, "%s", error.text);
    uint64_t checksum = 0;
    StoreTask task = {
        .instruction = 0, .write = true, .file = &file, .rank = file.rank, .element = 4, .region = region, .rows = device_address(device, written), .pitch = pitch};
    task.tensor = 3;
    task.checksum = &checksum;
    store_submit(store, &task);
    wait_end();
    ck_assert_uint_eq(checksum, region_checksum(3, &file, &region, written, pitch));
    task.write = false;
    task.instruction = 1;
    task.rows = device_address(device, read);
    store_submit(store, &task);
    wait_end();
    ck_assert_int_eq(ended[0] * 10 + ended[1], 11);
    ck_assert_int_eq(failed[0] + failed[1], 0);
    for (int64_t r = 0; r < rows; r++)
        ck_assert_mem_eq(written + r * pitch, read + r * pitch, (size_t)row);
    /* Also where the file keeps it: its first and last rows. */
    int64_t first = 0, past = 0;
    for (int k = 0; k <= last; k++) {
        first = first * shape[k] + origin[k];
        past = past * shape[k] + origin[k] + extent[k] - 1;
    }
    char *bytes = new_zeroed((size_t)row, 1);
    ck_assert_int_eq(pread(file.old_fd, bytes, (size_t)row, first * 4), row);
    ck_assert_mem_eq(bytes, written, (size_t)row);
    ck_assert_int_eq(pread(file.old_fd, bytes, (size_t)row, (past + 1) * 4 - row), row);
    ck_assert_mem_eq(bytes, written + (rows - 1) * pitch, (size_t)row);
    store_close(store);
    close(file.old_fd);
    free(bytes);
    free(written);
    free(read);
}

/* One bit, or one place, or another tensor: another sum. */
START_TEST(a_checksum_is_of_bytes_and_places) {
    setup();
    TensorFile file = open_file(2, (int64_t[]){4, 100000});
    float *rows = new_zeroed(2 * 90000, sizeof *rows);
    for (int i = 0; i < 2 * 90000; i++)
        rows[i] = (float)(i % 90000 % 7);
    Region region = {{0, 5, 0, 0}, {2, 90000, 1, 1}}, below = {{1, 5, 0, 0}, {2, 90000, 1, 1}}, beside = {{0, 6, 0, 0}, {2, 90000, 1, 1}};
    uint64_t sum = region_checksum(0, &file, &region, rows, 90000 * 4);
    ck_assert_uint_ne(sum, region_checksum(1, &file, &region, rows, 90000 * 4));
    ck_assert_uint_ne(sum, region_checksum(0, &file, &below, rows, 90000 * 4));
    ck_assert_uint_ne(sum, region_checksum(0, &file, &beside, rows, 90000 * 4));
    for (int i = 0; i < 2 * 90000; i += 1111) {
        ((unsigned char *)&rows[i])[3] ^= 1;
        ck_assert_uint_ne(sum, region_checksum(0, &file, &region, rows, 90000 * 4));
        ((unsigned char *)&rows[i])[3] ^= 1;
    }
    ck_assert_uint_eq(sum, region_checksum(0, &file, &region, rows, 90000 * 4));
    close(file.old_fd);
    free(rows);
}
END_TEST

START_TEST(regions_come_back) {
    check_region(_i, &near);
    check_region(_i, &far);
}
END_TEST

/* Some wait for the file that another one writes to and are passed by those that need not. */
START_TEST(many_writes_to_two_files) {
    setup();
    enum { COUNT = 500000 };
    TensorFile files[2] = {open_file(1, (int64_t[]){CAPACITY * COUNT}), open_file(1, (int64_t[]){CAPACITY * COUNT})};
    Store *store = store_open(3, CAPACITY, &near, note_end, NULL, &error);
    ck_assert_msg(store != NULL, "%s", error.text);
    float *rows = new_zeroed(CAPACITY * COUNT, sizeof *rows), *back = new_zeroed(COUNT, sizeof *back);
    for (int i = 0; i < CAPACITY * COUNT; i++)
        rows[i] = (float)i;
    for (uint32_t i = 0; i < CAPACITY; i++) {
        StoreTask task = {.instruction = i, .write = true, .file = &files[i / 2 % 2], .rank = 1, .element = 4, .pitch = COUNT * 4};
        task.region = (Region){{i * COUNT, 0, 0, 0}, {COUNT, 1, 1, 1}};
        task.rows = rows + i * COUNT;
        store_submit(store, &task);
    }
    for (int i = 0; i < CAPACITY; i++)
        wait_end();
    store_close(store);
    for (int i = 0; i < CAPACITY; i++) {
        ck_assert_int_eq(ended[i] * 10 + failed[i], 10);
        ck_assert_int_eq(pread(files[i / 2 % 2].old_fd, back, COUNT * 4, (off_t)i * COUNT * 4), COUNT * 4);
        ck_assert_mem_eq(back, rows + i * COUNT, COUNT * 4);
    }
    close(files[0].old_fd);
    close(files[1].old_fd);
    free(rows);
    free(back);
}
END_TEST

START_TEST(failures_are_told_once) {
    setup();
    TensorFile file = open_file(1, (int64_t[]){2000000});
    ck_assert_int_eq(ftruncate(file.old_fd, 100), 0);
    Store *store = store_open(2, CAPACITY, &near, note_end, NULL, &error);
    ck_assert_msg(store != NULL, "%s", error.text);
    float *rows = new_zeroed(2000000, sizeof *rows);
    StoreTask task = {.file = &file, .rank = 1, .element = 4, .region = {{0}, {2000000, 1, 1, 1}}, .rows = rows, .pitch = 8000000};
    for (uint32_t i = 0; i < CAPACITY; i++) {
        task.instruction = i;
        store_submit(store, &task);
    }
    for (int i = 0; i < CAPACITY; i++)
        wait_end();
    for (int i = 0; i < CAPACITY; i++) {
        ck_assert_int_eq(ended[i], 1);
        ck_assert_int_eq(failed[i], 1);
    }
    store_close(store);
    close(file.old_fd);
    free(rows);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_checksum_is_of_bytes_and_places);
    tcase_add_loop_test(tests, regions_come_back, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tests, many_writes_to_two_files);
    tcase_add_test(tests, failures_are_told_once);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

/* The CUDA device against a fake driver (tests/fake_cuda): tiles go there and back, launches get their parameters, every refusal and fault is told
 * with its cause and the way out. Each test is a process of its own; the environment chooses the driver before its first call. */
#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"
#include "runtime/sched/sched.h"

#include <check.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAR ((uintptr_t)1 << 62)
enum { ELEMENTS = 1000, LAUNCHES = 4 };

static Error error, failure;
static CudaCard card;
static _Atomic int ended, failed;
static sem_t an_end;

static void note_end(void *context, uint32_t instruction, const Error *cause) {
    (void)context;
    (void)instruction;
    ended++;
    if (cause != NULL) {
        failed++;
        failure = *cause;
    }
    sem_post(&an_end);
}

static void wait_end(void) {
    while (sem_wait(&an_end) != 0)
        continue;
}

/* ---- a kernel: out = in * scale + offset, and what its parameter was ---- */

typedef struct Parameter {
    PhbTensorArg tensors[2];
    uint64_t scale;
    int64_t offset;
    int64_t grid[3], super[3], supers[3];
} Parameter;

/* What the fake driver makes a map of: type, rank, base, swizzle, extents, strides, box. */
static uint64_t seen_maps[2][16];

static unsigned seen_ctas, seen_threads, seen_shared, seen_cluster;

static bool with_maps;

void fake_kernel_scale(const void *parameter, unsigned ctas, unsigned threads, unsigned shared, const unsigned cluster[3]);
void fake_kernel_scale(const void *parameter, unsigned ctas, unsigned threads, unsigned shared, const unsigned cluster[3]) {
    const Parameter *p = parameter;
    seen_ctas = ctas;
    seen_threads = threads;
    seen_shared = shared;
    seen_cluster = cluster[0];
    memcpy(seen_maps, (const char *)parameter + (sizeof *p + 63) / 64 * 64, sizeof seen_maps * (size_t)with_maps);
    ck_assert_int_eq(p->super[2], 5);
    ck_assert_int_eq(p->supers[2], 7);
    const int32_t *in = (const int32_t *)((uintptr_t)p->tensors[0].base - FAR);
    int32_t *out = (int32_t *)((uintptr_t)p->tensors[1].base - FAR);
    for (int64_t i = 0; i < p->tensors[0].extent[0]; i++)
        out[i] = in[i] * (int32_t)p->scale + (int32_t)p->offset;
}

static PhbTensor tensors[2];
static const PhbScalar scalars[1];
static const PhbDim dims[1];
static const PhbStage stages[1];
static const PhbThreadStage code[] = {{.entry = "scale", .threads = 96, .shared = 2048}}, absent[] = {{.entry = "nobody", .threads = 96}},
                            stays[] = {{.entry = "scale", .threads = 96, .shared = 2048, .stays = 1}}, wide[] = {{.entry = "scale", .threads = 2048}},
                            fat[] = {{.entry = "scale", .threads = 96, .shared = 300000}};
static const PhbTensorMap maps[] = {{0, 1, 64, 32, 128, 0}, {1, 0, 8, 16, 64, 0}};
static const PhbThreadStage mapped[] = {{.entry = "scale", .threads = 96, .shared = 2048, .maps = maps, .map_count = 2}};
static const PhbThreadStage *variant_stages = code;

static PhbGpuCode image(int arch, int specific, int machine_code) {
    return (PhbGpuCode){.arch = arch, .specific = specific, .machine_code = machine_code, .image = "", .size = 1, .stages = variant_stages};
}

static PhbKernel make_kernel(const PhbVariant *variant, int cluster) {
    return (PhbKernel){
        .name = "scale",
        .tensors = tensors,
        .tensor_count = 2,
        .scalars = scalars,
        .scalar_count = 1,
        .dims = dims,
        .dim_count = 1,
        .stages = stages,
        .stage_count = 1,
        .cluster_dims = {cluster, 1, 1},
        .variants = variant,
        .variant_count = 1,
    };
}

static PhbGpuCode images[4];
static PhbVariant variant;
static PhbKernel kernel;

static Device *open_device(int cluster) {
    sem_init(&an_end, 0, 0);
    images[0] = image(80, 0, 0);
    variant = (PhbVariant){.gpu = images, .gpu_count = 1};
    kernel = make_kernel(&variant, cluster);
    DeviceOptions options = {.kernel = &kernel, .launches = LAUNCHES, .done = note_end};
    return cuda_device.open(&variant, &options, &error);
}

/* Runs the kernel on fresh numbers; false where the launch failed. */
static bool run(Device *device, int64_t ctas) {
    void *buffer;
    int32_t in[ELEMENTS];
    char *memory = cuda_device.alloc(device, 2 * sizeof in, &error);
    ck_assert_msg(memory != NULL, "%s", error.text);
    DeviceLane *lane = cuda_device.lane_open(device, sizeof in, &buffer, &error);
    ck_assert_msg(lane != NULL, "%s", error.text);
    for (int i = 0; i < ELEMENTS; i++)
        in[i] = i * 7919 % 1000;
    memcpy(buffer, in, sizeof in);
    ck_assert_msg(cuda_device.lane_in(lane, memory, sizeof in, &error), "%s", error.text);
    const PhbTensorArg arguments[2] = {{.base = memory, .extent = {ELEMENTS, 1, 1, 1}}, {.base = memory + sizeof in, .extent = {ELEMENTS, 1, 1, 1}}};
    const uint64_t scale = 3;
    const int64_t offset = 11;
    const PhbLaunch launch = {arguments, &scale, &offset, {ctas, 1, 1}, {0, 0, 5}, {1, 1, 7}};
    failed = 0;
    cuda_device.launch(device, 0, 0, &launch);
    wait_end();
    if (failed == 0) {
        ck_assert_msg(cuda_device.lane_out(lane, memory + sizeof in, sizeof in, &error), "%s", error.text);
        for (int i = 0; i < ELEMENTS; i++)
            ck_assert_int_eq(((int32_t *)buffer)[i], in[i] * 3 + 11);
    }
    cuda_device.lane_close(lane);
    return failed == 0;
}

START_TEST(leaves_run) {
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    ck_assert_str_eq(cuda_device.describe(device), "cuda:0 Fake Card, sm_80");
    ck_assert(run(device, 17));
    ck_assert_uint_eq(seen_ctas, 17);
    ck_assert_uint_eq(seen_threads, 96);
    ck_assert_uint_eq(seen_shared, 2048);
    cuda_device.close(device);
}
END_TEST

/* Maps lie behind the parameter, their axes from the last one on; what is empty is said to be 1. */
START_TEST(maps_are_made) {
    tensors[0] = (PhbTensor){.name = "in", .dtype = PHB_F16, .rank = 3};
    tensors[1] = (PhbTensor){.name = "out", .dtype = PHB_F32, .rank = 2};
    variant_stages = mapped;
    with_maps = true;
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    char *memory = cuda_device.alloc(device, 4096, &error);
    PhbTensorArg arguments[2] = {{.base = memory, .extent = {0, 40, 30}, .pitch = 128}, {.base = memory + 2048, .extent = {0, 7}, .pitch = 256}};
    const uint64_t scale = 1;
    const int64_t offset = 0;
    const PhbLaunch launch = {arguments, &scale, &offset, {1, 1, 1}, {0, 0, 5}, {1, 1, 7}};
    cuda_device.launch(device, 0, 0, &launch);
    wait_end();
    ck_assert_msg(failed == 0, "%s", failure.text);
    const uint64_t wanted[2][12] = {
        {CUDA_MAP_U16, 3, (uint64_t)(uintptr_t)memory, CUDA_MAP_SWIZZLE_128, 30, 40, 1, 128, 128 * 40, 32, 64, 1},
        {CUDA_MAP_U32, 2, (uint64_t)(uintptr_t)memory + 2048, CUDA_MAP_SWIZZLE_64, 7, 1, 0, 256, 0, 16, 8, 0}};
    for (int i = 0; i < 2; i++)
        ck_assert_mem_eq(seen_maps[i], wanted[i], sizeof wanted[i]);
    arguments[1].extent[0] = (int64_t)INT32_MAX + 1;
    cuda_device.launch(device, 0, 0, &launch);
    wait_end();
    ck_assert_msg(strstr(failure.text, "a super-tile of 'out' has 2147483648 elements along axis 0") != NULL, "%s", failure.text);
    arguments[1].extent[0] = 1;
    setenv("FAKE_CUDA_FAIL", "cuTensorMapEncodeTiled=1", 1);
    cuda_device.launch(device, 0, 0, &launch);
    wait_end();
    ck_assert_msg(strstr(failure.text, "cannot make a tensor map of 'in' for kernel 'scale': CUDA_FAKE_1") != NULL, "%s", failure.text);
    cuda_device.close(device);
}
END_TEST

START_TEST(clusters_run) {
    Device *device = open_device(4);
    ck_assert_msg(device != NULL, "%s", error.text);
    ck_assert(run(device, 16));
    ck_assert_uint_eq(seen_cluster, 4);
    cuda_device.close(device);
}
END_TEST

START_TEST(ragged_clusters_are_refused) {
    Device *device = open_device(4);
    ck_assert_msg(device != NULL, "%s", error.text);
    ck_assert(!run(device, 18));
    ck_assert_msg(strstr(failure.text, "launches 18 CTAs along ctx.block.x, which its clusters of 4 do not divide") != NULL, "%s", failure.text);
    cuda_device.close(device);
}
END_TEST

START_TEST(images_are_chosen) {
    variant_stages = code;
    images[0] = image(80, 0, 0);
    images[1] = image(90, 1, 0);
    images[2] = image(90, 0, 1);
    images[3] = image(86, 0, 1);
    const PhbVariant all = {.gpu = images, .gpu_count = 4};
    ck_assert_ptr_eq(cuda_choose_code(&all, 9, 0), &images[1]);
    ck_assert_ptr_eq(cuda_choose_code(&all, 8, 0), &images[0]);
    ck_assert_ptr_eq(cuda_choose_code(&all, 8, 6), &images[3]);
    ck_assert_ptr_eq(cuda_choose_code(&all, 8, 9), &images[3]);
    ck_assert_ptr_eq(cuda_choose_code(&all, 10, 0), &images[0]); /* machine code and sm_90a do not run there */
    ck_assert_ptr_null(cuda_choose_code(&all, 7, 5));
}
END_TEST

/* What opening says under a driver that is so; NULL: it opens. */
static const struct {
    const char *name, *value, *wanted;
    const PhbThreadStage *stages;
    int cluster;
} opens[] = {
    {"FAKE_CUDA_FAIL", "cuInit=100", "the CUDA driver does not start: CUDA_FAKE_100 (planted): no card is visible", code, 1},
    {"FAKE_CUDA_FAIL", "cuDriverGetVersion=3", "the CUDA driver does not start: CUDA_FAKE_3", code, 1},
    {"FAKE_CUDA_CARDS", "0", "cuda:0 card: CUDA_FAKE_101 (planted), driver CUDA 12.4: the card that --device names is not there", code, 1},
    {"FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain=2", "cuda:0 Fake Card: CUDA_FAKE_2 (out of memory), driver CUDA 12.4: give the pod less memory",
        code, 1},
    {"FAKE_CUDA_CAPABILITY", "75", "has compute capability 7.5, which runs none of the embedded images (sm_80); compile with --gpu=sm_75", code, 1},
    {"FAKE_CUDA_FAIL", "cuModuleLoadDataEx=218",
        "does not load the image for sm_80: ptxas: planted: CUDA_FAKE_218 (planted), driver CUDA 12.4: the driver cannot compile this PTX", code, 1},
    {"FAKE_CUDA_FAIL", "cuModuleLoadDataEx=222", "the driver is older than the PTX: update it", code, 1},
    {"FAKE_CUDA_NONE", "", "nobody: CUDA_FAKE_500 (planted), driver CUDA 12.4: the embedded image lacks a kernel", absent, 1},
    {"FAKE_CUDA_NONE", "", "wants 2048 threads a CTA, and cuda:0 Fake Card can give its code 1024", wide, 1},
    {"FAKE_CUDA_NONE", "", "wants 300000 bytes of shared memory a CTA, and cuda:0 Fake Card has 232448", fat, 1},
    {"FAKE_CUDA_CLUSTERS", "0", "needs thread-block clusters, and cuda:0 Fake Card (compute capability 9.0) has none", code, 4},
    {"FAKE_CUDA_FAIL", "cuDeviceGetAttribute=3@3", "cuda:0 Fake Card: CUDA_FAKE_3 (planted), driver CUDA 12.4", code, 1},
    {"FAKE_CUDA_FAIL", "cuDeviceGetAttribute=3@5", "cuda:0 Fake Card: CUDA_FAKE_3 (planted), driver CUDA 12.4", wide, 4},
    {"FAKE_CUDA_FAIL", "cuFuncGetAttribute=1", "scale: CUDA_FAKE_1 (planted)", code, 1},
    {"FAKE_CUDA_FAIL", "cuOccupancyMaxActiveBlocksPerMultiprocessor=1", "scale: CUDA_FAKE_1 (planted)", stays, 1},
    {"FAKE_CUDA_OCCUPANCY", "0", "no multiprocessor of cuda:0 Fake Card holds one of its CTAs (96 threads, 2048 bytes of shared memory)", stays, 1},
    {"FAKE_CUDA_NONE", "", NULL, stays, 1},
    {"FAKE_CUDA_FAIL", "cuFuncSetAttribute=1", "scale: CUDA_FAKE_1 (planted)", code, 1},
    {"FAKE_CUDA_FAIL", "cuStreamCreate=2", "cuda:0 Fake Card: CUDA_FAKE_2", code, 1},
    {"FAKE_CUDA_FAIL", "cuEventCreate=2@3", "cuda:0 Fake Card: CUDA_FAKE_2", code, 1},
    {"FAKE_CUDA_NONE", "", NULL, code, 1},
};

START_TEST(refusals_say_why) {
    setenv(opens[_i].name, opens[_i].value, 1);
    variant_stages = opens[_i].stages;
    Device *device = open_device(opens[_i].cluster);
    bool fine = device != NULL && (opens[_i].cluster == 1 || cuda_runs(0, &kernel, NULL, &card, &error));
    if (device != NULL)
        cuda_device.close(device);
    if (opens[_i].cluster > 1)
        fine = cuda_runs(0, &kernel, NULL, &card, &error);
    ck_assert_int_eq(fine, opens[_i].wanted == NULL);
    ck_assert_msg(fine || strstr(error.text, opens[_i].wanted) != NULL, "%s", error.text);
}
END_TEST

START_TEST(memory_is_asked_for) {
    setenv("FAKE_CUDA_MEMORY", "1000000", 1);
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    ck_assert_int_eq(cuda_free_memory(0, &error), 1000000);
    ck_assert_ptr_null(cuda_device.alloc(device, 1000001, &error));
    ck_assert_msg(
        strstr(error.text, "cannot take 1000001 bytes for tiles on cuda:0 Fake Card, which has 1000000 of 1000000 free") != NULL, "%s", error.text);
    cuda_device.close(device);
}
END_TEST

static const char *const faults[] = {"700", "719", "715", "716", "999"};

START_TEST(lasting_faults_stay) {
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    setenv("FAKE_CUDA_LAUNCH_RESULT", faults[_i], 1);
    ck_assert(!run(device, 1));
    Error first = failure;
    ck_assert_msg(strstr(first.text, faults[_i]) != NULL && strstr(first.text, "scale: ") != NULL, "%s", first.text);
    setenv("FAKE_CUDA_LAUNCH_RESULT", "0", 1);
    const PhbLaunch launch = {.grid = {1, 1, 1}};
    cuda_device.launch(device, 1, 0, &launch);
    wait_end();
    ck_assert_int_eq(ended, 2);
    ck_assert_str_eq(failure.text, first.text);
    cuda_device.close(device);
}
END_TEST

/* Calls that fail while tiles move or a leaf starts. */
static const char *const moves[] = {
    "cuMemHostAlloc=2", "cuMemcpyHtoDAsync_v2=700", "cuMemcpyDtoHAsync_v2=700", "cuLaunchKernel=701", "cuEventRecord=999"};

START_TEST(faults_of_moves_are_told) {
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    setenv("FAKE_CUDA_FAIL", moves[_i], 1);
    void *buffer;
    char *memory = cuda_device.alloc(device, 64, &error);
    DeviceLane *lane = cuda_device.lane_open(device, 64, &buffer, &error);
    bool fine = lane != NULL;
    if (lane != NULL) {
        fine = cuda_device.lane_in(lane, memory, 64, &error) && cuda_device.lane_out(lane, memory, 64, &error);
        cuda_device.lane_close(lane);
    }
    const PhbTensorArg arguments[2] = {{.base = memory}, {.base = memory}};
    const uint64_t scale = 1;
    const int64_t offset = 1;
    const PhbLaunch launch = {arguments, &scale, &offset, {1, 1, 1}, {0, 0, 5}, {1, 1, 7}};
    cuda_device.launch(device, 0, 0, &launch);
    wait_end();
    ck_assert(!fine || failed == 1);
    ck_assert_msg(strstr(fine ? failure.text : error.text, "driver CUDA 12.4") != NULL, "%s", error.text);
    cuda_device.close(device);
}
END_TEST

START_TEST(a_cancelled_launch_ends) {
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    cuda_device.cancel(device);
    seen_ctas = 0;
    const PhbLaunch launch = {.grid = {1, 1, 1}};
    cuda_device.launch(device, 3, 0, &launch);
    wait_end();
    ck_assert_uint_eq(seen_ctas, 0);
    cuda_device.close(device);
}
END_TEST

/* ---- errors ---- */

START_TEST(every_error_says_what_to_do) {
    static const struct {
        CudaResult code;
        const char *way_out;
    } known[] = {
#define CUDA_ERROR(code, kind, way_out) {code, way_out},
#include "runtime/device/cuda_errors.def"
#undef CUDA_ERROR
    };
    const CudaDriver *driver = cuda_driver(&error);
    ck_assert_msg(driver != NULL, "%s", error.text);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char wanted[400];
        snprintf(wanted, sizeof wanted, "here: CUDA_FAKE_%d (%s), driver CUDA 12.4: %s", known[i].code, known[i].code == 2 ? "out of memory" : "planted",
            known[i].way_out);
        ck_assert(!cuda_fail(driver, &error, known[i].code, "here"));
        ck_assert_str_eq(error.text, wanted);
    }
    cuda_fail(driver, &error, 12345, "here");
    ck_assert_str_eq(error.text, "here: CUDA_FAKE_12345 (planted), driver CUDA 12.4");
}
END_TEST

/* The second making of a context fails. */
START_TEST(contexts_are_kept_until_lost) {
    setenv("FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain=2@2", 1);
    for (int turn = 0; turn < 2; turn++) {
        ck_assert_int_gt(cuda_free_memory(0, &error), 0);
        Device *device = open_device(1);
        ck_assert_msg(device != NULL, "%s", error.text);
        cuda_device.close(device);
    }
    Device *device = open_device(1);
    setenv("FAKE_CUDA_LAUNCH_RESULT", "700", 1);
    ck_assert(!run(device, 1));
    cuda_device.close(device);
    ck_assert_ptr_null(open_device(1));
    ck_assert_msg(strstr(error.text, "CUDA_FAKE_2") != NULL, "%s", error.text);
}
END_TEST

/* ---- which device a job gets ---- */

START_TEST(devices_are_selected) {
    static const PhbCpuCode cpu = {"x86-64-v2", NULL};
    DeviceSet set;
    setenv("FAKE_CUDA_CARDS", "2", 1);
    images[0] = image(80, 0, 0);
    variant = (PhbVariant){.gpu = images, .gpu_count = 1, .cpu = &cpu, .cpu_count = 1};
    kernel = make_kernel(&variant, 1);
    ck_assert(device_select(NULL, &kernel, false, &set, &error));
    ck_assert_int_eq(set.class, CLASS_GPU);
    ck_assert_int_eq(set.arch, 90);
    ck_assert_int_eq(set.count, 2);
    ck_assert_str_eq(device_name(&set.items[1]), "cuda:1 Fake Card");
    ck_assert(device_select("cuda:1", &kernel, false, &set, &error));
    ck_assert_int_eq(set.count, 1);
    ck_assert_int_eq(set.items[0].number, 1);
    ck_assert(!device_select("cuda:2", &kernel, false, &set, &error));
    ck_assert_str_eq(error.text, "--device=cuda:2: there are 2 cards here");
    ck_assert(device_select("cpu", &kernel, false, &set, &error));
    ck_assert_int_eq(set.class, CLASS_CPU);
    images[0] = image(99, 0, 0);
    ck_assert(device_select("auto", &kernel, false, &set, &error));
    ck_assert_int_eq(set.class, CLASS_CPU);
    ck_assert_msg(strstr(set.reason.text, "compute capability 9.0, which runs none of the embedded images (sm_99)") != NULL, "%s", set.reason.text);
    variant.gpu_count = 0;
    ck_assert(device_select("auto", &kernel, false, &set, &error));
    ck_assert_str_eq(set.reason.text, "no code for GPUs is embedded");
    ck_assert(!device_select("cuda:0", &kernel, false, &set, &error));
    ck_assert_msg(strstr(error.text, "no code for GPUs is embedded; compile with --gpu=sm_90, or run with --device=cpu") != NULL, "%s", error.text);
    variant.cpu_count = 0;
    ck_assert(!device_select("cpu", &kernel, false, &set, &error));
}
END_TEST

/* ---- drivers that lack something: the executable is run with another library path ---- */

START_TEST(old_drivers_are_refused) {
    ck_assert_ptr_null(open_device(1));
    ck_assert_str_eq(error.text, "libcuda.so.1 has no cuStreamCreate: the driver is too old, 450 (CUDA 11.0) or newer is needed");
    ck_assert_int_eq(cuda_count(&error), -1);
}
END_TEST

START_TEST(drivers_without_clusters_run_the_rest) {
    Device *device = open_device(1);
    ck_assert_msg(device != NULL, "%s", error.text);
    ck_assert(run(device, 1));
    cuda_device.close(device);
    variant_stages = mapped;
    ck_assert_ptr_null(open_device(1));
    ck_assert_msg(strstr(error.text, "needs tensor maps, which driver CUDA 12.4 cannot make: update it to 12.0 or newer") != NULL, "%s", error.text);
    variant_stages = code;
    images[0] = image(80, 0, 0);
    kernel = make_kernel(&variant, 2);
    ck_assert(!cuda_runs(0, &kernel, NULL, &card, &error));
    ck_assert_msg(strstr(error.text, "needs thread-block clusters, which driver CUDA 12.4 cannot launch: update it to 11.8 or newer") != NULL, "%s",
        error.text);
}
END_TEST

START_TEST(no_driver_is_said) {
    ck_assert_ptr_null(open_device(1));
    ck_assert_msg(strstr(error.text, "there is no CUDA driver: libcuda.so.1: cannot open shared object file") != NULL, "%s", error.text);
}
END_TEST

int main(int argc, char **argv) {
    const char *driver = argc > 1 ? argv[1] : "";
    Suite *suite = suite_create("cuda_device");
    TCase *tests = tcase_create(driver);
    tcase_set_timeout(tests, 60);
    if (strcmp(driver, "old") == 0) {
        tcase_add_test(tests, old_drivers_are_refused);
    } else if (strcmp(driver, "without_clusters") == 0) {
        tcase_add_test(tests, drivers_without_clusters_run_the_rest);
    } else if (strcmp(driver, "none") == 0) {
        tcase_add_test(tests, no_driver_is_said);
    } else {
        tcase_add_test(tests, leaves_run);
        tcase_add_test(tests, maps_are_made);
        tcase_add_test(tests, clusters_run);
        tcase_add_test(tests, ragged_clusters_are_refused);
        tcase_add_test(tests, images_are_chosen);
        tcase_add_loop_test(tests, refusals_say_why, 0, sizeof opens / sizeof opens[0]);
        tcase_add_test(tests, memory_is_asked_for);
        tcase_add_loop_test(tests, lasting_faults_stay, 0, sizeof faults / sizeof faults[0]);
        tcase_add_loop_test(tests, faults_of_moves_are_told, 0, sizeof moves / sizeof moves[0]);
        tcase_add_test(tests, a_cancelled_launch_ends);
        tcase_add_test(tests, every_error_says_what_to_do);
        tcase_add_test(tests, contexts_are_kept_until_lost);
        tcase_add_test(tests, devices_are_selected);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

#include "tests/unit/job_fixture.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODE_INT(v)                                                                                                                                  \
    { PHB_EXPR_INT, 0, v }
#define NODE_DIM(i)                                                                                                                                  \
    { PHB_EXPR_DIM, i, 0 }
#define NODE_OP(o)                                                                                                                                   \
    { PHB_EXPR_##o, 0, 0 }
#define EXPR(array, text)                                                                                                                            \
    { array, sizeof(array) / sizeof *(array), text }

static const PhbExprNode dim0[] = {NODE_DIM(0)}, dim1[] = {NODE_DIM(1)}, dim2[] = {NODE_DIM(2)};
static const PhbExprNode one[] = {NODE_INT(1)};
static const PhbExprNode window[] = {NODE_DIM(0), NODE_DIM(1), NODE_OP(ADD), NODE_INT(1), NODE_OP(SUB)};
static const PhbExprNode multiple[] = {NODE_DIM(0), NODE_INT(4), NODE_OP(MOD), NODE_INT(0), NODE_OP(EQ)};
static const PhbExprNode leaf_grid[] = {NODE_DIM(0), NODE_DIM(1), NODE_OP(CEILDIV)};

static const int64_t block_leaf[] = {16, 32}, block_cluster[] = {1024, 4096}, d_leaf[] = {64, 128};

static const PhbDim add_dims[] = {{.name = "N", .grid_axis = 0, .loop = -1},
    {.name = "BLOCK", .is_search = 1, .grid_axis = -1, .loop = -1, .leaf = block_leaf, .leaf_count = 2, .cluster = block_cluster, .cluster_count = 2}};
static const PhbTensor add_tensors[] = {
    {.name = "a", .dtype = PHB_F32, .rank = 1, .mode = PHB_READ, .axes = {{.extent = EXPR(dim0, "N"), .kind = PHB_AXIS_GRID}}},
    {.name = "b", .dtype = PHB_F32, .rank = 1, .mode = PHB_READ, .axes = {{.extent = EXPR(dim0, "N"), .kind = PHB_AXIS_GRID}}},
    {.name = "c", .dtype = PHB_F32, .rank = 1, .mode = PHB_WRITE, .axes = {{.extent = EXPR(dim0, "N"), .kind = PHB_AXIS_GRID}}},
};
static const int64_t add_values[2][2] = {{0, 16}, {0, 32}};
static const PhbCpuCode add_code = {.level = "x86-64"}; /* never run */
static const PhbVariant add_variants[] = {
    {.values = add_values[0], .cpu = &add_code, .cpu_count = 1}, {.values = add_values[1], .cpu = &add_code, .cpu_count = 1}};

static const PhbDim mix_dims[] = {
    {.name = "N", .grid_axis = -1, .loop = -1}, {.name = "KW", .grid_axis = -1, .loop = -1}, {.name = "D", .is_search = 1, .grid_axis = -1, .loop = -1, .leaf = d_leaf, .leaf_count = 2}};
static const PhbTensor mix_tensors[] = {
    {.name = "x", .dtype = PHB_F32, .rank = 1, .mode = PHB_READ, .axes = {{.extent = EXPR(window, "N + KW - 1")}}},
    {.name = "w", .dtype = PHB_BF16, .rank = 1, .mode = PHB_READ, .axes = {{.extent = EXPR(dim1, "KW")}}},
    {.name = "q", .dtype = PHB_F32, .rank = 2, .mode = PHB_READ_WRITE, .axes = {{.extent = EXPR(dim0, "N")}, {.extent = EXPR(dim2, "D")}}},
};
static const PhbScalar mix_scalars[] = {{"alpha", PHB_F32}, {"on", PHB_BOOL}, {"i", PHB_I8}, {"u", PHB_U64}, {"h", PHB_F16}};
static const PhbCheck mix_checks[] = {{EXPR(multiple, "N % 4 == 0"), "N must be a multiple of 4"}};
static const int64_t mix_values[2][3] = {{0, 0, 64}, {0, 0, 128}};
static const PhbVariant mix_variants[] = {{.values = mix_values[0]}, {.values = mix_values[1]}};

#define WHOLE_AXIS                                                                                                                                   \
    { .dim = -1, .extent = EXPR(one, "1"), .leaf = EXPR(one, "1") }

static const PhbKernel kernels[] = {
    {.name = "add",
        .source = "t.phb:1:1",
        .dims = add_dims,
        .dim_count = 2,
        .tensors = add_tensors,
        .tensor_count = 3,
        .grid = {{.dim = 1, .extent = EXPR(dim0, "N"), .leaf = EXPR(leaf_grid, "ceildiv(N, BLOCK)")}, WHOLE_AXIS, WHOLE_AXIS},
        .variants = add_variants,
        .variant_count = 2},
    {.name = "mix",
        .source = "t.phb:9:1",
        .dims = mix_dims,
        .dim_count = 3,
        .tensors = mix_tensors,
        .tensor_count = 3,
        .scalars = mix_scalars,
        .scalar_count = 5,
        .grid = {WHOLE_AXIS, WHOLE_AXIS, WHOLE_AXIS},
        .bind_checks = mix_checks,
        .bind_check_count = 1,
        .variants = mix_variants,
        .variant_count = 2},
};

const PhbProgram fixture_program = {
    .abi_version = PHB_ABI_VERSION, .file = "t.phb", .compiler = "phobosc test", .kernels = kernels, .kernel_count = 2};

static char folder[PATH_MAX], before[PATH_MAX];

static void must(bool fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

const char *fixture_folder(void) {
    return folder;
}

void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    must(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, path);
}

void write_npy(const char *path, int dtype, int rank, const int64_t *shape) {
    char header[256];
    int length = npy_write_header(header, dtype, rank, shape);
    size_t bytes = (size_t)dtype_size(dtype);
    for (int axis = 0; axis < rank; axis++)
        bytes *= (size_t)shape[axis];
    char *all = new_zeroed((size_t)length + bytes, 1);
    memcpy(all, header, (size_t)length);
    for (size_t i = 0; i < bytes; i++)
        all[(size_t)length + i] = (char)i;
    write_file(path, all, (size_t)length + bytes);
    free(all);
}

/* A version-1 header of this text and no elements. */
static void write_header(const char *path, const char *text) {
    char bytes[256] = "\x93NUMPY\x01";
    bytes[8] = (char)strlen(text);
    memcpy(bytes + 10, text, strlen(text));
    write_file(path, bytes, 10 + strlen(text));
}

void fixture_enter(void) {
    static const char pattern[] = "/tmp/phobos-job-XXXXXX";
    static const char zeros[512];
    memcpy(folder, pattern, sizeof pattern);
    must(getcwd(before, sizeof before) != NULL && mkdtemp(folder) != NULL && chdir(folder) == 0, "test folder");
    write_npy("a.npy", PHB_F32, 1, (int64_t[]){32});
    write_npy("b.npy", PHB_F32, 1, (int64_t[]){32});
    write_npy("a33.npy", PHB_F32, 1, (int64_t[]){33});
    write_npy("f64.npy", PHB_F64, 1, (int64_t[]){32});
    write_npy("rank2.npy", PHB_F32, 2, (int64_t[]){4, 8});
    write_npy("zero.npy", PHB_F32, 1, (int64_t[]){0});
    write_npy("x.npy", PHB_F32, 1, (int64_t[]){34});
    write_npy("w.npy", PHB_BF16, 1, (int64_t[]){3});
    write_npy("u2.npy", PHB_U16, 1, (int64_t[]){3});
    write_npy("q.npy", PHB_F32, 2, (int64_t[]){32, 64});
    write_npy("q65.npy", PHB_F32, 2, (int64_t[]){32, 65});
    write_header("fortran.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (32,), }\n");
    write_header("big.npy", "{'descr': '>f4', 'fortran_order': False, 'shape': (32,), }\n");
    write_header("bad.npy", "{'descr': '<f4', 'shape': (32,), }\n");
    write_header("short.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (32,), }\n");
    write_file("not.npy", "hello", 5);
    write_file("raw.bin", zeros, 128);
    write_file("w1.bin", zeros, 2);
    write_file("short.bin", zeros, 127);
    write_file("long.bin", zeros, 129);
    write_file("empty.bin", zeros, 0);
    write_file("with space%.bin", zeros, 128);
    must(mkdir("data", 0777) == 0 && mkfifo("pipe", 0666) == 0 && link("a.npy", "hard.npy") == 0, "test files");
    must(symlink("loop", "loop") == 0 && symlink("nowhere", "dangling") == 0 && symlink("a.npy", "soft.npy") == 0 && symlink(".", "here") == 0,
        "test links");
    must(symlink("/proc/self/exe", "self") == 0, "test links");
    write_npy("data/b.npy", PHB_F32, 1, (int64_t[]){32});
}

void fixture_leave(void) {
    char command[PATH_MAX + 32];
    must(chdir(before) == 0, "test folder");
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    must(system(command) == 0, "test folder");
}

/* Compiling a text in several ways, and running a kernel on each of the executables. */
#include "tests/differential/differential.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_OF_COMPILING = 300, SECONDS_OF_RUNNING = 60, MOST_ARGUMENTS = 12 };

const char *const verdict_names[VERDICT_COUNT] = {"same", "undecided", "unsupported", "invalid", "compiler", "run", "wrong", "bits"};

/* One way to build, one executable. The first that is used is compared with the oracle. */
enum { BUILD_V4, BUILD_V3, BUILD_O0, BUILD_SIMT };

static const struct {
    const char *name, *options[4];
} builds[BUILD_COUNT] = {
    [BUILD_V4] = {"v4", {"-O2", "--cpu=x86-64-v4"}},
    [BUILD_V3] = {"v3", {"-O2", "--cpu=x86-64-v3"}},
    [BUILD_O0] = {"O0", {"-O0", "--cpu=x86-64-v3"}},
    [BUILD_SIMT] = {"simt", {"-O0", "--cpu=x86-64-v3", "--simt", "--variants=2"}},
};

static void path_in(const Tools *tools, const char *name, char path[512]) {
    snprintf(path, 512, "%s/%s", tools->folder, name);
}

static void read_log(const Tools *tools, const char *name, Buffer *log) {
    char path[512], text[4096];
    path_in(tools, name, path);
    FILE *file = fopen(path, "r");
    size_t count = file ? fread(text, 1, sizeof text, file) : 0;
    buffer_append(log, text, count);
    if (file)
        fclose(file);
}

/* Its output goes to the file `log`; an alarm ends it. */
static pid_t start(const Tools *tools, const char *const *arguments, const char *log, unsigned seconds) {
    char path[512];
    path_in(tools, log, path);
    pid_t child = fork();
    if (child != 0)
        return child;
    int output = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644), input = open("/dev/null", O_RDONLY);
    dup2(input, 0);
    dup2(output, 1);
    dup2(output, 2);
    alarm(seconds);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static bool ended_well(pid_t child, Buffer *log, const char *what) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        buffer_printf(log, "%s did not start\n", what);
        return false;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFEXITED(status))
        buffer_printf(log, "%s: exit code %d\n", what, WEXITSTATUS(status));
    else
        buffer_printf(log, "%s: signal %d\n", what, WTERMSIG(status));
    return false;
}

static bool write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(data, 1, size, file) == size;
    return (!file || fclose(file) == 0) && written;
}

static int first_build(const Tools *tools) {
    return tools->builds == BUILDS_SIMT ? BUILD_SIMT : tools->builds == BUILDS_O0 ? BUILD_O0 : tools->has_v4 ? BUILD_V4 : BUILD_V3;
}

static int last_build(const Tools *tools) {
    return tools->builds == BUILDS_ALL ? BUILD_O0 : first_build(tools);
}

static bool is_used(const Tools *tools, int build) {
    return build >= first_build(tools) && build <= last_build(tools);
}

Compilation compile_start(const Tools *tools, const char *text) {
    Compilation compilation = {.tools = tools};
    char source[512];
    path_in(tools, "kernels.phb", source);
    bool is_written = write_file(source, text, strlen(text));
    for (int i = 0; i < BUILD_COUNT; i++) {
        char output[512], name[32];
        path_in(tools, builds[i].name, output);
        unlink(output);
        const char *arguments[MOST_ARGUMENTS] = {tools->phobosc, "-w", "--gpu=none", source, "-o", output};
        int count = 6;
        for (int k = 0; k < 4 && builds[i].options[k]; k++)
            arguments[count++] = builds[i].options[k];
        snprintf(name, sizeof name, "%s.log", builds[i].name);
        compilation.children[i] = is_written && is_used(tools, i) ? start(tools, arguments, name, SECONDS_OF_COMPILING) : -1;
    }
    return compilation;
}

bool compile_finish(Compilation *compilation, Buffer *log, bool *unsupported) {
    const Tools *tools = compilation->tools;
    bool done = true;
    for (int i = 0; i < BUILD_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.log", builds[i].name);
        if (is_used(tools, i) && !ended_well(compilation->children[i], log, builds[i].name)) {
            done = false;
            read_log(tools, name, log);
        }
    }
    *unsupported = log->data && strstr(log->data, "not supported yet");
    if (!done)
        return false;
    char program[512];
    path_in(tools, builds[first_build(tools)].name, program);
    const char *arguments[] = {program, "--info=json", NULL};
    return ended_well(start(tools, arguments, "info.json", SECONDS_OF_RUNNING), log, "--info");
}

/* ---- jobs ---- */

/* What the files hold before each run. */
typedef struct Files {
    void *bytes[2 * PHB_MAX_PARAMS];
    size_t size[2 * PHB_MAX_PARAMS];
} Files;

static void tensor_path(const Tools *tools, const Param *param, char path[512]) {
    snprintf(path, 512, "%s/%s.bin", tools->folder, param->name);
}

static bool is_output(const Param *param) {
    return param->name[0] == 'o';
}

static bool write_tensors(const Tools *tools, const Problem *problem, const Files *files, bool outputs_alone) {
    const Signature *signature = &problem->kernel->signature;
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        char path[512];
        tensor_path(tools, param, path);
        if (param->type->rank == 0 || (outputs_alone && !is_output(param)))
            continue;
        unlink(path);
        if (problem->tensors[i].given && !write_file(path, files->bytes[i], files->size[i]))
            return false;
    }
    return true;
}

static void print_scalar(Buffer *job, PhbDType type, Number number) {
    if (dtype_is_float(type))
        buffer_printf(job, "%.17g", number.real);
    else if (dtype_is_signed(type))
        buffer_printf(job, "%" PRId64, (int64_t)number.integer);
    else
        buffer_printf(job, "%" PRIu64, number.integer);
}

static bool is_extent(const Signature *signature, const char *dim) {
    for (int i = 0; i < signature->params.count; i++)
        for (int axis = 0; axis < signature->params.items[i].type->rank; axis++)
            if (dim_mentions(signature->params.items[i].type->dims[axis], dim))
                return true;
    return false;
}

static int64_t dim_value(const Problem *problem, const char *name) {
    int at = 0;
    while (problem->dims[at].name != name)
        at++;
    return problem->dims[at].value;
}

static void print_search_dims(const Problem *problem, Buffer *job, bool extents, int super) {
    const Signature *signature = &problem->kernel->signature;
    int count = 0;
    for (int i = 0; i < signature->search.count; i++) {
        const SearchDim *search = &signature->search.items[i];
        if (is_extent(signature, search->name) == extents && (super == 0 || search->cluster.count > 0))
            buffer_printf(
                job, "%s \"%s\": %" PRId64, count++ || extents ? "," : "", search->name, dim_value(problem, search->name) * (super ? super : 1));
    }
}

/* `super`: how many leaf tiles make a super-tile along each axis; 0: as the kernel says. */
static bool write_job(const Problem *problem, const Setting *setting, int super, const char *path) {
    const Signature *signature = &problem->kernel->signature;
    Buffer job = {0};
    buffer_printf(&job, "{ \"kernel\": \"%s\",\n  \"dims\": {", setting->name);
    for (int i = 0; i < signature->symbolic.count; i++)
        buffer_printf(&job, "%s \"%s\": %" PRId64, i ? "," : "", signature->symbolic.items[i], dim_value(problem, signature->symbolic.items[i]));
    print_search_dims(problem, &job, true, 0);
    buffer_puts(&job, " },\n  \"autotune\": {");
    print_search_dims(problem, &job, false, 0);
    if (super) {
        buffer_puts(&job, " },\n  \"cluster\": {");
        print_search_dims(problem, &job, false, super);
    }
    buffer_puts(&job, " },\n  \"scalars\": {");
    int count = 0;
    for (int i = 0; i < signature->params.count; i++) {
        const Param *param = &signature->params.items[i];
        if (param->type->rank > 0)
            continue;
        buffer_printf(&job, "%s \"%s\": ", count++ ? "," : "", param->name);
        print_scalar(&job, param->type->scalar, problem->tensors[i].value.at[0]);
    }
    buffer_puts(&job, " },\n  \"tensors\": {");
    count = 0;
    for (int i = 0; i < signature->params.count; i++)
        if (signature->params.items[i].type->rank > 0)
            buffer_printf(&job, "%s \"%s\": \"%s.bin\"", count++ ? "," : "", signature->params.items[i].name, signature->params.items[i].name);
    buffer_puts(&job, " } }\n");
    bool written = write_file(path, job.data, job.length);
    buffer_free(&job);
    return written;
}

static void *read_tensor(const Tools *tools, const Param *param, size_t size) {
    char path[512];
    tensor_path(tools, param, path);
    char *bytes = malloc(size + 1);
    FILE *file = fopen(path, "rb");
    bool is_whole = bytes && file && fread(bytes, 1, size + 1, file) == size;
    if (file)
        fclose(file);
    if (is_whole)
        return bytes;
    free(bytes);
    return NULL;
}

/* One run: the outputs as in the files, the job, the executable. */
static bool run_once(const Tools *tools, const Problem *problem, const Files *files, int build, int pods, const char *job, Buffer *log) {
    char program[512], option[32], order[32], what[64];
    path_in(tools, builds[build].name, program);
    snprintf(option, sizeof option, "--pods=%d", pods);
    snprintf(order, sizeof order, "--simt-seed=%d", pods);
    snprintf(what, sizeof what, "%s %s", builds[build].name, option);
    const char *arguments[] = {program, job, "--progress=none", option, build == BUILD_SIMT ? "--device=simt" : NULL, order, NULL};
    if (!write_tensors(tools, problem, files, true) || !ended_well(start(tools, arguments, "run.log", SECONDS_OF_RUNNING), log, what)) {
        read_log(tools, "run.log", log);
        return false;
    }
    return true;
}

/* Reads the outputs of a run. The first run's are compared with the oracle and kept, the others' with the first's. */
static Verdict compare_outputs(const Tools *tools, const Problem *problem, const Files *files, Files *first, const char *what, Buffer *log) {
    const Signature *signature = &problem->kernel->signature;
    Verdict verdict = VERDICT_SAME;
    for (int i = 0; i < signature->params.count && verdict == VERDICT_SAME; i++) {
        const Param *param = &signature->params.items[i];
        const Value *expected = &problem->tensors[i].value;
        if (!is_output(param))
            continue;
        void *found = read_tensor(tools, param, files->size[i]);
        if (!found) {
            buffer_printf(log, "%s: '%s' is missing or of another size\n", what, param->name);
            return VERDICT_RUN;
        }
        bool is_first = !first->bytes[i];
        int64_t at = is_first ? data_compare(expected, found) : data_compare_bits(expected->scalar, value_count(expected), first->bytes[i], found);
        if (at >= 0) {
            char *text = NULL;
            size_t length = 0;
            FILE *out = open_memstream(&text, &length);
            data_print_difference(out, expected, found, at);
            fclose(out);
            buffer_printf(log, "%s: %s: %s", what, param->name, text);
            free(text);
            verdict = is_first ? VERDICT_WRONG : VERDICT_BITS;
        }
        if (is_first)
            first->bytes[i] = found;
        else
            free(found);
    }
    return verdict;
}

/* One way to run a kernel. */
typedef struct Way {
    int build, pods, super;
} Way;

static int ways_of(const Tools *tools, const Problem *problem, const Setting *setting, Way ways[8]) {
    int count = 0, first = first_build(tools);
    bool has_units = problem->kernel->signature.has_cluster;
    for (int pods = 1; pods <= 4; pods++)
        if (pods == 1 || has_units || pods == 2 + (int)(setting->seed % 3))
            ways[count++] = (Way){first, pods, 0};
    if (has_units)
        ways[count++] = (Way){first, 2, 1 + (int)(setting->seed / 3 % 3)};
    for (int build = first + 1; build <= last_build(tools); build++)
        ways[count++] = (Way){build, 1, 0};
    return count;
}

static Verdict run_ways(const Tools *tools, const Problem *problem, const Setting *setting, const Files *files, Files *first, Buffer *log) {
    Way ways[8];
    int count = ways_of(tools, problem, setting, ways);
    char job[512];
    path_in(tools, "job.json", job);
    if (!write_tensors(tools, problem, files, false))
        return VERDICT_RUN;
    for (int i = 0; i < count; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s --pods=%d%s", builds[ways[i].build].name, ways[i].pods, ways[i].super ? ", other super-tiles" : "");
        if (!write_job(problem, setting, ways[i].super, job) || !run_once(tools, problem, files, ways[i].build, ways[i].pods, job, log)) {
            buffer_printf(log, "%s\n", what);
            return VERDICT_RUN;
        }
        Verdict verdict = compare_outputs(tools, problem, files, first, what, log);
        if (verdict != VERDICT_SAME)
            return verdict;
    }
    return VERDICT_SAME;
}

Verdict run_kernel(const Tools *tools, Problem *problem, const Setting *setting, Buffer *log) {
    int count = problem->kernel->signature.params.count;
    Files files = {{0}, {0}}, first = {{0}, {0}};
    for (int i = 0; i < count; i++)
        files.bytes[i] = data_bytes(&problem->tensors[i].value, &files.size[i]);
    Verdict verdict = interpret(problem) == OUTCOME_DONE ? run_ways(tools, problem, setting, &files, &first, log) : VERDICT_UNDECIDED;
    for (int i = 0; i < count; i++) {
        free(files.bytes[i]);
        free(first.bytes[i]);
    }
    return verdict;
}

Verdict judge(const Tools *tools, const char *text, Buffer *log) {
    Subject subject;
    Setting setting;
    Problem problem;
    if (!setting_read(text, &setting))
        return VERDICT_INVALID;
    subject_open(&subject, text, true);
    Verdict verdict = VERDICT_INVALID;
    bool unsupported;
    if (subject.errors) {
        verdict = subject.is_unsupported ? VERDICT_UNSUPPORTED : VERDICT_INVALID;
        buffer_puts(log, subject.messages);
    } else if (subject_kernel(&subject, setting.name)) {
        Compilation compilation = compile_start(tools, text);
        if (!compile_finish(&compilation, log, &unsupported)) {
            verdict = unsupported ? VERDICT_UNSUPPORTED : VERDICT_COMPILER;
        } else if (problem_init(&problem, tools, &subject, &setting)) {
            verdict = run_kernel(tools, &problem, &setting, log);
            problem_fini(&problem);
        }
    }
    subject_close(&subject);
    return verdict;
}

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

/* The first is what is compared with the oracle. */
static const Build builds[] = {
    {"O2", {"-O2"}, false},
    {"O0", {"-O0", "--cpu=x86-64-v3"}, false},
    {"v3", {"-O2", "--cpu=x86-64-v3"}, true},
};
enum { BUILD_COUNT = sizeof builds / sizeof *builds };

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

static bool is_used(const Tools *tools, const Build *build) {
    return tools->has_v4 || !build->needs_v4;
}

bool compile_all(const Tools *tools, const char *text, Buffer *log, bool *unsupported) {
    char source[512];
    path_in(tools, "kernels.phb", source);
    *unsupported = false;
    if (!write_file(source, text, strlen(text))) {
        buffer_printf(log, "cannot write %s\n", source);
        return false;
    }
    pid_t children[BUILD_COUNT];
    for (int i = 0; i < BUILD_COUNT; i++) {
        char output[512];
        path_in(tools, builds[i].name, output);
        const char *arguments[MOST_ARGUMENTS] = {tools->phobosc, "-w", source, "-o", output};
        int count = 5;
        for (int k = 0; k < 4 && builds[i].options[k]; k++)
            arguments[count++] = builds[i].options[k];
        char name[32];
        snprintf(name, sizeof name, "%s.log", builds[i].name);
        children[i] = is_used(tools, &builds[i]) ? start(tools, arguments, name, SECONDS_OF_COMPILING) : 0;
    }
    bool done = true;
    for (int i = 0; i < BUILD_COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.log", builds[i].name);
        if (is_used(tools, &builds[i]) && !ended_well(children[i], log, builds[i].name)) {
            done = false;
            read_log(tools, name, log);
        }
    }
    *unsupported = log->data && strstr(log->data, "not supported yet");
    return done;
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

static bool write_job(const Problem *problem, const Setting *setting, const char *path) {
    const Signature *signature = &problem->kernel->signature;
    Buffer job = {0};
    buffer_printf(&job, "{ \"kernel\": \"%s\",\n  \"dims\": {", setting->name);
    for (int i = 0; i < signature->symbolic.count; i++)
        for (int k = 0; k < problem->dim_count; k++)
            if (problem->dims[k].name == signature->symbolic.items[i])
                buffer_printf(&job, "%s \"%s\": %" PRId64, i ? "," : "", problem->dims[k].name, problem->dims[k].value);
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
static bool run_once(const Tools *tools, const Problem *problem, const Files *files, const char *build, int pods, const char *job, Buffer *log) {
    char program[512], option[32], what[64];
    path_in(tools, build, program);
    snprintf(option, sizeof option, "--pods=%d", pods);
    snprintf(what, sizeof what, "%s %s", build, option);
    const char *arguments[] = {program, job, "--progress=none", option, NULL};
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

static Verdict run_builds(const Tools *tools, const Problem *problem, const Setting *setting, const Files *files, Files *first, Buffer *log) {
    char job[512];
    path_in(tools, "job.json", job);
    if (!write_tensors(tools, problem, files, false) || !write_job(problem, setting, job))
        return VERDICT_RUN;
    bool has_units = problem->kernel->signature.has_cluster;
    int some_pods = 2 + (int)(setting->seed % 3);
    for (int i = 0; i < BUILD_COUNT; i++) {
        if (!is_used(tools, &builds[i]))
            continue;
        for (int pods = 1; pods <= (i == 0 ? 4 : 1); pods++) {
            if (pods > 1 && !has_units && pods != some_pods)
                continue;
            char what[64];
            snprintf(what, sizeof what, "%s --pods=%d", builds[i].name, pods);
            if (!run_once(tools, problem, files, builds[i].name, pods, job, log))
                return VERDICT_RUN;
            Verdict verdict = compare_outputs(tools, problem, files, first, what, log);
            if (verdict != VERDICT_SAME)
                return verdict;
        }
    }
    return VERDICT_SAME;
}

Verdict run_kernel(const Tools *tools, Problem *problem, const Setting *setting, Buffer *log) {
    int count = problem->kernel->signature.params.count;
    Files files = {{0}, {0}}, first = {{0}, {0}};
    for (int i = 0; i < count; i++)
        files.bytes[i] = data_bytes(&problem->tensors[i].value, &files.size[i]);
    Verdict verdict = interpret(problem) == OUTCOME_DONE ? run_builds(tools, problem, setting, &files, &first, log) : VERDICT_UNDECIDED;
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
    } else if (problem_init(&problem, &subject, &setting)) {
        if (compile_all(tools, text, log, &unsupported))
            verdict = run_kernel(tools, &problem, &setting, log);
        else
            verdict = unsupported ? VERDICT_UNSUPPORTED : VERDICT_COMPILER;
        problem_fini(&problem);
    }
    subject_close(&subject);
    return verdict;
}

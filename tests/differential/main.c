/* differential PHOBOSC FOLDER [--seed=N] [--count=N] [--least=N] [--by-type] [--chunk=N] [--shrinks=N] [--save=FOLDER] [--stop]
 *     [--quick|--simt|--any-order] [--dry]: fresh kernels
 *     --stop: at the first failure; --quick: code of -O0 alone; --simt: in the simulator of GPUs alone; --any-order: PHOBOSC's executables run on
 *     another device than the CPU; --dry: nothing is compiled
 * differential PHOBOSC FOLDER --replay FILE..                                         saved ones
 * differential PHOBOSC FOLDER --print=SEED                                            one kernel's text */
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_KERNELS_OF_A_FILE = 50, MOST_INVALID = 40 };

typedef struct Run {
    Tools tools[2], small; /* one works on some kernels while the compiler is at the next in the other; where failures are shrunk */
    uint64_t seed;
    int count, chunk, least, shrinks; /* chunk: kernels that are compiled together */
    bool stop, by_type, dry;          /* stop: at the first failure; dry: nothing is compiled */
    const char *save;                 /* a folder for the small texts of failures; NULL: none */
    Coverage accepted, done;          /* of the texts so far; of those that were run */
    int verdicts[VERDICT_COUNT];
} Run;

static bool is_failure(Verdict verdict) {
    return verdict >= VERDICT_INVALID;
}

static void print_failure(Run *run, const char *text, Verdict verdict, const char *log) {
    printf("---- %s\n%s", verdict_names[verdict], log ? log : "");
    if (verdict == VERDICT_INVALID || run->shrinks-- <= 0) {
        printf("%s", text);
        return;
    }
    char *small = shrink(&run->small, text, verdict);
    Buffer last = {0};
    judge(&run->small, small, &last);
    printf("smaller:\n%s%s", last.data ? last.data : "", small);
    buffer_free(&last);
    Setting setting;
    if (run->save && setting_read(small, &setting)) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s_%" PRIu64 ".phb", run->save, verdict_names[verdict], setting.seed);
        FILE *file = fopen(path, "w");
        if (file) {
            fputs(small, file);
            fclose(file);
            printf("saved: %s\n", path);
        }
    }
    free(small);
    fflush(stdout);
}

/* The executables of the text that holds this kernel are there. */
static Verdict run_compiled(Run *run, const Tools *tools, const char *text, Buffer *log) {
    Subject subject;
    Setting setting;
    Problem problem;
    Edges edges = {{0}, {0}};
    Verdict verdict = VERDICT_INVALID;
    setting_read(text, &setting);
    subject_open(&subject, text, true);
    if (problem_init(&problem, tools, &subject, &setting)) {
        problem.edges = &edges;
        verdict = run_kernel(tools, &problem, &setting, log);
        if (verdict != VERDICT_UNDECIDED) {
            coverage_add(&run->done, problem.kernel);
            coverage_add_results(&run->done, &problem, &edges);
        }
        problem_fini(&problem);
    } else {
        buffer_puts(log, "no leaf can be launched\n");
    }
    subject_close(&subject);
    return verdict;
}

static void finish(Run *run, const char *text, Verdict verdict, Buffer *log) {
    run->verdicts[verdict]++;
    if (is_failure(verdict))
        print_failure(run, text, verdict, log->data);
    buffer_free(log);
    if (run->stop && is_failure(verdict)) {
        printf("stopped: %s, after kernel %d\n", verdict_names[verdict], run->verdicts[VERDICT_SAME] + run->verdicts[VERDICT_UNDECIDED] + 1);
        exit(1);
    }
}

/* Texts that are compiled together. */
typedef struct Chunk {
    const Tools *tools;
    char *texts[MOST_KERNELS_OF_A_FILE];
    int count;
    Compilation compilation;
} Chunk;

static Compilation start_texts(const Tools *tools, char **texts, int count) {
    Buffer all = {0};
    for (int i = 0; i < count; i++)
        buffer_puts(&all, texts[i]);
    Compilation compilation = compile_start(tools, all.data);
    buffer_free(&all);
    return compilation;
}

static void run_texts(Run *run, const Tools *tools, char **texts, int count) {
    for (int i = 0; i < count; i++) {
        Buffer log = {0};
        Verdict verdict = run_compiled(run, tools, texts[i], &log);
        finish(run, texts[i], verdict, &log);
    }
}

/* Where compiling fails, halves the texts until the guilty ones stand alone. */
static void halve_texts(Run *run, const Tools *tools, char **texts, int count, Buffer *log, bool unsupported) {
    if (count == 1) {
        finish(run, texts[0], unsupported ? VERDICT_UNSUPPORTED : VERDICT_COMPILER, log);
        return;
    }
    buffer_free(log);
    for (int half = 0; half < 2; half++) {
        char **own = half ? texts + count / 2 : texts;
        int own_count = half ? count - count / 2 : count / 2;
        Buffer own_log = {0};
        Compilation compilation = start_texts(tools, own, own_count);
        if (compile_finish(&compilation, &own_log, &unsupported))
            run_texts(run, tools, own, own_count);
        else
            halve_texts(run, tools, own, own_count, &own_log, unsupported);
    }
}

/* A text that the front end accepts; NULL: the seed gives none. */
static char *accepted_text(Run *run, uint64_t seed, int number) {
    char name[32];
    snprintf(name, sizeof name, "k%d", number);
    char *text = generate_kernel(seed, name, &run->accepted);
    Subject subject;
    subject_open(&subject, text, true);
    bool is_accepted = subject.errors == 0;
    if (!is_accepted) {
        Verdict verdict = subject.is_unsupported ? VERDICT_UNSUPPORTED : VERDICT_INVALID;
        Buffer log = {0};
        buffer_puts(&log, subject.messages);
        if (verdict == VERDICT_INVALID && run->verdicts[verdict] >= MOST_INVALID) {
            run->verdicts[verdict]++;
            buffer_free(&log);
        } else {
            finish(run, text, verdict, &log);
        }
        free(text);
        text = NULL;
    } else {
        coverage_add(&run->accepted, subject_kernel(&subject, name));
    }
    subject_close(&subject);
    return text;
}

static Chunk next_chunk(Run *run, const Tools *tools, Random *random, int *number, int most) {
    Chunk chunk = {.tools = tools};
    for (int tries = 0; tries < 4 * run->chunk && chunk.count < run->chunk && chunk.count < most; tries++) {
        char *text = accepted_text(run, random_bits(random), (*number)++);
        if (text)
            chunk.texts[chunk.count++] = text;
    }
    if (chunk.count)
        chunk.compilation = start_texts(tools, chunk.texts, chunk.count);
    return chunk;
}

/* What the texts would be made of. */
static void run_dry(Run *run) {
    Random random = {run->seed};
    for (int number = 0, made = 0; made < run->count; number++) {
        char *text = accepted_text(run, random_bits(&random), number);
        made += text != NULL;
        free(text);
    }
    run->done = run->accepted;
}

static void run_fresh(Run *run) {
    Random random = {run->seed};
    int number = 0, made = 0;
    Chunk next = next_chunk(run, &run->tools[0], &random, &number, run->count);
    while (next.count) {
        Chunk chunk = next;
        Buffer log = {0};
        bool unsupported, compiled = compile_finish(&chunk.compilation, &log, &unsupported);
        made += chunk.count;
        next = next_chunk(run, &run->tools[chunk.tools == &run->tools[0]], &random, &number, run->count - made);
        if (compiled)
            run_texts(run, chunk.tools, chunk.texts, chunk.count);
        else
            halve_texts(run, chunk.tools, chunk.texts, chunk.count, &log, unsupported);
        for (int i = 0; i < chunk.count; i++)
            free(chunk.texts[i]);
    }
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (file && text && fread(text, 1, (1 << 20) - 1, file) > 0) {
        fclose(file);
        return text;
    }
    fprintf(stderr, "differential: cannot read %s\n", path);
    exit(2);
}

static int replay(Run *run, char **paths, int count) {
    for (int i = 0; i < count; i++) {
        char *text = read_text(paths[i]);
        Buffer log = {0};
        Verdict verdict = judge(&run->small, text, &log);
        run->verdicts[verdict]++;
        printf("%s: %s\n%s", paths[i], verdict_names[verdict], is_failure(verdict) && log.data ? log.data : "");
        buffer_free(&log);
        free(text);
    }
    return 0;
}

static bool option(const char *argument, const char *name, uint64_t *value) {
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0 || argument[length] != '=')
        return false;
    *value = strtoull(argument + length + 1, NULL, 0);
    return true;
}

static int print_kernel(Run *run, uint64_t seed) {
    char *text = generate_kernel(seed, "k0", &run->accepted);
    fputs(text, stdout);
    free(text);
    return 0;
}

static int failures(const Run *run) {
    int count = 0;
    for (int verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        printf("%s%s %d", verdict ? ", " : "", verdict_names[verdict], run->verdicts[verdict]);
        count += is_failure((Verdict)verdict) ? run->verdicts[verdict] : 0;
    }
    putchar('\n');
    return count;
}

static Tools tools_in(Tools tools, const char *folder, const char *name) {
    char *path = NULL;
    mkdir(folder, 0777);
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        abort();
    mkdir(path, 0777);
    tools.folder = path; /* until the end */
    return tools;
}

int main(int argc, char **argv) {
    static Run run = {.seed = 1, .count = 300, .chunk = MOST_KERNELS_OF_A_FILE, .shrinks = 8};
    if (argc < 3) {
        fprintf(stderr,
            "usage: %s PHOBOSC FOLDER [--seed=N] [--count=N] [--least=N] [--by-type] [--chunk=N] [--shrinks=N] [--save=FOLDER] [--stop] "
            "[--quick|--simt|--any-order] [--dry] | --replay FILE.. | --print=SEED\n",
            argv[0]);
        return 2;
    }
    Tools tools = {.phobosc = argv[1], .has_v4 = __builtin_cpu_supports("x86-64-v4")};
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0)
            tools.builds = BUILDS_O0;
        else if (strcmp(argv[i], "--simt") == 0)
            tools.builds = BUILDS_SIMT, tools.any_order = true;
        else if (strcmp(argv[i], "--any-order") == 0)
            tools.any_order = true;
    run.tools[0] = tools_in(tools, argv[2], "even");
    run.tools[1] = tools_in(tools, argv[2], "odd");
    run.small = tools_in(tools, argv[2], "small");
    for (int i = 3; i < argc; i++) {
        uint64_t value;
        if (strcmp(argv[i], "--replay") == 0) {
            replay(&run, argv + i + 1, argc - i - 1);
            return failures(&run) > 0;
        }
        if (strcmp(argv[i], "--stop") == 0) {
            run.stop = true;
            continue;
        }
        if (strcmp(argv[i], "--quick") == 0 || strcmp(argv[i], "--simt") == 0 || strcmp(argv[i], "--any-order") == 0)
            continue;
        if (strcmp(argv[i], "--dry") == 0) {
            run.dry = true;
            continue;
        }
        if (strcmp(argv[i], "--by-type") == 0) {
            run.by_type = true;
            continue;
        }
        if (option(argv[i], "--print", &value))
            return print_kernel(&run, value);
        if (option(argv[i], "--seed", &run.seed))
            continue;
        if (option(argv[i], "--count", &value))
            run.count = (int)value;
        else if (option(argv[i], "--chunk", &value) && value > 0 && value <= MOST_KERNELS_OF_A_FILE)
            run.chunk = (int)value;
        else if (option(argv[i], "--least", &value))
            run.least = (int)value;
        else if (option(argv[i], "--shrinks", &value))
            run.shrinks = (int)value;
        else if (strncmp(argv[i], "--save=", 7) == 0)
            run.save = argv[i] + 7;
        else
            return fprintf(stderr, "differential: unknown option '%s'\n", argv[i]), 2;
    }
    (run.dry ? run_dry : run_fresh)(&run);
    printf("seed %" PRIu64 "\n", run.seed);
    int low = coverage_print(&run.done, stdout, run.least, run.by_type);
    return failures(&run) > 0 || low > 0;
}

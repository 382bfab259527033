/* differential PHOBOSC FOLDER [--seed=N] [--count=N] [--least=N] [--save=FOLDER] [--stop]     fresh kernels
 * differential PHOBOSC FOLDER --replay FILE..                                         saved ones
 * differential PHOBOSC FOLDER --print=SEED                                            one kernel's text */
#include "tests/differential/differential.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KERNELS_OF_A_FILE = 50, MOST_INVALID = 40 };

typedef struct Run {
    Tools tools;
    uint64_t seed;
    int count, least, shrinks;
    bool stop;        /* at the first failure */
    const char *save; /* a folder for the small texts of failures; NULL: none */
    Tally tally;
    Coverage coverage;
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
    char *small = shrink(&run->tools, text, verdict);
    Buffer last = {0};
    judge(&run->tools, small, &last);
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

static void count_numbers(Run *run, const Problem *problem) {
    const Signature *signature = &problem->kernel->signature;
    for (int i = 0; i < signature->params.count; i++) {
        const Value *value = &problem->tensors[i].value;
        for (int64_t at = 0; signature->params.items[i].name[0] == 'o' && at < value_count(value); at++) {
            run->coverage.numbers++;
            run->coverage.unknown += !number_is_known(value->at[at]);
        }
    }
}

/* The executables of the text that holds this kernel are there. */
static Verdict run_compiled(Run *run, const char *text, Buffer *log) {
    Subject subject;
    Setting setting;
    Problem problem;
    Verdict verdict = VERDICT_INVALID;
    setting_read(text, &setting);
    subject_open(&subject, text, true);
    if (problem_init(&problem, &subject, &setting)) {
        problem.edges = &run->coverage.edges;
        verdict = run_kernel(&run->tools, &problem, &setting, log);
        if (verdict != VERDICT_UNDECIDED) {
            coverage_add(&run->coverage, problem.kernel);
            count_numbers(run, &problem);
        }
        problem_fini(&problem);
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
        printf("%s, after %d kernels\n", verdict_names[verdict], run->verdicts[VERDICT_SAME] + run->verdicts[VERDICT_UNDECIDED] + 1);
        exit(1);
    }
}

/* Compiles the texts together; where that fails, halves them until the guilty ones stand alone. Failures are shrunk after the others have run, since
 * that overwrites the executables. */
static void run_texts(Run *run, char **texts, int count) {
    Buffer all = {0}, log = {0};
    bool unsupported;
    for (int i = 0; i < count; i++)
        buffer_puts(&all, texts[i]);
    bool compiled = compile_all(&run->tools, all.data, &log, &unsupported);
    buffer_free(&all);
    if (!compiled && count == 1) {
        finish(run, texts[0], unsupported ? VERDICT_UNSUPPORTED : VERDICT_COMPILER, &log);
        return;
    }
    buffer_free(&log);
    if (!compiled) {
        run_texts(run, texts, count / 2);
        run_texts(run, texts + count / 2, count - count / 2);
        return;
    }
    Verdict verdicts[KERNELS_OF_A_FILE];
    Buffer logs[KERNELS_OF_A_FILE] = {{0}};
    for (int i = 0; i < count; i++)
        verdicts[i] = run_compiled(run, texts[i], &logs[i]);
    for (int i = 0; i < count; i++)
        finish(run, texts[i], verdicts[i], &logs[i]);
}

/* A text that the front end accepts; NULL: the seed gives none. */
static char *accepted_text(Run *run, uint64_t seed, int number) {
    char name[32];
    snprintf(name, sizeof name, "k%d", number);
    char *text = generate_kernel(seed, name, &run->tally);
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
    }
    subject_close(&subject);
    return text;
}

static void run_fresh(Run *run) {
    Random random = {run->seed};
    int number = 0;
    for (int done = 0; done < run->count;) {
        char *texts[KERNELS_OF_A_FILE];
        int count = 0;
        for (int tries = 0; tries < 4 * KERNELS_OF_A_FILE && count < KERNELS_OF_A_FILE && done + count < run->count; tries++) {
            char *text = accepted_text(run, random_bits(&random), number++);
            if (text)
                texts[count++] = text;
        }
        if (count > 0)
            run_texts(run, texts, count);
        for (int i = 0; i < count; i++)
            free(texts[i]);
        done += count > 0 ? count : run->count;
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
        Verdict verdict = judge(&run->tools, text, &log);
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
    char *text = generate_kernel(seed, "k0", &run->tally);
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

int main(int argc, char **argv) {
    static Run run = {.seed = 1, .count = 300, .shrinks = 8};
    if (argc < 3) {
        fprintf(stderr,
            "usage: %s PHOBOSC FOLDER [--seed=N] [--count=N] [--least=N] [--shrinks=N] [--save=FOLDER] | --replay FILE.. | --print=SEED\n", argv[0]);
        return 2;
    }
    run.tools = (Tools){.phobosc = argv[1], .folder = argv[2], .has_v4 = __builtin_cpu_supports("x86-64-v4")};
    mkdir(argv[2], 0777);
    for (int i = 3; i < argc; i++) {
        uint64_t value;
        if (strcmp(argv[i], "--replay") == 0) {
            replay(&run, argv + i + 1, argc - i - 1);
            return failures(&run) > 0;
        }
        if (strcmp(argv[i], "--stop") == 0) {
            run.stop = true;
            run.shrinks = 0;
            continue;
        }
        if (option(argv[i], "--print", &value))
            return print_kernel(&run, value);
        if (option(argv[i], "--seed", &run.seed))
            continue;
        if (option(argv[i], "--count", &value))
            run.count = (int)value;
        else if (option(argv[i], "--least", &value))
            run.least = (int)value;
        else if (option(argv[i], "--shrinks", &value))
            run.shrinks = (int)value;
        else if (strncmp(argv[i], "--save=", 7) == 0)
            run.save = argv[i] + 7;
        else
            return fprintf(stderr, "differential: unknown option '%s'\n", argv[i]), 2;
    }
    run_fresh(&run);
    printf("seed %" PRIu64 "\n", run.seed);
    int low = coverage_print(&run.coverage, stdout, run.least);
    return failures(&run) > 0 || low > 0;
}

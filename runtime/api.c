/* phobos.h: jobs as calls. */
#include "runtime/cli.h"
#include "runtime/phobos.h"

#include <stdlib.h>
#include <string.h>

/* Texts under construction; where there is no memory for one, its FILE is NULL. */
typedef struct Texts {
    FILE *out, *messages;
    char *out_text, *messages_text;
    size_t out_size, messages_size;
} Texts;

static bool texts_begin(Texts *texts) {
    *texts = (Texts){0};
    texts->out = open_memstream(&texts->out_text, &texts->out_size);
    texts->messages = open_memstream(&texts->messages_text, &texts->messages_size);
    return texts->out != NULL && texts->messages != NULL;
}

static PhbResult texts_end(Texts *texts, int status) {
    if (texts->out != NULL)
        fclose(texts->out);
    if (texts->messages != NULL)
        fclose(texts->messages);
    return (PhbResult){status, texts->out_text, texts->messages_text};
}

/* As a command line, whose job is there for the parser alone. */
static bool read_options(const char *const *options, CommandLine *line, ErrorList *errors) {
    int count = 0;
    while (options != NULL && options[count] != NULL)
        count++;
    char **arguments = new_zeroed((size_t)count + 3, sizeof *arguments);
    arguments[0] = arguments[count + 1] = (char[]){"job"};
    for (int i = 0; i < count; i++)
        arguments[i + 1] = (char *)options[i];
    bool fine = cli_parse(count + 2, arguments, line, errors);
    free(arguments);
    static const OptionId others[] = {OPTION_HELP, OPTION_VERSION, OPTION_INFO, OPTION_JOB_TEMPLATE, OPTION_CHECK, OPTION_PLAN, OPTION_ROLE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (fine && line->values[others[i]].given) {
            errors_add(errors, "--%s runs no job: it is for the command line", cli_option_name(others[i]));
            fine = false;
        }
    return fine;
}

static int report_errors(ErrorList *errors, FILE *out) {
    int status = errors_exit_code(errors);
    errors_print(errors, out);
    errors_free(errors);
    return status;
}

static int run(const PhbProgram *program, const char *path, const char *json, const PhbRun *how, Texts *texts) {
    static const PhbRun nothing;
    how = how != NULL ? how : &nothing;
    CommandLine line;
    ErrorList errors = {0};
    if (program->abi_version != PHB_ABI_VERSION) {
        fprintf(texts->out, "error: kernels of ABI %d, runtime of ABI %d: compile and link with one version of Phobos\n", program->abi_version,
            PHB_ABI_VERSION);
        return EXIT_FAILED;
    }
    if (!read_options(how->options, &line, &errors))
        return report_errors(&errors, texts->out);
    Job *job = json != NULL ? job_load_text(program, json, how->folder, &errors) : job_load(program, path, &errors);
    if (job == NULL)
        return report_errors(&errors, texts->out);
    for (int i = 0; i < job->remarks.count; i++)
        fprintf(texts->messages, "remark: %s\n", job->remarks.lines[i]);
    cli_settle_job(&line, job);
    RunOptions options = cli_run_options(&line);
    options.plan.placement = cli_placement(&line, job);
    options.out = options.errors = texts->out;
    options.messages = texts->messages;
    options.is_cancelled = how->is_cancelled;
    options.context = how->context;
    int status = local_run(job, &options);
    job_end(job, status);
    return status;
}

static PhbResult run_all(const PhbProgram *program, const char *path, const char *json, const PhbRun *how) {
    Texts texts;
    int status = texts_begin(&texts) ? run(program, path, json, how, &texts) : EXIT_FAILED;
    return texts_end(&texts, status);
}

PhbResult phb_run_file(const PhbProgram *program, const char *path, const PhbRun *how) {
    return run_all(program, path, NULL, how);
}

PhbResult phb_run_text(const PhbProgram *program, const char *json, const PhbRun *how) {
    return run_all(program, NULL, json, how);
}

void phb_result_free(PhbResult *result) {
    free(result->text);
    free(result->messages);
    *result = (PhbResult){.status = result->status};
}

char *phb_info(const PhbProgram *program) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    info_print_json(program, out);
    fclose(out);
    return text;
}

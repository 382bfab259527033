/* phb_main: what a produced executable does with its command line. */
#include "runtime/cli.h"
#include "runtime/crash.h"
#include "runtime/net/keys.h"
#include "runtime/pod/server.h"
#include "runtime/sched/course.h"
#include "runtime/sched/doctor.h"
#include "runtime/sched/server.h"
#include "runtime/slurm.h"
#include "runtime/streams.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

atomic_bool interrupted;

/* The first asks for an orderly end, the second for a quick one; who asks again waits for something that does not come. */
static void on_signal(int number) {
    static atomic_int signals;
    (void)number;
    if (atomic_fetch_add(&signals, 1) == 2)
        _exit(EXIT_FAILED);
    atomic_store(&interrupted, true);
}

static void install_signals(void) {
    struct sigaction end = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&end.sa_mask);
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGPIPE, &ignore, NULL); /* a closed pipe and a file size limit become errors of the calls */
    sigaction(SIGXFSZ, &ignore, NULL);
}

/* Text that did not reach its reader is a failure. */
static int finish_output(int code) {
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return code;
    perror("error: cannot write to the standard output");
    return code == EXIT_DONE ? EXIT_FAILED : code;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int print_help(const PhbProgram *program, const char *name) {
    printf("usage: %s [options] job.json\n"
           "       %s --role=sched [options] job.json\n"
           "       %s --role=pod [options]\n"
           "       %s --role=doctor [options] [job.json]\n"
           "       %s --check job.json\n"
           "       %s --plan job.json [--nodes=N] [--memory=BYTES] [--format=text|json|dot|svg]\n\n"
           "Runs a job on the kernels of %s. Exit code: 0, the outputs are in place; 1, the job failed and the old outputs are\n"
           "untouched; 2, the command line or the job file is wrong.\n\n",
        name, name, name, name, name, name, program->file);
    puts("options:");
    cli_print_options(stdout);
    putchar('\n');
    info_print_text(program, stdout);
    return finish_output(EXIT_DONE);
}

static int print_version(const PhbProgram *program, const char *name) {
    printf("%s (%s) build ", name, program->compiler);
    for (size_t i = 0; i < sizeof program->build_id; i++)
        printf("%02x", program->build_id[i]);
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    printf("\nwith libzmq %d.%d.%d\n", major, minor, patch);
    return finish_output(EXIT_DONE);
}

/* All that the scheduler would refuse before the first load. */
static int check_job(Job *job, const RunOptions *options) {
    Error error;
    Course *course = course_bind(job, options->plan.leaf, &error);
    int code = course == NULL ? EXIT_USAGE : EXIT_FAILED;
    if (course != NULL) {
        course_place(course, options->plan.placement, 1);
        if (course_fit(course, options->plan.memory > 0 ? options->plan.memory : machine_memory(), &error))
            code = EXIT_DONE;
    }
    if (code == EXIT_DONE)
        printf("%s: fine\n", job->path);
    else
        fprintf(stderr, "error: %s: %s\n", job->path, error.text);
    course_free(course);
    return finish_output(code);
}

/* The least of the bounds that are given; 0 where none is. */
static int64_t memory_bound(const OptionValue *values) {
    static const OptionId bounds[] = {OPTION_MEMORY, OPTION_BUDGET, OPTION_VRAM};
    int64_t least = 0;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if (values[bounds[i]].given && (least == 0 || values[bounds[i]].number < least))
            least = values[bounds[i]].number;
    return least;
}

RunOptions cli_run_options(const CommandLine *line) {
    const OptionValue *values = line->values;
    return (RunOptions){
        .pods = (int)values[OPTION_PODS].number,
        .threads = (int)values[OPTION_THREADS].number,
        .plan =
            {
                .leaf = (LeafChoice)values[OPTION_LEAF].number,
                .placement = (PlacementPolicy)values[OPTION_PLACEMENT].number,
                .autotune = values[OPTION_AUTOTUNE].given ? AUTOTUNE_MODEL + (int)values[OPTION_AUTOTUNE].number : AUTOTUNE_NONE,
                .memory = memory_bound(values),
                .link_bw = values[OPTION_LINK_BW].rate,
                .leaf_flops = values[OPTION_LEAF_FLOPS].rate,
            },
        .progress = (ProgressMode)values[OPTION_PROGRESS].number,
        .log = values[OPTION_LOG].given ? (LogLevel)values[OPTION_LOG].number : LOG_WARNING,
        .keep_staging = values[OPTION_KEEP_STAGING].given,
        .resume = values[OPTION_RESUME].given,
        .trace = values[OPTION_TRACE].text,
        .selfcheck = values[OPTION_SELFCHECK].given,
        .device = values[OPTION_DEVICE].text,
        .mixed = values[OPTION_MIXED].given,
        .audit = {values[OPTION_AUDIT].rate, values[OPTION_AUDIT_SEED].given ? (uint64_t)values[OPTION_AUDIT_SEED].number : 1},
        .simt = {(uint64_t)values[OPTION_SIMT_SEED].number, (int)values[OPTION_SIMT_ELECT].number, values[OPTION_SIMT_WEAK].given},
        .out = stdout,
        .errors = stderr,
        .messages = stderr,
    };
}

void cli_settle_job(const CommandLine *line, Job *job) {
    for (int s = 0; s < job_step_count(job); s++)
        job_step(job, s)->split_k = line->values[OPTION_SPLIT_K].number;
}

/* What steps leave in pods is best read there. */
PlacementPolicy cli_placement(const CommandLine *line, const Job *job) {
    const OptionValue *value = &line->values[OPTION_PLACEMENT];
    return !value->given && job->sequence != NULL ? PLACE_NEAR : (PlacementPolicy)value->number;
}

/* --key and --peers; *keys stays NULL where neither is given. */
static bool load_keys(const CommandLine *line, Keys **keys, int *exit_code) {
    const char *key = cli_key(line), *peers = line->values[OPTION_PEERS].text;
    Error error;
    *keys = NULL;
    if (key == NULL && peers == NULL)
        return true;
    *exit_code = EXIT_USAGE;
    if (key == NULL || peers == NULL) {
        fprintf(stderr, "error: --key and --peers go together: who this process is, and whom it lets in\n");
        return false;
    }
    *keys = keys_load(key, peers, &error);
    if (*keys == NULL)
        fprintf(stderr, "error: %s\n", error.text);
    else
        keys_shield_process();
    return *keys != NULL;
}

/* Names the key after its file where no name is given. */
static int make_keys(const CommandLine *line) {
    const char *path = cli_key(line), *name = line->values[OPTION_NODE_NAME].text;
    if (path == NULL) {
        fprintf(stderr, "error: --role=keygen needs --key=FILE, the file to make\n");
        return EXIT_USAGE;
    }
    char *base = format_text("%s", base_name(path));
    char *dot = strrchr(base, '.');
    if (dot != NULL && dot != base)
        *dot = '\0';
    Error error;
    int code = keys_generate(path, name != NULL ? name : base, &error) ? EXIT_DONE : EXIT_FAILED;
    if (code == EXIT_DONE)
        printf("%s is the secret key; the line in %s.pub goes into the files of peers\n", path, path);
    else
        fprintf(stderr, "error: %s\n", error.text);
    free(base);
    return finish_output(code);
}

enum { JOIN_WINDOW_MS = 2000, JOIN_TIMEOUT_MS = 60000, DEADLINE_MS = 10000 };

static int given_ms(const CommandLine *line, OptionId option, int otherwise) {
    return line->values[option].given ? (int)line->values[option].number : otherwise;
}

static int serve(Job *job, const CommandLine *line) {
    const OptionValue *values = line->values;
    RunOptions run = cli_run_options(line);
    run.plan.placement = cli_placement(line, job);
    ServeOptions options = {
        .listen = values[OPTION_LISTEN].text,
        .nodes = values[OPTION_NODES].given ? (int)values[OPTION_NODES].number : slurm_pods(stderr),
        .join_window_ms = given_ms(line, OPTION_JOIN_WINDOW, JOIN_WINDOW_MS),
        .join_timeout_ms = given_ms(line, OPTION_JOIN_TIMEOUT, JOIN_TIMEOUT_MS),
        .deadline_ms = given_ms(line, OPTION_DEADLINE, DEADLINE_MS),
        .insecure = values[OPTION_INSECURE].given,
        .plan = run.plan,
        .mixed = run.mixed,
        .audit = run.audit,
        .speculate = values[OPTION_SPECULATE].given,
        .progress = run.progress,
        .log = run.log,
        .keep_staging = run.keep_staging,
        .resume = run.resume,
        .trace = run.trace,
    };
    int exit_code;
    Keys *keys;
    if (!load_keys(line, &keys, &exit_code))
        return exit_code;
    options.keys = keys;
    exit_code = sched_serve(job, &options);
    keys_free(keys);
    return exit_code;
}

static int be_doctor(const PhbProgram *program, const Job *job, const CommandLine *line) {
    const OptionValue *values = line->values;
    DoctorOptions options = {
        .listen = values[OPTION_LISTEN].text,
        .nodes = (int)values[OPTION_NODES].number,
        .join_window_ms = given_ms(line, OPTION_JOIN_WINDOW, JOIN_WINDOW_MS),
        .join_timeout_ms = given_ms(line, OPTION_JOIN_TIMEOUT, JOIN_TIMEOUT_MS),
        .insecure = values[OPTION_INSECURE].given,
        .log = cli_run_options(line).log,
    };
    int exit_code;
    Keys *keys;
    if (!load_keys(line, &keys, &exit_code))
        return exit_code;
    options.keys = keys;
    exit_code = doctor_serve(program, job, &options);
    keys_free(keys);
    return exit_code;
}

static int be_pod_with(const PhbProgram *program, const CommandLine *line, PodServeOptions *options) {
    int exit_code;
    Keys *keys;
    if (!load_keys(line, &keys, &exit_code))
        return exit_code;
    Error error;
    Roots *roots = line->root_count > 0 ? roots_open(line->roots, line->root_count, &error) : NULL;
    if (line->root_count > 0 && roots == NULL) {
        fprintf(stderr, "error: %s\n", error.text);
        exit_code = EXIT_USAGE;
    } else {
        options->keys = keys;
        options->roots = roots;
        exit_code = pod_serve(program, options);
    }
    roots_free(roots);
    keys_free(keys);
    return exit_code;
}

static int be_pod(const PhbProgram *program, const CommandLine *line) {
    const OptionValue *values = line->values;
    RunOptions run = cli_run_options(line);
    const char *sched = values[OPTION_SCHEDULER].given ? values[OPTION_SCHEDULER].text : getenv("PHOBOS_SCHED");
    char *slurm_sched = sched == NULL ? slurm_scheduler(stderr) : NULL;
    char *slurm_name = !values[OPTION_NODE_NAME].given && cli_key(line) == NULL ? slurm_node_name(stderr) : NULL;
    PodServeOptions options = {
        .sched = sched != NULL ? sched : slurm_sched,
        .persist = values[OPTION_PERSIST].given,
        .listen = values[OPTION_LISTEN].text,
        .advertise = values[OPTION_ADVERTISE].text,
        .node_name = slurm_name != NULL ? slurm_name : values[OPTION_NODE_NAME].text,
        .device = run.device,
        .simt = run.simt,
        .threads = run.threads,
        .memory = run.plan.memory,
        .insecure = values[OPTION_INSECURE].given,
        .log = run.log,
    };
    int exit_code = be_pod_with(program, line, &options);
    free(slurm_sched);
    free(slurm_name);
    return exit_code;
}

static int with_job(const PhbProgram *program, const CommandLine *line) {
    ErrorList errors = {0};
    Job *job = job_load(program, line->job, &errors);
    if (job == NULL) {
        int code = errors_exit_code(&errors);
        errors_print(&errors, stderr);
        errors_free(&errors);
        return code;
    }
    for (int i = 0; i < job->remarks.count; i++)
        fprintf(stderr, "remark: %s\n", job->remarks.lines[i]);
    cli_settle_job(line, job);
    RunOptions options = cli_run_options(line);
    const OptionValue *values = line->values;
    int code;
    options.plan.placement = cli_placement(line, job);
    if (values[OPTION_CHECK].given) {
        code = check_job(job, &options);
    } else if (values[OPTION_PLAN].given) {
        int nodes = values[OPTION_NODES].given ? (int)values[OPTION_NODES].number : 1;
        code = finish_output(plan_print(job, nodes, &options.plan, (PlanFormat)values[OPTION_FORMAT].number, stdout));
    } else if (values[OPTION_ROLE].given && values[OPTION_ROLE].number == ROLE_DOCTOR) {
        code = finish_output(be_doctor(program, job, line));
    } else if (values[OPTION_ROLE].given) {
        code = finish_output(serve(job, line));
    } else {
        options.owns_process = true;
        code = finish_output(local_run(job, &options));
    }
    job_end(job, code);
    return code;
}

int phb_main(const PhbProgram *program, int argc, char **argv) {
    const char *name = argc > 0 ? base_name(argv[0]) : program->file;
    CommandLine line;
    ErrorList errors = {0};
    streams_open();
    install_signals();
    if (program->abi_version != PHB_ABI_VERSION) {
        fprintf(stderr, "error: kernels of ABI %d, runtime of ABI %d: compile and link with one version of Phobos\n", program->abi_version,
            PHB_ABI_VERSION);
        return EXIT_FAILED;
    }
    Error error;
    if (!crash_init(&error)) {
        fprintf(stderr, "error: %s\n", error.text);
        return EXIT_USAGE;
    }
    bool parsed = cli_parse(argc, argv, &line, &errors);
    errors_print(&errors, stderr);
    errors_free(&errors);
    if (!parsed)
        return EXIT_USAGE;
    if (line.values[OPTION_HELP].given)
        return print_help(program, name);
    if (line.values[OPTION_VERSION].given)
        return print_version(program, name);
    if (line.values[OPTION_INFO].given) {
        (line.values[OPTION_INFO].number == 1 ? info_print_json : info_print_text)(program, stdout);
        return finish_output(EXIT_DONE);
    }
    if (line.values[OPTION_JOB_TEMPLATE].given || line.values[OPTION_SCHEMA].given) {
        (line.values[OPTION_SCHEMA].given ? job_print_schema : job_print_template)(program, stdout);
        return finish_output(EXIT_DONE);
    }
    bool doctor = line.values[OPTION_ROLE].given && line.values[OPTION_ROLE].number == ROLE_DOCTOR;
    if (doctor && line.job == NULL)
        return finish_output(be_doctor(program, NULL, &line));
    if (line.values[OPTION_ROLE].given && line.values[OPTION_ROLE].number != ROLE_SCHED && !doctor) {
        bool pod = line.values[OPTION_ROLE].number == ROLE_POD;
        if (line.job == NULL)
            return pod ? be_pod(program, &line) : make_keys(&line);
        fprintf(stderr, "error: a %s takes no job file, found \"%s\"%s\n", pod ? "pod" : "key", line.job, pod ? ": the scheduler tells it" : "");
        return EXIT_USAGE;
    }
    if (line.job != NULL)
        return with_job(program, &line);
    fprintf(stderr, "error: no job file: %s job.json runs a job, %s --job-template prints one to fill in, %s --help says more\n", name, name, name);
    return EXIT_USAGE;
}

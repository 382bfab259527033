/* From argv to checked options, by the table in cli_options.def. */
#include "runtime/cli.h"
#include "runtime/net/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum OptionKind {
    FLAG,
    MODE, /* a flag that chooses what is done; its value, where written, is the job */
    TEXT,
    COUNT,
    BYTES,
    SECONDS,
    PERCENT,
    RATE,
    BIND,    /* an address to listen at */
    CONNECT, /* an address to reach */
    DEVICE,
    FOLDERS, /* may be repeated */
    CHOICE,
    OPTIONAL_CHOICE
} OptionKind;

enum { RUN = 1, CHECK = 2, PLAN = 4, SCHED = 8, POD = 16, KEYGEN = 32, DOCTOR = 64, ANYWHERE = 127 };

typedef struct Option {
    const char *name, *placeholder;
    OptionKind kind;
    const char *choices;
    unsigned where;
    const char *help;
} Option;

static const Option options[OPTION_COUNT] = {
#define OPTION(id, name, placeholder, kind, choices, where, help) [OPTION_##id] = {name, placeholder, kind, choices, where, help},
#include "runtime/cli_options.def"
#undef OPTION
};

bool cli_parse_bytes(const char *text, int64_t *bytes) {
    static const char letters[] = "KMGT";
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    long long value = strtoll(text, &end, 10);
    if (errno != 0)
        return false;
    const char *letter = *end != '\0' ? strchr(letters, *end) : NULL;
    if (letter != NULL) {
        end++;
        int64_t base = strcmp(end, "B") == 0 ? 1000 : 1024;
        for (const char *step = letters; step <= letter; step++)
            if (__builtin_mul_overflow(value, base, &value))
                return false;
        if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0)
            end = "";
    } else if (strcmp(end, "B") == 0) {
        end = "";
    }
    *bytes = value;
    return *end == '\0' && value >= 1;
}

static int choice_find(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (int index = 0; choices != NULL; index++) {
        size_t this_length = strcspn(choices, "|");
        if (this_length == length && strncmp(choices, text, length) == 0)
            return index;
        choices = choices[this_length] == '|' ? choices + this_length + 1 : NULL;
    }
    return -1;
}

static bool parse_real(const char *text, double least, double most, const char *suffix, double *value) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *value = strtod(text, &end);
    return (*end == '\0' || strcmp(end, suffix) == 0) && *value >= least && *value <= most;
}

static bool parse_count(const char *text, int64_t *number) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *number = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && *number >= 1 && *number <= 65536;
}

static bool is_device(const char *text) {
    int64_t index;
    if (strncmp(text, "cuda:", 5) == 0)
        return strcmp(text + 5, "0") == 0 || parse_count(text + 5, &index);
    return choice_find("auto|cpu|simt", text) >= 0;
}

/* What was expected, where the value is not it; else NULL. */
static const char *check_value(const Option *option, OptionValue *value) {
    double real;
    Error error;
    switch (option->kind) {
    case FLAG:
    case MODE:
    case TEXT:
    case FOLDERS:
        return value->text == NULL || value->text[0] != '\0' ? NULL : "something";
    case COUNT:
        return parse_count(value->text, &value->number) ? NULL : "a number from 1 to 65536";
    case BYTES:
        return cli_parse_bytes(value->text, &value->number) ? NULL : "a size such as 4096, 512M or 2GiB";
    case SECONDS:
        if (!parse_real(value->text, 0, 1e6, "s", &real))
            return "a number of seconds";
        value->number = (int64_t)(real * 1000);
        return NULL;
    case PERCENT:
        return parse_real(value->text, 0, 100, "%", &value->rate) ? NULL : "0% to 100%";
    case RATE:
        return parse_real(value->text, 1, 1e30, "", &value->rate) ? NULL : "a number such as 12.5e9";
    case BIND:
        return endpoint_check_bind(value->text, true, &error) ? NULL : "tcp://HOST:PORT, where the port may be *";
    case CONNECT:
        return endpoint_check_connect(value->text, &error) ? NULL : "tcp://HOST:PORT";
    case DEVICE:
        return is_device(value->text) ? NULL : "auto, cpu, cuda:K or simt";
    case CHOICE:
    case OPTIONAL_CHOICE:
        value->number = value->text != NULL ? choice_find(option->choices, value->text) : 0;
        return value->number >= 0 ? NULL : option->choices;
    }
    return NULL;
}

static int option_find(const char *name, size_t length) {
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return i;
    return -1;
}

static void add_unknown(const char *argument, size_t length, ErrorList *errors) {
    const char *names[OPTION_COUNT];
    for (int i = 0; i < OPTION_COUNT; i++)
        names[i] = options[i].name;
    char *name = format_text("%.*s", (int)length, argument);
    const char *nearest = name_nearest(name, names, OPTION_COUNT);
    errors_add(errors, "unknown option \"--%s\"%s%s%s", name, nearest != NULL ? "; did you mean \"--" : "; --help lists what is known",
        nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "");
    free(name);
}

static void take_job(CommandLine *line, const char *path, ErrorList *errors) {
    if (line->job != NULL)
        errors_add(errors, "one job at a time: both \"%s\" and \"%s\" are given", line->job, path);
    else
        line->job = path;
}

/* argv[*index] is "--..."; a value in the next argument is taken with it. */
static void take_option(int argc, char **argv, int *index, CommandLine *line, ErrorList *errors) {
    const char *argument = argv[*index] + 2, *equals = strchr(argument, '=');
    size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    int id = option_find(argument, length);
    if (id < 0) {
        add_unknown(argument, length, errors);
        return;
    }
    const Option *option = &options[id];
    OptionValue value = {.given = true, .text = equals != NULL ? equals + 1 : NULL};
    const char *next = *index + 1 < argc ? argv[*index + 1] : NULL;
    bool may_take = equals == NULL && next != NULL && option->kind != FLAG && option->kind != MODE;
    if (may_take && (option->kind == OPTIONAL_CHOICE ? choice_find(option->choices, next) >= 0 : strncmp(next, "--", 2) != 0)) {
        value.text = next;
        ++*index;
    }
    if (option->kind == FLAG && value.text != NULL) {
        errors_add(errors, "--%s takes no value, found \"%s\"", option->name, value.text);
    } else if (value.text == NULL && option->kind != FLAG && option->kind != MODE && option->kind != OPTIONAL_CHOICE) {
        errors_add(errors, "--%s needs a value: --%s=%s", option->name, option->name, option->placeholder);
    } else {
        const char *expected = check_value(option, &value);
        if (expected != NULL)
            errors_add(errors, "--%s: expected %s, found \"%s\"", option->name, expected, value.text);
        else if (option->kind == MODE && value.text != NULL)
            take_job(line, value.text, errors);
        else if (option->kind == FOLDERS && line->root_count == CLI_MAX_ROOTS)
            errors_add(errors, "--%s: at most %d may be given", option->name, CLI_MAX_ROOTS);
        else if (option->kind == FOLDERS)
            line->roots[line->root_count++] = value.text;
        line->values[id] = value;
    }
}

static unsigned mode_of(const CommandLine *line, ErrorList *errors) {
    const OptionValue *values = line->values;
    if (values[OPTION_CHECK].given + values[OPTION_PLAN].given + values[OPTION_ROLE].given > 1)
        errors_add(errors, "--check, --plan and --role exclude each other");
    static const unsigned roles[] = {[ROLE_SCHED] = SCHED, [ROLE_POD] = POD, [ROLE_KEYGEN] = KEYGEN, [ROLE_DOCTOR] = DOCTOR};
    if (values[OPTION_ROLE].given)
        return roles[values[OPTION_ROLE].number];
    return values[OPTION_CHECK].given ? CHECK : values[OPTION_PLAN].given ? PLAN : RUN;
}

static const char *places_text(unsigned where) {
    return where & RUN ? "a run" : where & PLAN ? "--plan" : where & SCHED ? "--role=sched" : where & POD ? "--role=pod" : "--role=keygen";
}

static void check_places(const CommandLine *line, ErrorList *errors) {
    unsigned mode = mode_of(line, errors);
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!line->values[i].given)
            continue;
        if (!(options[i].where & mode))
            errors_add(errors, "--%s means nothing here: it goes with %s", options[i].name, places_text(options[i].where));
    }
    Error error;
    if (line->values[OPTION_LISTEN].given && !endpoint_check_bind(line->values[OPTION_LISTEN].text, line->values[OPTION_INSECURE].given || cli_key(line) != NULL, &error))
        errors_add(errors, "--listen: %s", error.text);
    if (line->values[OPTION_DEADLINE].given && line->values[OPTION_DEADLINE].number < 1000)
        errors_add(errors, "--deadline: expected at least 1 second, found \"%s\"", line->values[OPTION_DEADLINE].text);
    const char *device = line->values[OPTION_DEVICE].text;
    for (int id = OPTION_SIMT_SEED; id <= OPTION_SIMT_WEAK; id++)
        if (line->values[id].given && (device == NULL || strcmp(device, "simt") != 0))
            errors_add(errors, "--%s means nothing here: it goes with --device=simt", options[id].name);
    if (line->values[OPTION_AUDIT_SEED].given && !line->values[OPTION_AUDIT].given)
        errors_add(errors, "--audit-seed means nothing here: it goes with --audit");
    if (line->values[OPTION_SPECULATE].given && line->values[OPTION_MIXED].given)
        errors_add(errors, "--speculate and --mixed exclude each other: two pods write the same tile, and must write the same bits");
    if (line->values[OPTION_AUDIT].given && line->values[OPTION_MIXED].given)
        errors_add(errors, "--audit and --mixed exclude each other: devices of several classes need not compute the same bits");
}

bool cli_parse(int argc, char **argv, CommandLine *line, ErrorList *errors) {
    *line = (CommandLine){.job = NULL};
    bool only_jobs = false;
    for (int i = 1; i < argc; i++) {
        if (only_jobs || argv[i][0] != '-')
            take_job(line, argv[i], errors);
        else if (strcmp(argv[i], "--") == 0)
            only_jobs = true;
        else if (strcmp(argv[i], "-h") == 0)
            line->values[OPTION_HELP].given = true;
        else if (argv[i][1] == '-')
            take_option(argc, argv, &i, line, errors);
        else
            errors_add(errors, "unknown option \"%s\"; --help lists what is known", argv[i]);
    }
    if (errors->count == 0)
        check_places(line, errors);
    return errors->count == 0;
}

const char *cli_key(const CommandLine *line) {
    const char *variable = getenv("PHOBOS_KEY");
    return line->values[OPTION_KEY].given ? line->values[OPTION_KEY].text : variable != NULL && *variable != '\0' ? variable : NULL;
}

const char *cli_option_name(OptionId id) {
    return options[id].name;
}

void cli_print_options(FILE *out) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        const Option *option = &options[i];
        bool optional = option->kind == OPTIONAL_CHOICE;
        char *left = format_text("--%s%s%s%s%s", option->name, optional ? "[" : "", option->placeholder != NULL ? "=" : "",
            option->placeholder != NULL ? option->placeholder : "", optional ? "]" : "");
        fprintf(out, "  %-40s %s\n", left, option->help);
        free(left);
    }
}

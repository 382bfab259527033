/* The command line. One table names every option; parser, nearest names and --help read it. */
#include "compiler/driver.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How an option takes its value. */
typedef enum ValueForm {
    VALUE_NONE,
    VALUE_LONG,   /* --x=V, --x V */
    VALUE_JOINED, /* -xV, -x V */
    VALUE_GLUED,  /* -xV only; V may be empty */
} ValueForm;

/* Enumerator, spelling, form, value in --help, help. */
#define OPTIONS(X)                                                                                                                                   \
    X(OUTPUT, "-o", VALUE_JOINED, "FILE", "output; '-' is standard output, for text")                                                                \
    X(EMIT, "--emit", VALUE_LONG, "KIND", "what to write, see below")                                                                                \
    X(COMPILE, "-c", VALUE_NONE, "", "the same as --emit=obj")                                                                                       \
    X(OPTIMISE, "-O", VALUE_GLUED, "N", "optimise: 0 to 3, 2 by default")                                                                            \
    X(DEBUG, "-g", VALUE_NONE, "", "line tables for debuggers; the code is the same")                                                                \
    X(PREFIX_MAP, "-ffile-prefix-map", VALUE_LONG, "OLD=NEW", "in line tables, NEW where paths begin with OLD")                                      \
    X(GPU, "--gpu", VALUE_LONG, "LIST", "GPU targets: auto (default), none, or a list such as sm_80,sm_90a")                                         \
    X(CUBIN, "--cubin", VALUE_NONE, "", "embed machine code beside PTX, by the ptxas on the PATH")                                                   \
    X(SIMT, "--simt", VALUE_NONE, "", "embed code for the simulator, for --device=simt: of sm_80, or of sm_90a where --gpu names it")                \
    X(CPU, "--cpu", VALUE_LONG, "LIST", "CPU levels: x86-64-v3,x86-64-v4 by default; also x86-64-v2, native")                                        \
    X(DEFINE, "-D", VALUE_JOINED, "NAME=INT", "one value for a search dim; leaf.NAME=INT, cluster.NAME=INT for one reading")                         \
    X(VARIANTS, "--variants", VALUE_LONG, "N", "GPU variants of a leaf to embed a target: 4 by default, or all; CPU code holds one")                 \
    X(JOBS, "-j", VALUE_JOINED, "N", "threads that may generate code")                                                                               \
    X(NO_CLUSTER, "--no-cluster", VALUE_NONE, "", "build without the second reading")                                                                \
    X(DEPFILE, "-MD", VALUE_NONE, "", "write a depfile for make")                                                                                    \
    X(DEPFILE_OWN, "-MMD", VALUE_NONE, "", "the same")                                                                                               \
    X(DEPFILE_PATH, "-MF", VALUE_JOINED, "FILE", "its name; '-' is standard output")                                                                 \
    X(DEPFILE_TARGET, "-MT", VALUE_JOINED, "TARGET", "the target in it")                                                                             \
    X(DEPFILE_QUOTED, "-MQ", VALUE_JOINED, "TARGET", "the target in it, escaped for make")                                                           \
    X(DEPFILE_PHONY, "-MP", VALUE_NONE, "", "phony targets for included files")                                                                      \
    X(WARNING, "-W", VALUE_GLUED, "NAME", "turn a warning on, -Wno-NAME off; -Wall, -Werror")                                                        \
    X(REMARK, "-R", VALUE_GLUED, "NAME", "say how code for GPUs came about, see below; -Rno-NAME, -Rall")                                            \
    X(QUIET, "-w", VALUE_NONE, "", "no warnings")                                                                                                    \
    X(COLOR, "--color", VALUE_LONG, "auto|always|never", "colours in messages")                                                                      \
    X(DIAGNOSTICS, "--diagnostics", VALUE_LONG, "text|json", "form of messages")                                                                     \
    X(LSP, "--lsp", VALUE_NONE, "", "serve an editor by the Language Server Protocol, on standard input and output")                                 \
    X(VERSION, "--version", VALUE_NONE, "", "print the version")                                                                                     \
    X(HELP, "--help", VALUE_NONE, "", "print this")                                                                                                  \
    X(SEARCH_DIRS, "--print-search-dirs", VALUE_NONE, "", "print where the runtime is looked for")

typedef enum OptionId {
#define X(id, text, form, value, help) OPTION_##id,
    OPTIONS(X)
#undef X
        OPTION_COUNT
} OptionId;

static const struct {
    const char *text;
    ValueForm form;
    const char *value, *help;
} option_table[OPTION_COUNT] = {
#define X(id, text, form, value, help) {text, form, value, help},
    OPTIONS(X)
#undef X
};

static const char *const emit_names[EMIT_KIND_COUNT] = {
#define X(id, name, what) name,
    EMIT_KINDS(X)
#undef X
};

static const char *const pass_names[IR_PASS_COUNT] = {
#define X(id, name) name,
    IR_PASSES(X)
#undef X
};

static const char *const warning_names[WARNING_COUNT] = {
#define X(id, name, on, what) name,
    DIAG_WARNINGS(X)
#undef X
};

static const char *const remark_names[REMARK_COUNT] = {
#define X(id, name, what) name,
    DIAG_REMARKS(X)
#undef X
};

static const char *const gpu_names[] = {"auto", "none", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};
static const char *const level_names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "native"}; /* ascending */
static const char *const color_names[] = {"auto", "always", "never"};                       /* as ColorChoice */
static const char *const diagnostics_names[] = {"text", "json"};                            /* as DiagFormat */
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct Parser {
    Arena *arena;
    Interner *interner;
    Options *options;
} Parser;

static bool usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool usage_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("phobosc: error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

/* ---- values ---- */

static bool unknown_value(const char *option, const char *value, const char *const *names, int count) {
    const char *nearest = nearest_name(value, names, count);
    if (nearest)
        return usage_error("unknown value '%s' for '%s'; did you mean '%s'?", value, option, nearest);
    char known[256];
    size_t length = 0;
    for (int i = 0; i < count && length < sizeof known; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", names[i]);
    return usage_error("unknown value '%s' for '%s'; expected one of %s", value, option, known);
}

static int find_name(const char *value, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(value, names[i]) == 0)
            return i;
    return -1;
}

static bool parse_choice(const char *option, const char *value, const char *const *names, int count, int *choice) {
    *choice = find_name(value, names, count);
    return *choice >= 0 || unknown_value(option, value, names, count);
}

static bool parse_integer(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 0);
    return *text && (*text == '-' || (*text >= '0' && *text <= '9')) && !*end && !errno;
}

static bool parse_count(const char *option, const char *text, int *count) {
    int64_t value;
    if (parse_integer(text, &value) && value > 0) {
        *count = value < INT_MAX ? (int)value : INT_MAX;
        return true;
    }
    return usage_error("'%s' takes a positive number, found '%s'", option, text);
}

static bool parse_variants(Options *options, const char *value) {
    int64_t count = 0;
    if (strcmp(value, "all") != 0 && (!parse_integer(value, &count) || count < 1 || count > 65536))
        return usage_error("'--variants' takes a number from 1 to 65536, or 'all', found '%s'", value);
    options->gpu_variants = (int)count;
    return true;
}

static bool parse_emit(Options *options, const char *value) {
    static const char after[] = "ir-after=";
    int choice;
    if (strncmp(value, after, sizeof after - 1) == 0) {
        options->emit = EMIT_IR_AFTER;
        if (!parse_choice("--emit=ir-after", value + sizeof after - 1, pass_names, IR_PASS_COUNT, &choice))
            return false;
        options->ir_after = (IrPass)choice;
        return true;
    }
    if (!parse_choice("--emit", value, emit_names, EMIT_KIND_COUNT, &choice))
        return false;
    options->emit = (EmitKind)choice;
    if (options->emit == EMIT_IR_AFTER)
        return usage_error("'--emit=ir-after' needs a pass, such as '--emit=ir-after=%s'", pass_names[0]);
    return true;
}

/* Calls `take` for each item of a list separated by commas. */
static bool parse_list(Parser *p, const char *option, const char *list, bool (*take)(Parser *p, const char *item)) {
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (!length)
            return usage_error("'%s' takes a list separated by commas, found '%s'", option, list);
        if (!take(p, arena_strndup(p->arena, at, length)))
            return false;
        at += length;
        if (!*at)
            return true;
    }
}

static bool take_gpu(Parser *p, const char *item) {
    int choice;
    if (!parse_choice("--gpu", item, gpu_names, COUNT(gpu_names), &choice))
        return false;
    p->options->gpu_auto |= choice == 0;
    p->options->gpu_none |= choice == 1;
    for (int i = 0; i < p->options->gpus.count; i++)
        if (strcmp(p->options->gpus.items[i], item) == 0)
            return true;
    if (choice >= 2)
        vec_push(p->arena, &p->options->gpus, gpu_names[choice]);
    return true;
}

static bool take_level(Parser *p, const char *item) {
    int choice;
    if (!parse_choice("--cpu", item, level_names, COUNT(level_names), &choice))
        return false;
    int at = 0, count = p->options->levels.count;
    while (at < count && find_name(p->options->levels.items[at], level_names, COUNT(level_names)) < choice)
        at++;
    if (at < count && strcmp(p->options->levels.items[at], item) == 0)
        return true;
    vec_push(p->arena, &p->options->levels, item);
    const char **items = p->options->levels.items;
    memmove(&items[at + 1], &items[at], (size_t)(count - at) * sizeof *items);
    items[at] = level_names[choice];
    return true;
}

static bool parse_define(Parser *p, const char *text) {
    Define define = {.reading = DEFINE_BOTH};
    const char *equals = strchr(text, '='), *name = text;
    if (!equals)
        return usage_error("'-D' takes NAME=INT, found '%s'", text);
    if (strncmp(name, "leaf.", 5) == 0) {
        define.reading = DEFINE_LEAF;
        name += 5;
    } else if (strncmp(name, "cluster.", 8) == 0) {
        define.reading = DEFINE_CLUSTER;
        name += 8;
    }
    if (equals == name || !parse_integer(equals + 1, &define.value))
        return usage_error("'-D' takes NAME=INT, found '%s'", text);
    if (define.value <= 0)
        return usage_error("'-D %s': a search dim is positive", text);
    define.name = intern(p->interner, name, (size_t)(equals - name));
    vec_push(p->arena, &p->options->defines, define);
    return true;
}

static bool parse_prefix_map(Parser *p, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals)
        return usage_error("'-ffile-prefix-map' takes OLD=NEW, found '%s'", text);
    vec_push(p->arena, &p->options->prefixes, ((PrefixMap){arena_strndup(p->arena, text, (size_t)(equals - text)), equals + 1}));
    return true;
}

static bool parse_warning(Parser *p, const char *name) {
    Options *options = p->options;
    bool on = strncmp(name, "no-", 3) != 0;
    const char *group = on ? name : name + 3;
    if (strcmp(group, "error") == 0) {
        options->werror = on;
        return true;
    }
    bool all = on && (strcmp(group, "all") == 0 || strcmp(group, "extra") == 0);
    int kind = find_name(group, warning_names, WARNING_COUNT);
    if (!all && kind < 0) {
        const char *nearest = nearest_name(group, warning_names, WARNING_COUNT);
        return nearest ? usage_error("unknown option '-W%s'; did you mean '-W%s%s'?", name, on ? "" : "no-", nearest)
                       : usage_error("unknown option '-W%s'", name);
    }
    for (int i = all ? 0 : kind; i < (all ? WARNING_COUNT : kind + 1); i++)
        vec_push(p->arena, &options->warnings, (WarningChoice){(WarningKind)i, on});
    return true;
}

static bool parse_remark(Options *options, const char *name) {
    bool on = strncmp(name, "no-", 3) != 0;
    const char *group = on ? name : name + 3;
    int kind = find_name(group, remark_names, REMARK_COUNT);
    if (kind < 0 && strcmp(group, "all") != 0) {
        const char *nearest = nearest_name(group, remark_names, REMARK_COUNT);
        return nearest ? usage_error("unknown option '-R%s'; did you mean '-R%s%s'?", name, on ? "" : "no-", nearest)
                       : usage_error("unknown option '-R%s'", name);
    }
    for (int i = 0; i < REMARK_COUNT; i++)
        options->remarks[i] = kind < 0 || i == kind ? on : options->remarks[i];
    return true;
}

static bool parse_optimise(Options *options, const char *value) {
    if (strlen(value) > 1 || (*value && (*value < '0' || *value > '3')))
        return usage_error("unknown option '-O%s'; -O0 to -O3 are", value);
    options->optimise = *value ? *value - '0' : 1;
    return true;
}

static bool apply(Parser *p, OptionId id, const char *value) {
    Options *options = p->options;
    int choice;
    switch (id) {
    case OPTION_OUTPUT:
        options->output = value;
        return true;
    case OPTION_EMIT:
        return parse_emit(options, value);
    case OPTION_COMPILE:
        options->emit = EMIT_OBJ;
        return true;
    case OPTION_OPTIMISE:
        return parse_optimise(options, value);
    case OPTION_DEBUG:
        options->debug = true;
        return true;
    case OPTION_PREFIX_MAP:
        return parse_prefix_map(p, value);
    case OPTION_GPU:
        options->gpus.count = 0;
        options->gpu_auto = options->gpu_none = false;
        return parse_list(p, "--gpu", value, take_gpu);
    case OPTION_CUBIN:
        options->cubin = true;
        return true;
    case OPTION_SIMT:
        options->simt = true;
        return true;
    case OPTION_CPU:
        options->levels.count = 0;
        return parse_list(p, "--cpu", value, take_level);
    case OPTION_DEFINE:
        return parse_define(p, value);
    case OPTION_VARIANTS:
        return parse_variants(options, value);
    case OPTION_JOBS:
        return parse_count("-j", value, &options->jobs);
    case OPTION_NO_CLUSTER:
        options->no_cluster = true;
        return true;
    case OPTION_DEPFILE:
    case OPTION_DEPFILE_OWN:
        options->depfile = true;
        return true;
    case OPTION_DEPFILE_PATH:
        options->depfile_path = value;
        return true;
    case OPTION_DEPFILE_TARGET:
        vec_push(p->arena, &options->depfile_targets, value);
        return true;
    case OPTION_DEPFILE_QUOTED:
        vec_push(p->arena, &options->depfile_targets, depfile_escape(p->arena, value));
        return true;
    case OPTION_DEPFILE_PHONY:
        options->depfile_phony = true;
        return true;
    case OPTION_WARNING:
        return parse_warning(p, value);
    case OPTION_REMARK:
        return parse_remark(options, value);
    case OPTION_QUIET:
        options->quiet = true;
        return true;
    case OPTION_COLOR:
        if (!parse_choice("--color", value, color_names, COUNT(color_names), &choice))
            return false;
        options->color = (ColorChoice)choice;
        return true;
    case OPTION_DIAGNOSTICS:
        if (!parse_choice("--diagnostics", value, diagnostics_names, COUNT(diagnostics_names), &choice))
            return false;
        options->diagnostics = (DiagFormat)choice;
        return true;
    case OPTION_LSP:
        options->serve_editor = true;
        return true;
    case OPTION_VERSION:
        options->show_version = true;
        return true;
    case OPTION_HELP:
        options->show_help = true;
        return true;
    case OPTION_SEARCH_DIRS:
        options->show_search_dirs = true;
        return true;
    case OPTION_COUNT:
        break;
    }
    return true;
}

/* ---- arguments ---- */

/* Does `argument` spell this option? *value: what is joined to it, NULL where nothing is. */
static bool option_matches(OptionId id, const char *argument, const char **value) {
    size_t length = strlen(option_table[id].text);
    if (strncmp(argument, option_table[id].text, length) != 0)
        return false;
    const char *rest = argument + length;
    *value = NULL;
    switch (option_table[id].form) {
    case VALUE_NONE:
        return !*rest;
    case VALUE_LONG:
        if (*rest == '=')
            *value = rest + 1;
        return !*rest || *rest == '=';
    case VALUE_JOINED:
        if (*rest)
            *value = rest;
        return true;
    case VALUE_GLUED:
        *value = rest;
        return true;
    }
    return false;
}

static bool unknown_option(Parser *p, const char *argument) {
    const char *names[OPTION_COUNT];
    for (int i = 0; i < OPTION_COUNT; i++)
        names[i] = option_table[i].text;
    const char *name = arena_strndup(p->arena, argument, strcspn(argument, "="));
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return usage_error("'%s' takes no value", name);
    const char *nearest = nearest_name(name, names, OPTION_COUNT);
    return nearest ? usage_error("unknown option '%s'; did you mean '%s'?", argument, nearest) : usage_error("unknown option '%s'", argument);
}

/* Parses argv[*at], and its value where that is the next argument; *at is left at the last one read. */
static bool parse_option(Parser *p, int argc, char **argv, int *at) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *value;
        if (!option_matches((OptionId)id, argv[*at], &value))
            continue;
        if (option_table[id].form != VALUE_NONE && !value) {
            if (*at + 1 == argc)
                return usage_error("'%s' needs a value: %s", option_table[id].text, option_table[id].value);
            value = argv[++*at];
        }
        if (value && !*value && option_table[id].form != VALUE_GLUED)
            return usage_error("'%s' needs a value: %s", option_table[id].text, option_table[id].value);
        return apply(p, (OptionId)id, value);
    }
    return unknown_option(p, argv[*at]);
}

static bool add_input(Options *options, const char *path) {
    if (options->input)
        return usage_error("one source at a time, found '%s' and '%s'", options->input, path);
    options->input = path;
    return true;
}

/* What no single option can know. */
static bool check_together(Parser *p) {
    Options *options = p->options;
    if (options->serve_editor && options->input)
        return usage_error("'--lsp' takes no source, found '%s'", options->input);
    if (options->serve_editor || options->show_version || options->show_help || options->show_search_dirs)
        return true;
    if (!options->input)
        return usage_error("no source; 'phobosc --help' lists the options");
    bool text = options->emit != EMIT_EXE && options->emit != EMIT_OBJ && options->emit != EMIT_LIB;
    if (options->output && strcmp(options->output, "-") == 0 && !text)
        return usage_error("'-o -' is for text, '--emit=%s' is none", emit_names[options->emit]);
    if (options->gpu_none && (options->gpu_auto || options->gpus.count))
        return usage_error("'--gpu' takes none alone");
    if (options->gpu_none && (options->emit == EMIT_PTX || options->cubin))
        return usage_error("'%s' needs a GPU target, such as '--gpu=sm_80'", options->cubin ? "--cubin" : "--emit=ptx");
    options->gpu_auto |= !options->gpu_none && !options->gpus.count;
    if (!options->depfile && (options->depfile_path || options->depfile_targets.count || options->depfile_phony))
        return usage_error("'-MF', '-MT', '-MQ' and '-MP' need '-MD'");
    if (!options->levels.count) {
        vec_push(p->arena, &options->levels, level_names[1]);
        vec_push(p->arena, &options->levels, level_names[2]);
    }
    return true;
}

bool options_parse(Arena *arena, Interner *interner, int argc, char **argv, Options *options) {
    *options = (Options){.optimise = 2, .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), .gpu_variants = 4};
    Parser parser = {arena, interner, options};
    bool only_inputs = false;
    for (int i = 1; i < argc; i++) {
        bool fine = true;
        if (only_inputs || argv[i][0] != '-' || !argv[i][1])
            fine = add_input(options, argv[i]);
        else if (strcmp(argv[i], "--") == 0)
            only_inputs = true;
        else
            fine = parse_option(&parser, argc, argv, &i);
        if (!fine)
            return false;
    }
    return check_together(&parser);
}

static void print_row(FILE *out, const char *name, const char *value, ValueForm form, const char *help) {
    char left[64];
    const char *separator = !*value ? "" : form == VALUE_LONG ? "=" : form == VALUE_JOINED ? " " : "";
    snprintf(left, sizeof left, "%s%s%s", name, separator, value);
    fprintf(out, "  %-24s %s\n", left, help);
}

void options_print_help(FILE *out) {
    fputs("usage: phobosc [options] kernel.phb -o add\n       phobosc fmt [--check] FILE...     formats sources in place; '-' from standard input to output\n\noptions:\n", out);
#define X(id, text, form, value, help) print_row(out, text, value, form, help);
    OPTIONS(X)
#undef X
    fputs("\nkinds of output:\n", out);
#define X(id, name, what) print_row(out, name, "", VALUE_NONE, what);
    EMIT_KINDS(X)
#undef X
    fputs("\nwarnings:\n", out);
#define X(id, name, on, what) print_row(out, name, "", VALUE_NONE, what);
    DIAG_WARNINGS(X)
#undef X
    fputs("\nremarks:\n", out);
#define X(id, name, what) print_row(out, name, "", VALUE_NONE, what);
    DIAG_REMARKS(X)
#undef X
    fputs("\n@FILE stands for the arguments in FILE, separated by white space; quotes and backslashes as in a shell.\n", out);
    fputs("\nExit status: 0 fine, 1 the source is wrong, 2 the command line is.\n", out);
}

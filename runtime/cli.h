/* The command line of a produced executable, as cli_options.c reads it. */
#ifndef PHOBOS_CLI_H
#define PHOBOS_CLI_H

#include "runtime/runtime.h"

typedef enum OptionId {
#define OPTION(id, name, placeholder, kind, choices, where, help) OPTION_##id,
#include "runtime/cli_options.def"
#undef OPTION
    OPTION_COUNT
} OptionId;

enum { ROLE_SCHED, ROLE_POD, ROLE_KEYGEN, ROLE_DOCTOR }; /* values of OPTION_ROLE */

typedef struct OptionValue {
    bool given;
    const char *text; /* as written, NULL without a value; points into argv */
    int64_t number;   /* COUNT, BYTES: the value; SECONDS: in milliseconds; CHOICE: the index of the choice */
    double rate;      /* RATE */
} OptionValue;

enum { CLI_MAX_ROOTS = 64 };

typedef struct CommandLine {
    OptionValue values[OPTION_COUNT]; /* the last of several wins */
    const char *job;                  /* the job file, or NULL */
    const char *roots[CLI_MAX_ROOTS]; /* of OPTION_ROOT */
    int root_count;
} CommandLine;

/* Reads, and checks every value; all mistakes are reported. Options that mean nothing in the mode that the others choose, and those that are not
 * supported yet, are mistakes too. */
bool cli_parse(int argc, char **argv, CommandLine *line, ErrorList *errors);
const char *cli_key(const CommandLine *line); /* --key, else PHOBOS_KEY; NULL: none */
const char *cli_option_name(OptionId id); /* without the dashes */
void cli_print_options(FILE *out); /* the part of --help that the table says */
/* "4096", "512M", "2GiB" (powers of 1024), "2GB" (of 1000): at least 1. */
bool cli_parse_bytes(const char *text, int64_t *bytes);


/* ---- cli.c ---- */

/* How a job runs that runs in this process; messages go to stderr, the summary to stdout. */
RunOptions cli_run_options(const CommandLine *line);
void cli_settle_job(const CommandLine *line, Job *job); /* what the line says of each of its steps */
PlacementPolicy cli_placement(const CommandLine *line, const Job *job); /* as given, else what suits the job */

#endif

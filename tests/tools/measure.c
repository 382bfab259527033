/* measure RUNS -- COMMAND... [-- COMMAND...]: runs the commands in turn, RUNS times each after one that does not count, their stdout dropped. Prints
 * for each command "MEDIAN-SECONDS MAX-RESIDENT-KIB" on a line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COMMANDS = 8, MAX_RUNS = 101 };

typedef struct Command {
    char **argv;
    double seconds[MAX_RUNS];
    long resident; /* KiB */
} Command;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double run(Command *command) {
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        execvp(command->argv[0], command->argv);
        perror(command->argv[0]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
        fprintf(stderr, "measure: %s failed\n", command->argv[0]);
        exit(1);
    }
    if (usage.ru_maxrss > command->resident)
        command->resident = usage.ru_maxrss;
    return now() - start;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int runs = argc > 1 ? atoi(argv[1]) : 0, count = 0;
    static Command commands[MAX_COMMANDS];
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--") != 0)
            continue;
        argv[i] = NULL;
        if (i + 1 < argc && count < MAX_COMMANDS)
            commands[count++].argv = &argv[i + 1];
    }
    if (runs < 1 || runs > MAX_RUNS || count == 0) {
        fprintf(stderr, "usage: %s RUNS -- COMMAND... [-- COMMAND...]\n", argv[0]);
        return 2;
    }
    for (int i = -1; i < runs; i++)
        for (int k = 0; k < count; k++) {
            double seconds = run(&commands[k]);
            if (i >= 0)
                commands[k].seconds[i] = seconds;
        }
    for (int k = 0; k < count; k++) {
        qsort(commands[k].seconds, (size_t)runs, sizeof(double), compare);
        printf("%.4f %ld\n", commands[k].seconds[runs / 2], commands[k].resident);
    }
    return 0;
}

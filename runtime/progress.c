#include "runtime/clock.h"
#include "runtime/progress.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 40

/* Seconds between showings: a bar moves smoothly, lines should not flood a log. */
static double interval(ProgressMode mode) {
    switch (mode) {
    case PROGRESS_BAR:
        return 0.1;
    case PROGRESS_JSON:
        return 0.5;
    default:
        return 2;
    }
}

void progress_begin(Progress *progress, ProgressMode mode, FILE *out, const char *what, int64_t total) {
    if (mode == PROGRESS_AUTO)
        mode = isatty(fileno(out)) ? PROGRESS_BAR : PROGRESS_LINES;
    double now = clock_seconds();
    *progress = (Progress){.mode = mode, .out = out, .what = what, .total = total, .begun = now, .shown = now, .last = -1};
}

double progress_seconds(const Progress *progress) {
    return clock_seconds() - progress->begun;
}

/* ", 1.25 GB/s", or nothing where nothing has moved. */
static void print_rate(const Progress *progress, double seconds) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double rate = seconds > 0 ? (double)progress->bytes / seconds : 0;
    size_t unit = 0;
    if (rate <= 0)
        return;
    for (; rate >= 1000 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        rate /= 1000;
    fprintf(progress->out, ", %.3g %s/s", rate, units[unit]);
}

/* "12 s left", or nothing while there is no telling. */
static void print_left(const Progress *progress, int64_t done, double seconds) {
    if (done > 0 && done < progress->total)
        fprintf(progress->out, ", %.0f s left", seconds * (double)(progress->total - done) / (double)done);
}

static void show(Progress *progress, int64_t done) {
    double seconds = progress_seconds(progress);
    int percent = (int)(100 * (double)done / (double)progress->total);
    progress->shown = progress->begun + seconds;
    progress->last = done;
    switch (progress->mode) {
    case PROGRESS_BAR: {
        char bar[BAR_WIDTH + 1];
        int filled = percent * BAR_WIDTH / 100;
        memset(bar, '.', BAR_WIDTH);
        memset(bar, '#', (size_t)filled);
        bar[BAR_WIDTH] = '\0';
        fprintf(progress->out, "\r%s [%s] %3d %%  %" PRId64 "/%" PRId64 " tiles", progress->what, bar, percent, done, progress->total);
        print_rate(progress, seconds);
        print_left(progress, done, seconds);
        fputs("\033[K", progress->out);
        break;
    }
    case PROGRESS_LINES:
        fprintf(progress->out, "%s: %" PRId64 "/%" PRId64 " tiles (%d %%)", progress->what, done, progress->total, percent);
        print_rate(progress, seconds);
        print_left(progress, done, seconds);
        fputc('\n', progress->out);
        break;
    case PROGRESS_JSON:
        fprintf(progress->out, "{\"kernel\": \"%s\", \"done\": %" PRId64 ", \"total\": %" PRId64 ", \"seconds\": %.3f, \"bytes\": %" PRIu64 "}\n",
            progress->what, done, progress->total, seconds, progress->bytes);
        break;
    default:
        break;
    }
    fflush(progress->out);
}

void progress_moved(Progress *progress, uint64_t bytes) {
    progress->bytes = bytes;
}

void progress_update(Progress *progress, int64_t done) {
    if (progress->mode != PROGRESS_NONE && done != progress->last && clock_seconds() - progress->shown >= interval(progress->mode))
        show(progress, done);
}

void progress_end(Progress *progress, int64_t done) {
    if (progress->mode == PROGRESS_NONE)
        return;
    if (done != progress->last)
        show(progress, done);
    if (progress->mode == PROGRESS_BAR)
        fputc('\n', progress->out);
    fflush(progress->out);
}

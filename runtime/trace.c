#include "runtime/clock.h"
#include "runtime/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_ROWS TRACE_MAX_ROWS

const char *trace_kind_name(int kind) {
    static const char *const names[TRACE_KINDS] = {"load", "fetch", "copy", "compute", "store"};
    return names[kind];
}

void trace_add(TraceLog *log, const WireEvent *event) {
    if (log->count == log->capacity) {
        size_t capacity = log->capacity > 0 ? 2 * log->capacity : 1024;
        WireEvent *events = new_zeroed(capacity, sizeof *events);
        if (log->count > 0)
            memcpy(events, log->events, log->count * sizeof *events);
        free(log->events);
        log->events = events;
        log->capacity = capacity;
    }
    log->events[log->count++] = *event;
}

void trace_drop(TraceLog *log, size_t count) {
    log->count -= count;
    memmove(log->events, log->events + count, log->count * sizeof *log->events);
}

void trace_fini(TraceLog *log) {
    free(log->events);
    *log = (TraceLog){.events = NULL};
}

FILE *trace_open(const char *path, const Job *job, Error *error) {
    struct stat there;
    bool exists = stat(path, &there) == 0;
    for (int t = 0; exists && t < job->kernel->tensor_count; t++)
        if (job->tensors[t].exists && job->tensors[t].device == there.st_dev && job->tensors[t].inode == there.st_ino) {
            error_set(error, "the trace \"%s\" would take the place of tensor '%s'", path, job->kernel->tensors[t].name);
            return NULL;
        }
    FILE *file = fopen(path, "we");
    if (file == NULL)
        error_errno(error, "cannot write the trace \"%s\"", path);
    return file;
}

/* ---- writing ---- */

typedef struct Writer {
    FILE *out;
    const PhbKernel *kernel;
    uint64_t begun_ns; /* of the first event */
    bool some;
} Writer;

static void begin_event(Writer *writer) {
    fputs(writer->some ? ",\n" : "\n", writer->out);
    writer->some = true;
}

static void print_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", *text);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static int row_id(int kind, int row) {
    return kind * MAX_ROWS + row + 1;
}

static void print_row(Writer *writer, size_t pod, int kind, int row) {
    begin_event(writer);
    fprintf(writer->out, "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %zu, \"tid\": %d, \"args\": {\"name\": \"%s", pod, row_id(kind, row),
        trace_kind_name(kind));
    if (row > 0)
        fprintf(writer->out, " %d", row + 1);
    fputs("\"}}", writer->out);
    begin_event(writer);
    fprintf(writer->out, "{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %zu, \"tid\": %d, \"args\": {\"sort_index\": %d}}", pod,
        row_id(kind, row), row_id(kind, row));
}

static double micros(const Writer *writer, uint64_t ns) {
    return (double)(ns - writer->begun_ns) / 1000;
}

static void print_name(FILE *out, const PhbKernel *kernel, const WireEvent *event) {
    if (event->kind == TRACE_COMPUTE)
        fprintf(out, "\"super-tile %" PRIu64 "\"", event->tile);
    else if (event->operand < (uint32_t)kernel->tensor_count)
        fprintf(out, "\"%s %" PRIu64 "\"", kernel->tensors[event->operand].name, event->tile);
    else
        fprintf(out, "\"?\"");
}

static void print_event(Writer *writer, size_t pod, int row, const WireEvent *event) {
    FILE *out = writer->out;
    begin_event(writer);
    fprintf(out, "{\"ph\": \"X\", \"pid\": %zu, \"tid\": %d, \"cat\": \"%s\", \"ts\": %.3f, \"dur\": %.3f, \"name\": ", pod, row_id(event->kind, row),
        trace_kind_name(event->kind), micros(writer, event->begun_ns), (double)(event->ended_ns - event->begun_ns) / 1000);
    print_name(out, writer->kernel, event);
    if (event->kind == TRACE_COMPUTE)
        fprintf(out, ", \"args\": {\"stage\": %" PRIu32 ", \"chunk\": %" PRIu64 "}}", event->operand, event->chunk);
    else
        fprintf(out, ", \"args\": {\"bytes\": %" PRIu64 "}}", event->bytes);
    begin_event(writer);
    fprintf(out, "{\"ph\": \"C\", \"pid\": %zu, \"ts\": %.3f, \"name\": \"memory\", \"args\": {\"bytes\": %" PRIu64 "}}", pod,
        micros(writer, event->ended_ns), event->held);
}

static int compare_begins(const void *left, const void *right) {
    const WireEvent *a = left, *b = right;
    return a->begun_ns != b->begun_ns ? (a->begun_ns < b->begun_ns ? -1 : 1) : a->ended_ns < b->ended_ns ? -1 : a->ended_ns > b->ended_ns;
}

int trace_row(TraceRows *rows, const WireEvent *event) {
    if (event->kind >= TRACE_KINDS || event->ended_ns < event->begun_ns)
        return -1;
    int row = 0;
    while (row < MAX_ROWS - 1 && rows->busy[event->kind][row] > event->begun_ns)
        row++;
    rows->busy[event->kind][row] = event->ended_ns;
    return row;
}

static void print_pod(Writer *writer, size_t pod, const TracePod *what) {
    TraceRows busy = {.busy = {{0}}};
    int rows[TRACE_KINDS] = {0};
    begin_event(writer);
    fprintf(writer->out, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %zu, \"args\": {\"name\": ", pod);
    print_string(writer->out, what->name);
    fputs("}}", writer->out);
    for (size_t e = 0; e < what->log->count; e++) {
        const WireEvent *event = &what->log->events[e];
        int row = trace_row(&busy, event);
        if (row < 0)
            continue;
        for (; rows[event->kind] <= row; rows[event->kind]++)
            print_row(writer, pod, event->kind, rows[event->kind]);
        print_event(writer, pod, row, event);
    }
}

void trace_sort(const TracePod *pods, size_t count) {
    for (size_t p = 0; p < count; p++)
        if (pods[p].log->count > 0)
            qsort(pods[p].log->events, pods[p].log->count, sizeof *pods[p].log->events, compare_begins);
}

bool trace_write(FILE *file, const char *path, const PhbKernel *kernel, const TracePod *pods, size_t count, Error *error) {
    Writer writer = {.out = file, .kernel = kernel, .begun_ns = UINT64_MAX};
    trace_sort(pods, count);
    for (size_t p = 0; p < count; p++)
        if (pods[p].log->count > 0 && pods[p].log->events[0].begun_ns < writer.begun_ns)
            writer.begun_ns = pods[p].log->events[0].begun_ns;
    size_t length = strlen(path);
    if (length >= 4 && strcmp(path + length - 4, ".svg") == 0) {
        trace_draw(file, kernel, pods, count);
    } else {
        fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", file);
        for (size_t p = 0; p < count; p++)
            print_pod(&writer, p, &pods[p]);
        fputs("\n]}\n", file);
    }
    bool fine = !ferror(file);
    if (fclose(file) != 0 || !fine)
        return error_errno(error, "cannot write the trace \"%s\"", path);
    return true;
}

/* A trace as a Gantt chart: time from left to right, a band a pod, in it the rows of what it did, a colour a kind. */
#include "runtime/trace.h"

#include <inttypes.h>

enum { LEFT = 150, WIDTH = 1000, TOP = 40, ROW = 14, GAP = 10, TICKS = 10 };

#define NEAR 0.4 /* pixels between two boxes that are drawn as one: what was done in great number stays small in the file */

static const char *const colours[TRACE_KINDS] = {"#4c78a8", "#f58518", "#b8b0ac", "#54a24b", "#e45756"};

typedef struct Picture {
    FILE *out;
    const PhbKernel *kernel;
    uint64_t begun_ns, ended_ns;
    int top; /* of the next band */
} Picture;

/* A box that the next one of its row may be part of. */
typedef struct Box {
    double from, to;
    int events; /* 0: none is open */
    const WireEvent *first;
} Box;

static double place(const Picture *picture, uint64_t ns) {
    return LEFT + WIDTH * (double)(ns - picture->begun_ns) / (double)(picture->ended_ns - picture->begun_ns);
}

static void print_text(FILE *out, const char *text) {
    for (; *text != '\0'; text++)
        if (*text == '<' || *text == '&' || (unsigned char)*text < ' ')
            fprintf(out, "&#%d;", (unsigned char)*text < ' ' ? '?' : *text);
        else
            fputc(*text, out);
}

static void print_title(const Picture *picture, const Box *box) {
    const WireEvent *event = box->first;
    FILE *out = picture->out;
    fprintf(out, "<title>%s", trace_kind_name(event->kind));
    if (box->events > 1)
        fprintf(out, ", %d of them", box->events);
    else if (event->kind == TRACE_COMPUTE)
        fprintf(out, " super-tile %" PRIu64 ", stage %" PRIu32 ", chunk %" PRIu64, event->tile, event->operand, event->chunk);
    else
        fprintf(out, " %s %" PRIu64 ", %" PRIu64 " bytes",
            event->operand < (uint32_t)picture->kernel->tensor_count ? picture->kernel->tensors[event->operand].name : "?", event->tile,
            event->bytes);
    if (box->events == 1)
        fprintf(out, ", %.3f ms", (double)(event->ended_ns - event->begun_ns) / 1e6);
    fputs("</title>", out);
}

static void close_box(const Picture *picture, Box *box, int y) {
    if (box->events == 0)
        return;
    fprintf(picture->out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\">", box->from, y, box->to - box->from, ROW - 2,
        colours[box->first->kind]);
    print_title(picture, box);
    fputs("</rect>\n", picture->out);
    box->events = 0;
}

static void add_event(const Picture *picture, Box *box, const WireEvent *event, int y) {
    double from = place(picture, event->begun_ns), to = place(picture, event->ended_ns);
    if (to < from + NEAR)
        to = from + NEAR;
    if (box->events > 0 && from - box->to > NEAR)
        close_box(picture, box, y);
    if (box->events++ == 0)
        *box = (Box){.from = from, .events = 1, .first = event};
    box->to = to;
}

/* How many rows of each kind there are. */
static int count_rows(const TraceLog *log, int rows[TRACE_KINDS]) {
    TraceRows busy = {.busy = {{0}}};
    int count = 0;
    for (size_t e = 0; e < log->count; e++) {
        int row = trace_row(&busy, &log->events[e]);
        if (row >= 0 && row >= rows[log->events[e].kind])
            rows[log->events[e].kind] = row + 1;
    }
    for (int kind = 0; kind < TRACE_KINDS; kind++)
        count += rows[kind];
    return count;
}

static void draw_pod(Picture *picture, const TracePod *pod) {
    static const TraceRows none;
    TraceRows busy = none;
    Box boxes[TRACE_KINDS][TRACE_MAX_ROWS] = {{{0}}};
    int rows[TRACE_KINDS] = {0}, tops[TRACE_KINDS], top = picture->top;
    int count = count_rows(pod->log, rows);
    fprintf(picture->out, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">", top + ROW - 4);
    print_text(picture->out, pod->name);
    fputs("</text>\n", picture->out);
    for (int kind = 0; kind < TRACE_KINDS; kind++) {
        tops[kind] = top;
        if (rows[kind] > 0)
            fprintf(picture->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 6, top + ROW - 4, trace_kind_name(kind));
        top += rows[kind] * ROW;
    }
    for (size_t e = 0; e < pod->log->count; e++) {
        const WireEvent *event = &pod->log->events[e];
        int row = trace_row(&busy, event);
        if (row >= 0)
            add_event(picture, &boxes[event->kind][row], event, tops[event->kind] + row * ROW);
    }
    for (int kind = 0; kind < TRACE_KINDS; kind++)
        for (int row = 0; row < rows[kind]; row++)
            close_box(picture, &boxes[kind][row], tops[kind] + row * ROW);
    picture->top += (count > 0 ? count : 1) * ROW + GAP;
}

static void find_times(Picture *picture, const TracePod *pods, size_t count) {
    picture->begun_ns = UINT64_MAX;
    for (size_t p = 0; p < count; p++)
        for (size_t e = 0; e < pods[p].log->count; e++) {
            const WireEvent *event = &pods[p].log->events[e];
            if (event->kind >= TRACE_KINDS || event->ended_ns < event->begun_ns)
                continue;
            picture->begun_ns = event->begun_ns < picture->begun_ns ? event->begun_ns : picture->begun_ns;
            picture->ended_ns = event->ended_ns > picture->ended_ns ? event->ended_ns : picture->ended_ns;
        }
    if (picture->ended_ns <= picture->begun_ns) { /* nothing was done */
        picture->begun_ns = 0;
        picture->ended_ns = 1;
    }
}

static void draw_axis(const Picture *picture, int bottom) {
    double ms = (double)(picture->ended_ns - picture->begun_ns) / 1e6;
    for (int tick = 0; tick <= TICKS; tick++) {
        int x = LEFT + WIDTH * tick / TICKS;
        fprintf(picture->out,
            "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.4g ms</text>\n", x,
            TOP - 8, x, bottom, x, TOP - 12, ms * tick / TICKS);
    }
}

void trace_draw(FILE *out, const PhbKernel *kernel, const TracePod *pods, size_t count) {
    Picture picture = {.out = out, .kernel = kernel, .top = TOP};
    int bottom = TOP;
    find_times(&picture, pods, count);
    for (size_t p = 0; p < count; p++) {
        int rows[TRACE_KINDS] = {0}, of_pod = count_rows(pods[p].log, rows);
        bottom += (of_pod > 0 ? of_pod : 1) * ROW + GAP;
    }
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n",
        LEFT + WIDTH + 40, bottom);
    fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", LEFT + WIDTH + 40, bottom);
    draw_axis(&picture, bottom - GAP);
    for (size_t p = 0; p < count; p++)
        draw_pod(&picture, &pods[p]);
    fputs("</svg>\n", out);
}

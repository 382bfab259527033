/* The texts of launches that cannot go on: who waits where. */
#include "runtime/device/cta.h"

#include <stdlib.h>
#include <string.h>

int site_line(uint64_t site) {
    return (int)(site >> 32);
}

int site_column(uint64_t site) {
    return (int)(site & UINT32_MAX);
}

static bool same_plight(const CtaThread *a, const CtaThread *b) {
    if (a->cta != b->cta || (a->state == THREAD_ENDED) != (b->state == THREAD_ENDED))
        return false;
    return a->state == THREAD_ENDED || (a->site == b->site && strcmp(a->op, b->op) == 0);
}

enum { MOST_GROUPS = 8 };

/* "threads 0..31 of CTA 0 in barrier at 12:5; thread 32 of CTA 0 has ended" */
static char *list_threads(const CtaRunner *runner) {
    int count = runner->ctas * runner->setup.threads, groups = 0;
    char *text = format_text("%s", "");
    for (int t = 0, end; t < count; t = end) {
        const CtaThread *first = &runner->thread[t];
        end = t + 1;
        while (end < count && same_plight(first, &runner->thread[end]))
            end++;
        if (groups++ == MOST_GROUPS)
            return text_append(text, "; and more");
        int64_t low = first->code.thread, high = runner->thread[end - 1].code.thread;
        text = low == high ? text_append(text, "%sthread %d", groups > 1 ? "; " : "", (int)low)
                           : text_append(text, "%sthreads %d..%d", groups > 1 ? "; " : "", (int)low, (int)high);
        text = text_append(text, " of CTA %d", first->cta->rank);
        text = first->state == THREAD_ENDED ? text_append(text, low == high ? " has ended" : " have ended")
                                            : text_append(text, " in %s at %d:%d", first->op, site_line(first->site), site_column(first->site));
    }
    return text;
}

/* The lowest thread that waits; there is one. */
static CtaThread *first_waiting(CtaRunner *runner) {
    CtaThread *thread = runner->thread;
    while (thread->state == THREAD_ENDED)
        thread++;
    return thread;
}

_Noreturn void report_stuck(CtaRunner *runner, CtaThread *thread) {
    CtaThread *waiting = first_waiting(runner);
    static const char *const whats[] = {[THREAD_IN_WARP] = "lanes of the warp are missing",
        [THREAD_IN_GROUP] = "warps of the four are missing",
        [THREAD_IN_MBARRIER] = "the mbarrier's phase does not end",
        [THREAD_IN_STORE] = "a bulk store does not end",
        [THREAD_IN_BLOCK] = "threads of the CTA are missing",
        [THREAD_IN_CLUSTER] = "threads of the cluster are missing"};
    const char *what = whats[waiting->state];
    char *threads = list_threads(runner);
    char *text = format_text("deadlock: %s waits for ever, %s: %s", waiting->op, what, threads);
    free(threads);
    uint64_t site = waiting->site;
    thread_trap_text(thread, site, text);
}

_Noreturn void report_differing(CtaThread *thread, const Meeting *meeting) {
    const CtaThread *first = meeting->first;
    thread_trap(thread, thread->site, "thread %d of CTA %d comes to %s, but thread %d of CTA %d to %s at %d:%d: all must come to the same",
        (int)thread->code.thread, thread->cta->rank, thread->op, (int)first->code.thread, first->cta->rank, meeting->op, site_line(meeting->site),
        site_column(meeting->site));
}

#include "runtime/crash.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum CrashWhat { CRASH_KILL, CRASH_STOP, CRASH_FLIP, CRASH_HANG } CrashWhat;

/* Written by crash_init, counted down by any thread. */
static struct {
    bool set;
    CrashSite site;
    CrashWhen when;
    CrashWhat what;
    atomic_long left; /* times until it is there */
} plan;

/* Takes one field off *text: its place among the names, -1 for none of them. */
static int take_name(const char **text, const char *const *names, int count) {
    size_t length = strcspn(*text, ":");
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == length && strncmp(names[i], *text, length) == 0) {
            *text += length + ((*text)[length] == ':');
            return i;
        }
    return -1;
}

bool crash_init(Error *error) {
    static const char *const sites[] = {
#define CRASH_SITE(name, text) text,
#include "runtime/crash.def"
#undef CRASH_SITE
    };
    static const char *const whens[] = {"begin", "half", "end"}, *const whats[] = {"kill", "stop", "flip", "hang"};
    const char *value = getenv("PHOBOS_CRASH_AT"), *text = value;
    if (value == NULL || *value == '\0')
        return true;
    int site = take_name(&text, sites, CRASH_SITES), when = CRASH_BEGIN, what = CRASH_KILL;
    long times = 1;
    if (site >= 0 && *text != '\0') {
        char *end;
        times = strtol(text, &end, 10);
        text = end + (*end == ':');
    }
    if (site >= 0 && *text != '\0')
        when = take_name(&text, whens, 3);
    if (site >= 0 && when >= 0 && *text != '\0')
        what = take_name(&text, whats, 4);
    if (site < 0 || when < 0 || what < 0 || times < 1 || *text != '\0')
        return error_set(error, "PHOBOS_CRASH_AT: expected SITE[:N[:begin|half|end[:kill|stop|flip|hang]]], found \"%s\"", value);
    plan.site = (CrashSite)site;
    plan.when = (CrashWhen)when;
    plan.what = (CrashWhat)what;
    atomic_store(&plan.left, times);
    plan.set = true;
    return true;
}

bool crash_is_set(CrashSite site, CrashWhen when) {
    return plan.set && plan.site == site && plan.when == when;
}

bool crash_point(CrashSite site, CrashWhen when) {
    if (!crash_is_set(site, when) || atomic_fetch_sub(&plan.left, 1) != 1)
        return false;
    while (plan.what == CRASH_HANG)
        pause();
    if (plan.what != CRASH_FLIP)
        raise(plan.what == CRASH_KILL ? SIGKILL : SIGSTOP);
    return plan.what == CRASH_FLIP;
}

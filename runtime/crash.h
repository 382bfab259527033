/* Places where a test has this process end or stop; PHOBOS_CRASH_AT says which one, and costs nothing where it is not set. */
#ifndef PHOBOS_CRASH_H
#define PHOBOS_CRASH_H

#include "runtime/runtime.h"

typedef enum CrashSite {
#define CRASH_SITE(name, text) CRASH_##name,
#include "runtime/crash.def"
#undef CRASH_SITE
    CRASH_SITES
} CrashSite;

typedef enum CrashWhen { CRASH_BEGIN, CRASH_HALF, CRASH_END } CrashWhen;

/* Reads the variable; before any thread. */
bool crash_init(Error *error);
/* Does not return where the process is to be killed here. True: something is to be done wrong here (flip). */
bool crash_point(CrashSite site, CrashWhen when);
bool crash_is_set(CrashSite site, CrashWhen when); /* it may come to that */

#endif

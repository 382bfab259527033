/* Ranges of clusters on a compute thread of the CPU device. Each such thread keeps a runner of its own until it ends. */
#include "runtime/device/cta.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct RangeState {
    CtaRunner runner;
    bool failed;
    Error error;
} RangeState;

static pthread_key_t state_key;
static pthread_once_t state_once = PTHREAD_ONCE_INIT;

static void free_state(void *context) {
    RangeState *state = context;
    runner_fini(&state->runner);
    free(state);
}

static void make_key(void) {
    if (pthread_key_create(&state_key, free_state) != 0)
        abort();
}

static RangeState *this_state(void) {
    pthread_once(&state_once, make_key);
    RangeState *state = pthread_getspecific(state_key);
    if (state == NULL) {
        state = new_zeroed(1, sizeof *state);
        if (pthread_setspecific(state_key, state) != 0)
            abort();
    }
    return state;
}

void phb_cta_range(const PhbLaunch *launch, const PhbThreadStage *stage, const int32_t *size, int64_t first, int64_t last, void *scratch) {
    RangeState *state = this_state();
    CtaSetup setup = {.kernel = stage->entry, .threads = stage->threads, .shared = stage->shared, .size = {size[0], size[1], size[2]}};
    uintptr_t shared = ((uintptr_t)scratch + PHB_SHARED_ALIGN - 1) / PHB_SHARED_ALIGN * PHB_SHARED_ALIGN;
    bool fine = !state->failed && runner_prepare(&state->runner, &setup, &state->error);
    for (int64_t cluster = first; fine && cluster < last; cluster++)
        fine = runner_run(&state->runner, stage->run, launch, cluster, (char *)shared, &state->error);
    state->failed = !fine;
}

bool cta_take_failure(Error *error) {
    RangeState *state = this_state();
    if (!state->failed)
        return false;
    *error = state->error;
    state->failed = false;
    return true;
}

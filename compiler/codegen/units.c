/* LLVM modules on their way to text or objects. A unit is emitted by one thread, which owns the compilation's memory; then any thread optimises and
 * translates it, with nothing but the unit's own. What comes out does not depend on how many threads there are. */
#include "compiler/codegen/units.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_THREADS = 256 };

struct Units {
    UnitTranslate *translate;
    int others; /* threads beside the one that emits, at most, */
    int started;
    pthread_t *threads;
    pthread_mutex_t mutex;
    pthread_cond_t is_more;
    Unit *first, *last; /* that wait, */
    int waiting;        /* so many */
    bool is_complete;   /* no more will come */
};

void unit_fail(const char *file, const char *pass, const char *message) {
    fprintf(stderr, "phobosc: internal error in %s of '%s': %s\n", pass, file, message);
    abort();
}

void unit_write(Unit *unit, LLVMCodeGenFileType type) {
    char *message = NULL;
    LLVMMemoryBufferRef memory;
    if (LLVMTargetMachineEmitToMemoryBuffer(unit->machine, unit->emitter.module, type, &message, &memory))
        unit_fail(unit->file, "LLVM code generation", message);
    buffer_append(&unit->output, LLVMGetBufferStart(memory), LLVMGetBufferSize(memory));
    LLVMDisposeMemoryBuffer(memory);
}

/* NULL: none waits. */
static Unit *take(Units *units) {
    Unit *unit = units->first;
    if (unit) {
        units->first = unit->next;
        units->waiting--;
    }
    return unit;
}

static void work_on(const Units *units, Unit *unit) {
    units->translate(unit);
    emitter_fini(&unit->emitter);
    LLVMDisposeTargetMachine(unit->machine);
}

static void *serve(void *argument) {
    Units *units = argument;
    pthread_mutex_lock(&units->mutex);
    for (;;) {
        while (!units->first && !units->is_complete)
            pthread_cond_wait(&units->is_more, &units->mutex);
        Unit *unit = take(units);
        if (!unit)
            break;
        pthread_mutex_unlock(&units->mutex);
        work_on(units, unit);
        pthread_mutex_lock(&units->mutex);
    }
    pthread_mutex_unlock(&units->mutex);
    return NULL;
}

Units *units_begin(Arena *arena, int jobs, UnitTranslate *translate) {
    Units *units = NEW(arena, Units);
    units->translate = translate;
    units->others = (jobs < MOST_THREADS ? jobs : MOST_THREADS) - 1;
    units->threads = NEW_ARRAY(arena, pthread_t, units->others + 1);
    pthread_mutex_init(&units->mutex, NULL);
    pthread_cond_init(&units->is_more, NULL);
    return units;
}

/* Where a thread cannot be had, those that are there do its work. */
static void start_another(Units *units) {
    if (units->started < units->others && pthread_create(&units->threads[units->started], NULL, serve, units) == 0)
        units->started++;
    else
        units->others = units->started;
}

void units_add(Units *units, Unit *unit) {
    debug_end(&unit->emitter);
    if (!units->others) {
        work_on(units, unit);
        return;
    }
    pthread_mutex_lock(&units->mutex);
    if (units->first)
        units->last->next = unit;
    else
        units->first = unit;
    units->last = unit;
    units->waiting++;
    start_another(units);
    Unit *own = units->waiting > 2 * units->others ? take(units) : NULL;
    pthread_cond_signal(&units->is_more);
    pthread_mutex_unlock(&units->mutex);
    if (own)
        work_on(units, own);
}

void units_end(Units *units) {
    pthread_mutex_lock(&units->mutex);
    units->is_complete = true;
    pthread_cond_broadcast(&units->is_more);
    pthread_mutex_unlock(&units->mutex);
    serve(units);
    for (int i = 0; i < units->started; i++)
        pthread_join(units->threads[i], NULL);
    pthread_mutex_destroy(&units->mutex);
    pthread_cond_destroy(&units->is_more);
}

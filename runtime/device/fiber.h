/* Fibers: threads of a kernel as stacks that hand the processor to one another, without the system's knowledge. */
#ifndef PHOBOS_FIBER_H
#define PHOBOS_FIBER_H

#include "runtime/runtime.h"

/* Where a fiber stands while another runs. */
typedef struct Fiber {
    void *stack_pointer;
    void *fake_stack;   /* AddressSanitizer's */
    const void *bottom; /* of its stack, which has `size` bytes */
    size_t size;
    void *sanitizer_fiber; /* ThreadSanitizer's */
} Fiber;

/* Stacks in one mapping, a page that faults below each. */
typedef struct FiberStacks {
    char *memory;
    size_t stride, bytes; /* bytes: of all */
    int count;
} FiberStacks;

enum { FIBER_STACK_BYTES = 128 * 1024 };

bool fiber_stacks_open(FiberStacks *stacks, int count, Error *error);
void fiber_stacks_close(FiberStacks *stacks); /* a zeroed one too */

/* Makes the calling system thread a fiber, which others can switch back to. */
void fiber_adopt(Fiber *fiber);
/* The next switch to `fiber` calls run(context) on stack `index`. `run` never returns: its last act is a switch away. */
void fiber_prepare(Fiber *fiber, const FiberStacks *stacks, int index, void (*run)(void *context), void *context);
/* Stops `from`, which runs, and goes on with `to`; returns when somebody switches back. */
void fiber_switch(Fiber *from, Fiber *to);
/* The same for a `from` that nobody switches back to. */
_Noreturn void fiber_leave(Fiber *from, Fiber *to);
/* Frees what the sanitizers keep of a fiber that is not running and will not run again. */
void fiber_forget(Fiber *fiber);

#endif

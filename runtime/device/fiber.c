#define _GNU_SOURCE /* MAP_STACK, pthread_getattr_np */
#include "runtime/device/fiber.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __has_feature
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined __SANITIZE_ADDRESS__ || HAS_FEATURE(address_sanitizer)
#define WITH_ASAN 1
#include <sanitizer/common_interface_defs.h>
#else
#define WITH_ASAN 0
#endif
#if defined __SANITIZE_THREAD__ || HAS_FEATURE(thread_sanitizer)
#define WITH_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define WITH_TSAN 0
#endif

/* ---- stacks ---- */

enum { COLOURS = 32, COLOUR_BYTES = 128 }; /* stacks of one CTA begin in different sets of the caches */

bool fiber_stacks_open(FiberStacks *stacks, int count, Error *error) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *stacks = (FiberStacks){.stride = FIBER_STACK_BYTES + page, .count = count};
    stacks->bytes = stacks->stride * (size_t)count;
    void *memory = mmap(NULL, stacks->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return error_errno(error, "cannot take %zu bytes of address space for the stacks of %d threads of a kernel", stacks->bytes, count);
    stacks->memory = memory;
    for (int i = 0; i < count; i++) {
        if (mprotect(stacks->memory + stacks->stride * (size_t)i, page, PROT_NONE) == 0)
            continue;
        error_errno(error, "cannot protect the stacks of %d threads of a kernel; vm.max_map_count may be too low", count);
        fiber_stacks_close(stacks);
        return false;
    }
    return true;
}

void fiber_stacks_close(FiberStacks *stacks) {
    if (stacks->memory != NULL)
        munmap(stacks->memory, stacks->bytes);
    *stacks = (FiberStacks){0};
}

/* ---- switching ---- */

/* Saves what the System V ABI lets a function keep, and goes on where `to` was saved. Kernels leave the control words of x87 and SSE alone. */
void fiber_asm_swap(void **from, void *to);
void fiber_asm_start(void);

__asm__(".text\n"
        ".p2align 4\n"
        ".globl fiber_asm_swap\n"
        ".hidden fiber_asm_swap\n"
        ".type fiber_asm_swap, @function\n"
        "fiber_asm_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_asm_swap, .-fiber_asm_swap\n"
        ".p2align 4\n"
        ".globl fiber_asm_start\n"
        ".hidden fiber_asm_start\n"
        ".type fiber_asm_start, @function\n"
        "fiber_asm_start:\n" /* fiber_prepare's frame: r12 is the function, r13 its argument */
        "    movq %r13, %rdi\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".size fiber_asm_start, .-fiber_asm_start\n");

typedef struct Frame { /* as fiber_asm_swap pops it */
    void *r15, *r14, *r13, *r12, *rbx, *rbp, *resume;
    void *end; /* a return address that unwinders stop at */
} Frame;

typedef struct Start {
    Fiber *fiber;
    void (*run)(void *context);
    void *context;
} Start;

/* On the other side of a switch: `fiber` runs now. */
static void arrived(Fiber *fiber) {
#if WITH_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#else
    (void)fiber;
#endif
}

static void first_steps(void *argument) {
    Start start = *(Start *)argument;
    arrived(start.fiber);
    start.run(start.context);
    abort();
}

void fiber_prepare(Fiber *fiber, const FiberStacks *stacks, int index, void (*run)(void *context), void *context) {
    char *bottom = stacks->memory + stacks->stride * (size_t)index + (stacks->stride - FIBER_STACK_BYTES);
    char *top = bottom + FIBER_STACK_BYTES - (size_t)(index % COLOURS) * COLOUR_BYTES;
    Start *start = (Start *)(void *)(top - 48);
    fiber_forget(fiber);
    *start = (Start){fiber, run, context};
    Frame *frame = (Frame *)(void *)(top - 64 - offsetof(Frame, end)); /* so that the stack is aligned to 16 where fiber_asm_start calls */
    memset(frame, 0, sizeof *frame);
    frame->r12 = (void *)(uintptr_t)first_steps;
    frame->r13 = start;
    frame->resume = (void *)(uintptr_t)fiber_asm_start;
    *fiber = (Fiber){.stack_pointer = frame, .bottom = bottom, .size = FIBER_STACK_BYTES};
#if WITH_TSAN
    fiber->sanitizer_fiber = __tsan_create_fiber(0);
#endif
}

void fiber_adopt(Fiber *fiber) {
    *fiber = (Fiber){0};
#if WITH_ASAN
    pthread_attr_t attributes;
    void *bottom;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &bottom, &fiber->size);
        pthread_attr_destroy(&attributes);
        fiber->bottom = bottom;
    }
#endif
#if WITH_TSAN
    fiber->sanitizer_fiber = __tsan_get_current_fiber();
#endif
}

/* Tells the sanitizers which stack comes next. */
static void announce(const Fiber *to, void **fake_stack) {
#if WITH_ASAN
    __sanitizer_start_switch_fiber(fake_stack, to->bottom, to->size);
#endif
#if WITH_TSAN
    __tsan_switch_to_fiber(to->sanitizer_fiber, 0);
#endif
    (void)to;
    (void)fake_stack;
}

void fiber_switch(Fiber *from, Fiber *to) {
    announce(to, &from->fake_stack);
    fiber_asm_swap(&from->stack_pointer, to->stack_pointer);
    arrived(from);
}

_Noreturn void fiber_leave(Fiber *from, Fiber *to) {
    announce(to, NULL);
    fiber_asm_swap(&from->stack_pointer, to->stack_pointer);
    abort();
}

void fiber_forget(Fiber *fiber) {
#if WITH_TSAN
    if (fiber->bottom != NULL && fiber->sanitizer_fiber != NULL)
        __tsan_destroy_fiber(fiber->sanitizer_fiber);
#endif
    fiber->sanitizer_fiber = NULL;
}

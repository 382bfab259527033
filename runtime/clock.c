#include "runtime/clock.h"

#include <time.h>

uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t clock_ms(void) {
    return clock_ns() / 1000000;
}

uint64_t clock_boot_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

double clock_seconds(void) {
    return (double)clock_ns() * 1e-9;
}

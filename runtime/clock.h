/* Time that only goes on, from a start of its own. */
#ifndef PHOBOS_CLOCK_H
#define PHOBOS_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void);
uint64_t clock_ms(void);
double clock_seconds(void);
uint64_t clock_boot_ms(void); /* goes on while the machine sleeps: who slept must find its lease gone */

#endif

/* The addresses that users write and messages carry. */
#ifndef PHOBOS_ENDPOINT_H
#define PHOBOS_ENDPOINT_H

#include "runtime/runtime.h"

#define DEFAULT_SCHED_PORT "5870"
#define DEFAULT_SCHED_ENDPOINT "tcp://127.0.0.1:" DEFAULT_SCHED_PORT
#define DEFAULT_POD_ENDPOINT "tcp://127.0.0.1:*"

/* Whether `endpoint` is an address that ZeroMQ takes: tcp://host:port (a port or, to bind, *), ipc://path or inproc://name. To bind beyond this
 * machine needs `insecure`: nothing authenticates who connects. */
bool endpoint_check_bind(const char *endpoint, bool insecure, Error *error);
bool endpoint_is_open(const char *endpoint); /* reachable from beyond this machine */
bool endpoint_leads_here(const char *endpoint); /* where another machine connects to it: not an address that means itself there */
bool endpoint_check_connect(const char *endpoint, Error *error);

/* Whether two addresses, such as "tcp://host:port", differ in the port at most. */
bool endpoints_share_host(const char *a, const char *b);

#endif

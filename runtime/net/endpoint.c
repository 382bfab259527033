#include "runtime/net/endpoint.h"

#include <stdlib.h>
#include <string.h>

static bool has_prefix(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The host of tcp://host:port, brackets kept; NULL where there is none. `port` points behind the last colon. */
static const char *tcp_split(const char *endpoint, size_t *host_length, const char **port) {
    const char *host = endpoint + strlen("tcp://");
    const char *colon = strrchr(host, ':');
    if (!colon || colon == host)
        return NULL;
    *host_length = (size_t)(colon - host);
    *port = colon + 1;
    return host;
}

static bool port_valid(const char *port, bool bind) {
    if (bind && strcmp(port, "*") == 0)
        return true;
    char *end;
    if (*port < '0' || *port > '9')
        return false;
    unsigned long value = strtoul(port, &end, 10);
    return *end == 0 && value >= (bind ? 0 : 1) && value <= 65535;
}

static bool endpoint_check(const char *endpoint, bool bind, Error *error) {
    if ((has_prefix(endpoint, "ipc://") && endpoint[6]) || (has_prefix(endpoint, "inproc://") && endpoint[9]))
        return true;
    size_t host_length;
    const char *port;
    if (!has_prefix(endpoint, "tcp://") || !tcp_split(endpoint, &host_length, &port))
        return error_set(error, "'%s' is not an address: expected tcp://HOST:PORT, such as %s", endpoint, DEFAULT_SCHED_ENDPOINT);
    if (!port_valid(port, bind))
        return error_set(error, "'%s': port '%s' is not a number from %d to 65535%s", endpoint, port, bind ? 0 : 1, bind ? " or *" : "");
    return true;
}

bool endpoint_check_connect(const char *endpoint, Error *error) {
    return endpoint_check(endpoint, false, error);
}

static bool host_is_loopback(const char *host, size_t length) {
    static const char *const names[] = {"localhost", "[::1]", "lo"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(host, names[i], length) == 0)
            return true;
    return length > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length;
}

bool endpoint_is_open(const char *endpoint) {
    size_t host_length = 0;
    const char *port;
    if (!has_prefix(endpoint, "tcp://"))
        return false;
    const char *host = tcp_split(endpoint, &host_length, &port);
    return !host || !host_is_loopback(host, host_length);
}

bool endpoint_leads_here(const char *endpoint) {
    size_t host_length = 0;
    const char *port, *host = has_prefix(endpoint, "tcp://") ? tcp_split(endpoint, &host_length, &port) : NULL;
    bool any = host && ((host_length == 7 && has_prefix(host, "0.0.0.0")) || (host_length == 4 && has_prefix(host, "[::]")));
    return !any && endpoint_is_open(endpoint);
}

bool endpoint_check_bind(const char *endpoint, bool insecure, Error *error) {
    if (!endpoint_check(endpoint, true, error))
        return false;
    if (endpoint_is_open(endpoint) && !insecure)
        return error_set(
            error, "to listen on '%s', beyond this machine, lets anybody in who reaches it: give --key and --peers, or say --insecure to do so all the same", endpoint);
    return true;
}

bool endpoints_share_host(const char *a, const char *b) {
    const char *colon = strrchr(a, ':');
    size_t length = colon ? (size_t)(colon + 1 - a) : strlen(a) + 1;
    return strncmp(a, b, length) == 0;
}

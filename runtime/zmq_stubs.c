/* Closes the link of a static libzmq that was built with transports and a mechanism we never name: PGM, NORM, GSSAPI (Debian builds it so). Endpoints
 * are checked before libzmq sees them, so all but pgm_init and pgm_shutdown, which every context calls, are unreachable. */
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNREACHABLE_FUNCTIONS(X)                                                                                                                     \
    X(NormCreateInstance)                                                                                                                            \
    X(NormCreateSession)                                                                                                                             \
    X(NormDestroyInstance)                                                                                                                           \
    X(NormDestroySession)                                                                                                                            \
    X(NormGetDescriptor)                                                                                                                             \
    X(NormGetNextEvent)                                                                                                                              \
    X(NormGetRandomSessionId)                                                                                                                        \
    X(NormIsUnicastAddress)                                                                                                                          \
    X(NormNodeDelete)                                                                                                                                \
    X(NormObjectGetType)                                                                                                                             \
    X(NormObjectGetUserData)                                                                                                                         \
    X(NormObjectSetUserData)                                                                                                                         \
    X(NormSetCongestionControl)                                                                                                                      \
    X(NormSetDefaultSyncPolicy)                                                                                                                      \
    X(NormSetDefaultUnicastNack)                                                                                                                     \
    X(NormSetLoopback)                                                                                                                               \
    X(NormSetMulticastInterface)                                                                                                                     \
    X(NormSetRxPortReuse)                                                                                                                            \
    X(NormSetTTL)                                                                                                                                    \
    X(NormStartReceiver)                                                                                                                             \
    X(NormStartSender)                                                                                                                               \
    X(NormStopInstance)                                                                                                                              \
    X(NormStopReceiver)                                                                                                                              \
    X(NormStopSender)                                                                                                                                \
    X(NormStreamFlush)                                                                                                                               \
    X(NormStreamOpen)                                                                                                                                \
    X(NormStreamRead)                                                                                                                                \
    X(NormStreamSeekMsgStart)                                                                                                                        \
    X(NormStreamWrite)                                                                                                                               \
    X(gss_accept_sec_context)                                                                                                                        \
    X(gss_acquire_cred)                                                                                                                              \
    X(gss_delete_sec_context)                                                                                                                        \
    X(gss_display_name)                                                                                                                              \
    X(gss_import_name)                                                                                                                               \
    X(gss_init_sec_context)                                                                                                                          \
    X(gss_release_buffer)                                                                                                                            \
    X(gss_release_cred)                                                                                                                              \
    X(gss_release_name)                                                                                                                              \
    X(gss_unwrap)                                                                                                                                    \
    X(gss_wrap)                                                                                                                                      \
    X(pgm_bind3)                                                                                                                                     \
    X(pgm_close)                                                                                                                                     \
    X(pgm_connect)                                                                                                                                   \
    X(pgm_error_free)                                                                                                                                \
    X(pgm_free)                                                                                                                                      \
    X(pgm_freeaddrinfo)                                                                                                                              \
    X(pgm_getaddrinfo)                                                                                                                               \
    X(pgm_getsockopt)                                                                                                                                \
    X(pgm_gsi_create_from_data)                                                                                                                      \
    X(pgm_recvmsgv)                                                                                                                                  \
    X(pgm_send)                                                                                                                                      \
    X(pgm_setsockopt)                                                                                                                                \
    X(pgm_socket)

#define X(name)                                                                                                                                      \
    _Noreturn void name(void);                                                                                                                       \
    void name(void) {                                                                                                                                \
        fputs("phobos: libzmq called " #name ", which is not built in\n", stderr);                                                                   \
        abort();                                                                                                                                     \
    }
UNREACHABLE_FUNCTIONS(X)
#undef X

/* Nonzero is success. */
int pgm_init(void *error);
int pgm_init(void *error) {
    (void)error;
    return 1;
}

int pgm_shutdown(void);
int pgm_shutdown(void) {
    return 1;
}

extern const void *const NORM_INSTANCE_INVALID, *const NORM_SESSION_INVALID, *const NORM_OBJECT_INVALID;
extern const uint32_t NORM_NODE_ANY;
extern void *const GSS_C_NT_HOSTBASED_SERVICE, *const GSS_C_NT_USER_NAME;
const void *const NORM_INSTANCE_INVALID = NULL, *const NORM_SESSION_INVALID = NULL, *const NORM_OBJECT_INVALID = NULL;
const uint32_t NORM_NODE_ANY = UINT32_MAX;
void *const GSS_C_NT_HOSTBASED_SERVICE = NULL, *const GSS_C_NT_USER_NAME = NULL;

/* libbsd's, which glibc has since 2.38 only. */
size_t strlcpy(char *restrict to, const char *restrict from, size_t size);
size_t strlcpy(char *restrict to, const char *restrict from, size_t size) {
    size_t length = strlen(from);
    if (size > 0) {
        size_t count = length < size ? length : size - 1;
        memcpy(to, from, count);
        to[count] = '\0';
    }
    return length;
}

/* What the build renames libc's data to in Debian's archives (cmake/MergeRuntime.cmake). 0: there may always be several threads. */
extern FILE *own_stderr, *own_stdin;
extern const struct in6_addr own_in6addr_any;
extern const char own_single_threaded;
FILE *own_stderr, *own_stdin;
const struct in6_addr own_in6addr_any = IN6ADDR_ANY_INIT;
const char own_single_threaded = 0;

__attribute__((constructor)) static void find_streams(void) {
    own_stderr = stderr;
    own_stdin = stdin;
}

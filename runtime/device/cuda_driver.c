#include "runtime/device/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static CudaDriver driver;
static Error why_not; /* empty: the driver works */
static pthread_once_t once = PTHREAD_ONCE_INIT;

enum { NEEDED, OPTIONAL };

static const struct {
    const char *name;
    int need;
    size_t offset;
} symbols[] = {
#define SYMBOL(field, name, need, parameters) {#name, need, offsetof(CudaDriver, field)},
#include "runtime/device/cuda_driver.def"
#undef SYMBOL
};

static bool find_symbols(void *library) {
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL && symbols[i].need == NEEDED)
            return error_set(&why_not, LIBRARY " has no %s: the driver is too old, 450 (CUDA 11.0) or newer is needed", symbols[i].name);
        memcpy((char *)&driver + symbols[i].offset, &address, sizeof address);
    }
    return true;
}

static void load(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        error_set(&why_not, "there is no CUDA driver: %s", dlerror());
        return;
    }
    if (!find_symbols(library))
        return;
    CudaResult result = driver.init(0);
    if (result == 0)
        result = driver.driver_version(&driver.version);
    if (result != 0)
        cuda_fail(&driver, &why_not, result, "the CUDA driver does not start");
}

const CudaDriver *cuda_driver(Error *error) {
    pthread_once(&once, load);
    if (why_not.text[0] == '\0')
        return &driver;
    *error = why_not;
    return NULL;
}

enum { PASSING, LASTING };

static const struct {
    CudaResult code;
    int kind;
    const char *way_out;
} known[] = {
#define CUDA_ERROR(code, kind, way_out) {code, kind, way_out},
#include "runtime/device/cuda_errors.def"
#undef CUDA_ERROR
};

bool cuda_error_lasts(CudaResult result) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == result)
            return known[i].kind == LASTING;
    return false;
}

bool cuda_fail(const CudaDriver *d, Error *error, CudaResult result, const char *what) {
    const char *name = NULL, *text = NULL, *way_out = NULL;
    d->error_name(result, &name);
    d->error_string(result, &text);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == result)
            way_out = known[i].way_out;
    char number[32], version[48] = "";
    snprintf(number, sizeof number, "error %d", result);
    if (d->version > 0)
        snprintf(version, sizeof version, ", driver CUDA %d.%d", d->version / 1000, d->version % 1000 / 10);
    return error_set(error, "%s: %s (%s)%s%s%s", what, name != NULL ? name : number, text != NULL ? text : "unknown to the driver", version,
        way_out != NULL ? ": " : "", way_out != NULL ? way_out : "");
}

/* Build ids. Line tables are not in them: the code is the same without. */
#define XXH_INLINE_ALL
#include "compiler/driver.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static bool hash_file(XXH3_state_t *state, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    static char bytes[1 << 16];
    size_t count;
    while ((count = fread(bytes, 1, sizeof bytes, file)) > 0)
        XXH3_128bits_update(state, bytes, count);
    bool done = !ferror(file);
    fclose(file);
    return done;
}

void build_id_make(const Options *options, const char *compiler, IrModule *module, const char *runtime_path, uint8_t id[16]) {
    Buffer text = {0};
    buffer_printf(&text, "%s -O%d", compiler, options->optimise);
    for (int i = 0; i < options->levels.count; i++)
        buffer_printf(&text, " %s", options->levels.items[i]);
    for (int i = 0; i < options->gpus.count; i++)
        buffer_printf(&text, " %s", options->gpus.items[i]);
    buffer_printf(&text, "%s %d%s\n", options->gpu_auto ? " auto" : "", options->gpu_variants, options->simt ? " simt" : "");
    ir_print(&text, module);
    XXH3_state_t *state = XXH3_createState();
    if (!state) {
        fprintf(stderr, "phobosc: error: out of memory for the build id of '%s'\n", module->file);
        abort();
    }
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, text.data, text.length);
    hash_file(state, runtime_path);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(id, canonical.digest, 16);
    XXH3_freeState(state);
    buffer_free(&text);
}

void build_id_add_machine_code(const ClusterProgram *program, uint8_t id[16]) {
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        for (int v = 0; v < kernel->gpu_variants.count; v++) {
            for (int i = 0; i < kernel->gpu_variants.items[v].images.count; i++) {
                const GpuImage *image = &kernel->gpu_variants.items[v].images.items[i];
                XXH64_hash_t low, high;
                memcpy(&low, id, sizeof low);
                memcpy(&high, id + sizeof low, sizeof high);
                if (!image->machine_code)
                    continue;
                XXH128_canonical_t canonical;
                XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(image->text, (size_t)image->size, low ^ high));
                memcpy(id, canonical.digest, 16);
            }
        }
    }
}

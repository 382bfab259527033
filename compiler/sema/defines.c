/* -D: one value in place of a search dim's declared set. */
#include "compiler/sema/check.h"

#include <string.h>

static const char *const prefixes[] = {[DEFINE_BOTH] = "", [DEFINE_LEAF] = "leaf.", [DEFINE_CLUSTER] = "cluster."};

static void replace_leaf(Arena *arena, SearchDim *dim, int64_t value) {
    dim->leaf.count = 0;
    vec_push(arena, &dim->leaf, value);
}

static void replace_cluster(Arena *arena, SearchDim *dim, int64_t value) {
    dim->cluster.count = 0;
    vec_push(arena, &dim->cluster, value);
}

void apply_defines(Checker *checker) {
    Arena *arena = checker->context->arena;
    for (int i = 0; i < checker->options->define_count; i++) {
        const Define *define = &checker->options->defines[i];
        for (int k = 0; k < checker->signature->search.count; k++) {
            SearchDim *dim = &checker->signature->search.items[k];
            if (strcmp(dim->name, define->name) != 0 || define->value < 1)
                continue;
            if (define->reading != DEFINE_CLUSTER)
                replace_leaf(arena, dim, define->value);
            if (define->reading != DEFINE_LEAF && dim->cluster.count > 0)
                replace_cluster(arena, dim, define->value);
        }
    }
}

static void check_define(Context *context, const Define *define, const CheckedProgram *program) {
    const char *prefix = prefixes[define->reading];
    if (define->value < 1) {
        diag_error(context->diag, (Span){0}, "-D %s%s=%lld: a search dim's value is at least 1", prefix, define->name, (long long)define->value);
        return;
    }
    Names names = {0};
    bool is_search_dim = false;
    for (int i = 0; i < program->kernels.count; i++) {
        const Signature *signature = &program->kernels.items[i]->signature;
        for (int k = 0; k < signature->search.count; k++) {
            const SearchDim *dim = &signature->search.items[k];
            bool is_named = strcmp(dim->name, define->name) == 0;
            is_search_dim = is_search_dim || is_named;
            if (define->reading == DEFINE_CLUSTER && dim->cluster.count == 0)
                continue;
            if (is_named)
                return;
            vec_push(context->arena, &names, dim->name);
        }
    }
    if (is_search_dim) {
        diag_error(context->diag, (Span){0}, "-D %s%s: '%s' is not under @cluster", prefix, define->name, define->name);
        return;
    }
    const char *nearest = nearest_name(define->name, names.items, names.count);
    diag_error(context->diag, (Span){0}, "-D %s%s: no kernel has a search dim '%s'%s", prefix, define->name, define->name,
        nearest ? arena_printf(context->arena, "; did you mean '%s'?", nearest) : "");
}

void check_defines(Context *context, const SemaOptions *options, const CheckedProgram *program) {
    for (int i = 0; i < options->define_count; i++)
        check_define(context, &options->defines[i], program);
}

/* Checks a file, kernel by kernel: search dims, parameters, attributes, body, launch grid. */
#include "compiler/sema/check.h"

enum { THREADS_DEFAULT = 256 }; /* of a CTA, in a kernel with thread code that has no @launch */

static void check_param(Checker *checker, const ParamDecl *decl) {
    Context *context = checker->context;
    const Type *type = type_poison(context->types);
    if (decl->type)
        type = type_resolve(checker, decl->type, PLACE_KERNEL_PARAM);
    else
        diag_error(context->diag, decl->span, "parameter '%s' of a kernel needs a type", decl->name);
    Symbol *symbol = scope_declare(checker, SYMBOL_PARAM, decl->name, decl->span, type);
    symbol->index = checker->signature->params.count;
    vec_push(context->arena, &checker->signature->params, (Param){decl->name, decl->span, type});
}

static void check_params(Checker *checker) {
    int tensors = 0, scalars = 0;
    for (int i = 0; i < checker->decl->params.count; i++) {
        const ParamDecl *decl = &checker->decl->params.items[i];
        check_param(checker, decl);
        int *count = checker->signature->params.items[i].type->kind == TYPE_TENSOR ? &tensors : &scalars;
        if (++*count == PHB_MAX_PARAMS + 1)
            diag_error(checker->context->diag, decl->span, "a kernel has at most %d %s", PHB_MAX_PARAMS, count == &tensors ? "tensors" : "scalars");
    }
}

static void drop_cluster(Signature *signature) {
    signature->has_cluster = false;
    for (int i = 0; i < signature->search.count; i++)
        signature->search.items[i].cluster.count = 0;
}

static CheckedKernel *check_kernel(Checker checker, const Decl *decl) {
    Context *context = checker.context;
    CheckedKernel *kernel = NEW(context->arena, CheckedKernel);
    kernel->decl = decl;
    kernel->signature.name = decl->name;
    kernel->signature.span = decl->name_span;
    checker.decl = decl;
    checker.signature = &kernel->signature;
    int errors = diag_error_count(context->diag);
    scope_push(&checker);
    check_search_attributes(&checker);
    apply_defines(&checker);
    check_params(&checker);
    check_attributes(&checker);
    check_block(&checker, &decl->body);
    if (diag_error_count(context->diag) == errors)
        infer_grid(&checker);
    if (diag_error_count(context->diag) == errors)
        warn_edges(&checker);
    if (diag_error_count(context->diag) == errors)
        check_uniformity(&checker, &decl->body);
    if (diag_error_count(context->diag) == errors)
        check_phases(&checker, &decl->body);
    if (checker.thread_use.line && kernel->signature.launch_threads == 0)
        kernel->signature.launch_threads = THREADS_DEFAULT;
    if (diag_error_count(context->diag) == errors)
        check_thread_launch(&checker);
    if (diag_error_count(context->diag) == errors)
        warn_elected(&checker, &decl->body);
    if (diag_error_count(context->diag) == errors)
        warn_races(&checker, &decl->body);
    scope_pop(&checker);
    return kernel;
}

static bool check_name_is_new(const Checker *checker, int index) {
    const Decl *decl = checker->ast->decls.items[index], *first = checker->ast->decls.items[find_decl(checker->decls, decl->name)];
    if (first == decl)
        return true;
    diag_error(checker->context->diag, decl->name_span, "'%s' is declared already", decl->name);
    diag_note(checker->context->diag, first->name_span, "the other one is here");
    return false;
}

/* A fn's name: in calls it stands before a builtin of that name. */
static void check_fn_name(Checker *checker, const Decl *fn) {
    warn_shadowing(checker, "function", fn->name, fn->name_span);
}

CheckedProgram *sema_check(Context *context, Ast *ast, const SemaOptions *options) {
    CheckedProgram *program = NEW(context->arena, CheckedProgram);
    FnState *fns = NEW_ARRAY(context->arena, FnState, ast->decls.count);
    Checker checker = {.context = context, .options = options, .ast = ast, .decls = decl_table_new(context->arena, ast), .fns = fns};
    for (int i = 0; i < ast->decls.count; i++) {
        fns[i].fn = ast->decls.items[i];
        if (check_name_is_new(&checker, i) && !fns[i].fn->is_kernel)
            check_fn_name(&checker, fns[i].fn);
    }
    for (int i = 0; i < ast->decls.count; i++)
        if (ast->decls.items[i]->is_kernel)
            vec_push(context->arena, &program->kernels, check_kernel(checker, ast->decls.items[i]));
    check_uncalled_fns(&checker);
    if (program->kernels.count == 0 && diag_error_count(context->diag) == 0)
        diag_error(context->diag, (Span){1, 1, 1}, "the file has no kernel");
    check_defines(context, options, program);
    for (int i = 0; options->no_cluster && i < program->kernels.count; i++)
        drop_cluster(&program->kernels.items[i]->signature);
    return program;
}

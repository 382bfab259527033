/* One compilation, top to bottom: read, parse, check, lower, optimise, split, generate, write. */
#include "compiler/driver.h"
#include "compiler/codegen/codegen.h"
#include "compiler/config.h"
#include "compiler/layout/layout.h"
#include "compiler/lsp/lsp.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUNTIME_NAME "libphobosrt.a"
#define COMPILER "phobosc " PHOBOS_VERSION

typedef struct Compilation {
    Context context;
    Source source;
    const Options *options;
    const char *output; /* NULL: standard output */
    const char *runtime_path;
    bool from_ir;
    IrModule *module;
    Buffer text; /* what is written, or the object that it is made of */
} Compilation;

/* ---- messages that have no position ---- */

static bool fail(const char *sentence) {
    fprintf(stderr, "phobosc: error: %s\n", sentence);
    return false;
}

static bool usage_fault(int *status, const char *sentence) {
    *status = STATUS_USAGE;
    return fail(sentence);
}

_Noreturn static void internal_error(const Compilation *c, const char *pass, const char *message) {
    fprintf(stderr, "phobosc: internal error after %s of '%s': %s\n", pass, c->source.path, message);
    abort();
}

static bool no_errors(const Compilation *c) {
    return diag_error_count(c->context.diag) == 0;
}

/* ---- paths ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The folder of this executable, by its real name. */
static const char *own_folder(Arena *arena) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return ".";
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    return arena_printf(arena, "%s", path);
}

static const char *find_runtime(Arena *arena) {
    return arena_printf(arena, "%s/%s/%s", own_folder(arena), PHOBOS_RUNTIME_DIR, RUNTIME_NAME);
}

static bool is_text(EmitKind emit) {
    return emit != EMIT_EXE && emit != EMIT_OBJ && emit != EMIT_LIB;
}

/* As cc: a.out, NAME.o, libNAME.a; text goes to standard output. */
static const char *output_name(Arena *arena, const Options *options) {
    if (options->output)
        return strcmp(options->output, "-") == 0 ? NULL : options->output;
    if (options->emit == EMIT_EXE)
        return "a.out";
    if (is_text(options->emit))
        return NULL;
    const char *name = strcmp(options->input, "-") == 0 ? "stdin" : base_name(options->input);
    const char *dot = strrchr(name, '.');
    bool archive = options->emit == EMIT_LIB;
    return arena_printf(arena, "%s%.*s%s", archive ? "lib" : "", dot && dot != name ? (int)(dot - name) : (int)strlen(name), name, archive ? ".a" : ".o");
}

static const char *map_prefix(Arena *arena, const Options *options, const char *path) {
    for (int i = options->prefixes.count - 1; i >= 0; i--) {
        const PrefixMap *map = &options->prefixes.items[i];
        size_t length = strlen(map->from);
        if (strncmp(path, map->from, length) == 0)
            return arena_printf(arena, "%s%s", map->to, path + length);
    }
    return path;
}

/* As cc does it: the source by the name that was given, and the folder that the name is relative to. NULL: no line tables are asked for. */
static const DebugSource *debug_source(const Compilation *c, const IrModule *module) {
    if (!c->options->debug)
        return NULL;
    Arena *arena = c->context.arena;
    char folder[PATH_MAX];
    if (!getcwd(folder, sizeof folder))
        strcpy(folder, ".");
    bool has_name = !c->from_ir && strcmp(c->source.path, "-") != 0;
    DebugSource *source = NEW(arena, DebugSource);
    *source = (DebugSource){.path = map_prefix(arena, c->options, has_name ? c->source.path : module->file),
        .folder = map_prefix(arena, c->options, arena_printf(arena, "%s", folder)),
        .producer = COMPILER,
        .is_optimised = c->options->optimise > 0};
    return source;
}

static bool same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino && S_ISREG(first.st_mode);
}

/* ---- stages ---- */

static bool starts_ir(const Source *source) {
    static const char magic[] = "phobos-ir";
    return source->length >= sizeof magic - 1 && memcmp(source->text, magic, sizeof magic - 1) == 0;
}

static Diag *new_diag(const Compilation *c, const Source *source) {
    const Options *options = c->options;
    const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool may_color = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0 && !(no_color && *no_color);
    bool color = options->color == COLOR_ALWAYS || (options->color == COLOR_AUTO && may_color);
    Diag *diag = diag_new(c->context.arena, source, stderr, options->diagnostics, color);
    for (int i = 0; i < options->warnings.count; i++)
        diag_set_warning(diag, options->warnings.items[i].kind, options->warnings.items[i].on);
    for (int i = 0; i < REMARK_COUNT; i++)
        diag_set_remark(diag, (RemarkKind)i, options->remarks[i]);
    diag_set_werror(diag, options->werror);
    diag_set_quiet(diag, options->quiet);
    return diag;
}

/* Tokens of IR text are where the reader says; what it stands for is where its source was. */
static IrModule *read_ir(Compilation *c) {
    IrModule *module = ir_read(&c->context);
    if (!module)
        return NULL;
    Source *origin = NEW(c->context.arena, Source);
    origin->path = module->file;
    diag_finish(c->context.diag);
    c->context.source = origin;
    c->context.diag = new_diag(c, origin);
    return module;
}

static Ast *parse(Compilation *c) {
    Ast *ast = parse_source(&c->context);
    return no_errors(c) ? ast : NULL;
}

static IrModule *check_and_lower(Compilation *c, Ast *ast) {
    const Options *options = c->options;
    SemaOptions sema = {options->defines.items, options->defines.count, options->no_cluster};
    CheckedProgram *program = sema_check(&c->context, ast, &sema);
    if (!no_errors(c))
        return NULL;
    IrModule *module = lower_program(&c->context, program, strcmp(c->source.path, "-") == 0 ? "<stdin>" : base_name(c->source.path));
    return no_errors(c) ? module : NULL;
}

static void verify(Compilation *c, IrModule *module, const char *pass) {
    const char *broken = ir_verify(&c->context, module);
    if (broken)
        internal_error(c, pass, broken);
}

typedef bool PassFunction(Context *context, IrKernel *kernel);

static const struct {
    const char *name;
    PassFunction *run; /* NULL: the module as lowered */
} passes[IR_PASS_COUNT] = {
    [PASS_LOWER] = {"lower", NULL},
    [PASS_FOLD] = {"fold", ir_fold},
    [PASS_CONTROL] = {"control", ir_control},
    [PASS_CSE] = {"cse", ir_cse},
    [PASS_LICM] = {"licm", ir_licm},
    [PASS_DCE] = {"dce", ir_dce},
    [PASS_LAYOUT] = {"layout", NULL}, /* of leaves */
};

/* One round of the passes up to `last`; says whether any changed a kernel. */
static bool run_passes(Compilation *c, IrModule *module, IrPass last) {
    bool changed = false;
    for (int pass = 0; pass <= (int)last; pass++) {
        for (int k = 0; passes[pass].run && k < module->kernels.count; k++)
            if (!module->kernels.items[k]->threads) /* at the memory level barriers order what these would move */
                changed |= passes[pass].run(&c->context, module->kernels.items[k]);
#ifndef NDEBUG
        verify(c, module, passes[pass].name);
#endif
    }
    return changed;
}

/* To the end, so that IR that was printed and read again is not changed further. */
static void optimise(Compilation *c, IrModule *module) {
    while (run_passes(c, module, PASS_DCE))
        ;
    verify(c, module, "optimisation");
}

static void optimise_kernel(Compilation *c, const char *file, IrKernel *kernel) {
    IrModule module = {.file = file};
    vec_push(c->context.arena, &module.kernels, kernel);
    optimise(c, &module);
}

static void optimise_variants(Compilation *c, const ClusterProgram *program) {
    for (int k = 0; k < program->kernels.count; k++) {
        ClusterKernel *kernel = program->kernels.items[k];
        for (int v = 0; v < kernel->variants.count; v++) {
            for (int s = 0; s < kernel->stages.count; s++) {
                IrKernel *leaf = kernel->variants.items[v].stages[s];
                optimise_kernel(c, program->file, leaf);
                if (contraction_isolate(&c->context, leaf))
                    optimise_kernel(c, program->file, leaf);
            }
        }
    }
}

static ClusterProgram *split(Compilation *c, IrModule *module) {
    ClusterProgram *program = cluster_split(&c->context, module);
    if (!no_errors(c))
        return NULL;
    for (int k = 0; k < program->kernels.count; k++) {
        IrModule stages = {.file = program->file};
        for (int s = 0; s < program->kernels.items[k]->stages.count; s++) {
            stages.kernels.count = 0;
            vec_push(c->context.arena, &stages.kernels, program->kernels.items[k]->stages.items[s].kernel);
            verify(c, &stages, "the cluster split");
        }
    }
    return program;
}

/* The leaves of `module` as a GPU would run them, each in its first variant. False after errors in the diagnostics. */
static bool lay_out(Compilation *c, IrModule *module, IrModule *leaves) {
    static const LayoutLimits limits = {.shared_bytes = 227 << 10, .registers = 255, .tensor_cores = true}; /* of sm_90 */
    ClusterProgram *program = split(c, module);
    if (!program)
        return false;
    select_cpu_variants(&c->context, program);
    if (!no_errors(c))
        return false;
    optimise_variants(c, program);
    for (int k = 0; k < program->kernels.count; k++) {
        const LeafVariant *variant = &program->kernels.items[k]->variants.items[0];
        for (int s = 0; s < program->kernels.items[k]->stages.count; s++) {
            IrKernel *leaf = specialise(&c->context, variant->stages[s], variant->values);
            const char *why;
            if (!layout_kernel(&c->context, leaf, &limits, &why))
                diag_error(c->context.diag, leaf->signature.span, "'%s' cannot run as threads: %s", leaf->signature.name, why);
            vec_push(c->context.arena, &leaves->kernels, leaf);
        }
    }
    if (!no_errors(c))
        return false;
    verify(c, leaves, "layout");
    return true;
}

static bool generate_gpu(Compilation *c, ClusterProgram *program, const DebugSource *debug) {
    const Options *options = c->options;
    bool embeds = options->emit != EMIT_LLVM && options->emit != EMIT_ASM && (options->gpus.count || options->gpu_auto);
    if (!embeds && !options->simt)
        return true;
    select_gpu_variants(&c->context, program, options->gpu_variants);
    for (int k = 0; k < program->kernels.count; k++) {
        const ClusterKernel *kernel = program->kernels.items[k];
        for (int v = 0; v < kernel->gpu_variants.count; v++)
            for (int s = 0; s < kernel->stages.count; s++)
                optimise_kernel(c, program->file, kernel->gpu_variants.items[v].stages[s]);
    }
    if (!embeds)
        return true;
    GpuTargets targets = {options->gpus.items, options->gpus.count, options->gpu_auto, options->cubin, debug, options->jobs};
    return codegen_gpu(&c->context, program, &targets, options->optimise);
}

/* The newest of the targets that are named; else what every card runs. */
static Simulated simulated(const Options *options) {
    bool has_bulk = false;
    for (int i = 0; i < options->gpus.count; i++)
        has_bulk |= codegen_gpu_has_bulk(options->gpus.items[i]);
    return !options->simt ? SIMULATED_NONE : has_bulk ? SIMULATED_SM_90A : SIMULATED_SM_80;
}

static bool generate(Compilation *c, IrModule *module) {
    const Options *options = c->options;
    const DebugSource *debug = debug_source(c, module);
    CodegenOptions codegen = {options->optimise, debug, options->levels.items, options->levels.count, {0}, COMPILER, NULL, options->jobs};
    codegen.symbol = options->emit == EMIT_LIB ? library_symbol(c->context.arena, c->output) : "phb_program";
    c->module = module;
    build_id_make(options, COMPILER, module, c->runtime_path, codegen.build_id);
    ClusterProgram *program = split(c, module);
    if (!program || !generate_gpu(c, program, debug))
        return false;
    build_id_add_machine_code(program, codegen.build_id);
    if (options->emit == EMIT_PTX) {
        codegen_print_ptx(&c->context, &c->text, program);
        return true;
    }
    select_cpu_variants(&c->context, program);
    if (!no_errors(c))
        return false;
    optimise_variants(c, program);
    if (!codegen_threads(&c->context, program, simulated(options)))
        return false;
    CodegenOutput output = options->emit == EMIT_LLVM ? CODEGEN_LLVM : options->emit == EMIT_ASM ? CODEGEN_ASM : CODEGEN_OBJECT;
    codegen_program(&c->context, program, &codegen, output, &c->text);
    return no_errors(c);
}

/* Leaves the output in c->text: an executable's object. False after errors in the diagnostics. */
static bool compile(Compilation *c) {
    EmitKind emit = c->options->emit;
    IrModule *module;
    if (c->from_ir) {
        module = read_ir(c);
    } else {
        Ast *ast = parse(c);
        if (ast && emit == EMIT_AST) {
            ast_print(&c->text, ast);
            return true;
        }
        module = ast ? check_and_lower(c, ast) : NULL;
    }
    if (!module)
        return false;
    verify(c, module, "lowering");
    IrModule leaves = {.file = module->file};
    if (emit == EMIT_IR_AFTER && c->options->ir_after == PASS_LAYOUT) {
        optimise(c, module);
        if (!lay_out(c, module, &leaves))
            return false;
        ir_print(&c->text, &leaves);
        return true;
    }
    if (emit == EMIT_IR_AFTER)
        run_passes(c, module, c->options->ir_after);
    else
        optimise(c, module);
    if (emit == EMIT_IR || emit == EMIT_IR_AFTER) {
        ir_print(&c->text, module);
        return true;
    }
    if (emit != EMIT_CLUSTER)
        return generate(c, module);
    ClusterProgram *program = split(c, module);
    if (program)
        cluster_print(&c->text, program);
    return program != NULL;
}

/* ---- output ---- */

static bool write_stdout(const Buffer *text) {
    if (fwrite(text->data, 1, text->length, stdout) == text->length && fflush(stdout) == 0)
        return true;
    fprintf(stderr, "phobosc: error: cannot write standard output: %s\n", strerror(errno));
    return false;
}

static bool write_file(Arena *arena, const Buffer *text, const char *path, char **error) {
    Output output;
    if (!output_begin(arena, path, "", &output, error))
        return false;
    if (output_write(arena, &output, text->data, text->length, error))
        return output_commit(arena, &output, error);
    output_abandon(&output);
    return false;
}

static bool write_output(Compilation *c) {
    char *error = NULL;
    if (!c->output)
        return write_stdout(&c->text);
    EmitKind emit = c->options->emit;
    bool done = emit == EMIT_EXE   ? link_executable(&c->context, &c->text, c->runtime_path, PHOBOS_LINK_FLAGS, c->output, &error)
                : emit == EMIT_LIB ? library_write(c->context.arena, c->module, &c->text, c->runtime_path, c->output, &error)
                                   : write_file(c->context.arena, &c->text, c->output, &error);
    return done || fail(error);
}

static const char *depfile_of(const Compilation *c) {
    return depfile_name(c->context.arena, c->options, c->output ? c->output : base_name(c->options->input));
}

/* The depfile is complete before the output appears, and takes its place after it. */
static bool write_outputs(Compilation *c) {
    if (!c->options->depfile)
        return write_output(c);
    Arena *arena = c->context.arena;
    const char *path = depfile_of(c);
    Buffer text = {0};
    depfile_print(arena, &text, c->options, c->output ? c->output : "-");
    Output depfile = {.fd = -1};
    char *error = NULL;
    bool done =
        !path ? write_stdout(&text)
              : (output_begin(arena, path, "", &depfile, &error) && output_write(arena, &depfile, text.data, text.length, &error)) || fail(error);
    done = done && write_output(c) && (!path || output_commit(arena, &depfile, &error) || fail(error));
    output_abandon(&depfile);
    buffer_free(&text);
    return done;
}

/* Would one replace the other? What is no regular file, such as /dev/null, takes both. */
static bool same_place(Arena *arena, const char *a, const char *b) {
    struct stat first, second;
    if (same_file(a, b))
        return true;
    if (strcmp(base_name(a), base_name(b)) != 0 || (stat(a, &first) == 0 && !S_ISREG(first.st_mode)))
        return false;
    const char *folders[2] = {arena_printf(arena, "%.*s.", (int)(base_name(a) - a), a), arena_printf(arena, "%.*s.", (int)(base_name(b) - b), b)};
    return stat(folders[0], &first) == 0 && stat(folders[1], &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

static bool outputs_differ(const Compilation *c, int *status) {
    static const char *const names[] = {"the output", "the header", "the depfile"};
    const Options *options = c->options;
    Arena *arena = c->context.arena;
    const char *paths[] = {
        c->output, options->emit == EMIT_LIB ? library_header_path(arena, c->output) : NULL, options->depfile ? depfile_of(c) : NULL};
    if (options->depfile && !c->output && !paths[2])
        return usage_fault(status, "standard output is named for the output and for the depfile");
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++)
            if (paths[i] && paths[k] && same_place(arena, paths[i], paths[k]))
                return usage_fault(status, arena_printf(arena, "'%s' is named for %s and for %s", paths[i], names[k], names[i]));
    return true;
}

static bool inputs_fit_options(Compilation *c, int *status) {
    const Options *options = c->options;
    if (c->output && same_file(options->input, c->output))
        return usage_fault(status, "the output is the source");
    if (options->emit == EMIT_LIB && same_file(options->input, library_header_path(c->context.arena, c->output)))
        return usage_fault(status, "the header is the source");
    if (options->depfile_path && same_file(options->input, options->depfile_path))
        return usage_fault(status, "the depfile is the source");
    if (!c->from_ir)
        return true;
    if (options->emit == EMIT_AST)
        return usage_fault(status, "'--emit=ast' needs source, the input is IR");
    if (options->defines.count || options->no_cluster)
        return usage_fault(status, "'-D' and '--no-cluster' need source, the input is IR");
    return true;
}

static int print_search_dirs(Arena *arena) {
    Buffer text = {0};
    buffer_printf(&text, "runtime: %s\n", find_runtime(arena));
    int status = write_stdout(&text) ? STATUS_DONE : STATUS_WRONG;
    buffer_free(&text);
    return status;
}

static int print_facts(Arena *arena, const Options *options) {
    if (options->show_search_dirs && !options->show_help && !options->show_version)
        return print_search_dirs(arena);
    if (options->show_help)
        options_print_help(stdout);
    else
        puts(COMPILER);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_DONE;
    fail("cannot write standard output");
    return STATUS_WRONG;
}

int driver_run(Arena *arena, Interner *interner, const Options *options) {
    if (options->serve_editor)
        return lsp_run(stdin, stdout);
    if (options->show_help || options->show_version || options->show_search_dirs)
        return print_facts(arena, options);
    Compilation c = {.context = {.arena = arena}, .options = options, .output = output_name(arena, options), .runtime_path = find_runtime(arena)};
    char *error = NULL;
    if (!source_read(arena, options->input, &c.source, &error)) {
        fail(error);
        return STATUS_WRONG;
    }
    c.from_ir = starts_ir(&c.source);
    int status = STATUS_WRONG;
    if (!inputs_fit_options(&c, &status) || !outputs_differ(&c, &status))
        return status;
    c.context = (Context){arena, interner, dim_pool_new(arena), type_pool_new(arena), NULL, &c.source};
    c.context.diag = new_diag(&c, &c.source);
    bool compiled = compile(&c);
    diag_finish(c.context.diag);
    if (compiled && no_errors(&c) && write_outputs(&c))
        status = STATUS_DONE;
    buffer_free(&c.text);
    return status;
}

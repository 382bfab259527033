/* `phobosc fmt`: sources rewritten in the one layout of parse/format.c. */
#include "compiler/codegen/codegen.h"
#include "compiler/driver.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *sentence) {
    fprintf(stderr, "phobosc: error: %s\n", sentence);
    return STATUS_WRONG;
}

/* The tree as text, to compare; false where the source has errors, which are reported. */
static bool print_tree(Arena *arena, Interner *interner, const Source *source, Buffer *tree, Context *context) {
    *context = (Context){
        arena, interner, dim_pool_new(arena), type_pool_new(arena), diag_new(arena, source, stderr, DIAG_TEXT, isatty(STDERR_FILENO)), source};
    diag_set_quiet(context->diag, true);
    Ast *ast = parse_source(context);
    diag_finish(context->diag);
    if (diag_error_count(context->diag))
        return false;
    ast_print(tree, ast);
    return true;
}

bool format_source(Arena *arena, Interner *interner, const Source *source, Buffer *text) {
    Context context;
    Buffer before = {0}, after = {0};
    bool fine = print_tree(arena, interner, source, &before, &context);
    if (fine) {
        source_format(&context, text);
        Source formatted = {.path = source->path, .text = text->length ? text->data : "", .length = text->length};
        bool same = print_tree(arena, interner, &formatted, &after, &context) && before.length == after.length &&
                    (!before.length || memcmp(before.data, after.data, before.length) == 0);
        if (!same) {
            fprintf(stderr, "phobosc: internal error: formatting '%s' would change what it says; it is left as it is\n", source->path);
            fine = false;
        }
    }
    buffer_free(&before);
    buffer_free(&after);
    return fine;
}

static bool is_formatted(const Source *source, const Buffer *text) {
    return source->length == text->length && (!text->length || memcmp(source->text, text->data, text->length) == 0);
}

static int rewrite(Arena *arena, const char *path, const Buffer *text) {
    struct stat status;
    Output output;
    char *error = NULL;
    if (!output_begin(arena, path, "", &output, &error))
        return fail(error);
    if (output_write(arena, &output, text->data, text->length, &error) &&
        (stat(path, &status) != 0 || fchmod(output.fd, status.st_mode & 07777) == 0) && output_commit(arena, &output, &error))
        return STATUS_DONE;
    output_abandon(&output);
    return fail(error ? error : "cannot keep the file's permissions");
}

static int format_file(Arena *arena, Interner *interner, const char *path, bool check) {
    Source source;
    char *error = NULL;
    if (!source_read(arena, path, &source, &error))
        return fail(error);
    Buffer text = {0};
    int status = STATUS_WRONG;
    bool to_stdout = strcmp(path, "-") == 0;
    if (format_source(arena, interner, &source, &text)) {
        status = STATUS_DONE;
        if (to_stdout && !check)
            status = fwrite(text.data ? text.data : "", 1, text.length, stdout) == text.length && fflush(stdout) == 0
                         ? STATUS_DONE
                         : fail("cannot write standard output");
        else if (!is_formatted(&source, &text) && check)
            status = fail(arena_printf(arena, "'%s' is not formatted", source.path));
        else if (!is_formatted(&source, &text))
            status = rewrite(arena, path, &text);
    }
    buffer_free(&text);
    return status;
}

int format_command(Arena *arena, Interner *interner, int argc, char **argv) {
    bool check = false, options = true;
    int files = 0, status = STATUS_DONE;
    for (int i = 0; i < argc; i++) {
        bool option = options && argv[i][0] == '-' && argv[i][1];
        if (option && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (option && strcmp(argv[i], "--check") == 0) {
            check = true;
        } else if (option) {
            fprintf(stderr, "phobosc: error: unknown option '%s'; phobosc fmt [--check] FILE...\n", argv[i]);
            return STATUS_USAGE;
        } else {
            files++;
        }
    }
    if (!files) {
        fprintf(stderr, "phobosc: error: no file; phobosc fmt [--check] FILE..., '-' for standard input and output\n");
        return STATUS_USAGE;
    }
    options = true;
    for (int i = 0; i < argc; i++) {
        if (options && argv[i][0] == '-' && argv[i][1])
            options = strcmp(argv[i], "--") != 0;
        else if (format_file(arena, interner, argv[i], check) != STATUS_DONE)
            status = STATUS_WRONG;
    }
    return status;
}

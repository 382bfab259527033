/* The command line of phobos-tensor. */
#include "runtime/streams.h"
#include "runtime/tensor/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SAME = 0, DIFFERENT = 1, WRONG = 2, MAX_OPERANDS = 64 };

static const char usage[] =
    "usage: phobos-tensor info FILE...\n"
    "       phobos-tensor print FILE [--most=N]\n"
    "       phobos-tensor create FILE:TYPE[SHAPE] [--fill=zeros|ones|iota|uniform|normal|NUMBER] [--seed=N]\n"
    "       phobos-tensor convert FROM TO[:TYPE[SHAPE]]\n"
    "       phobos-tensor compare FILE FILE [--ulp=N] [--abs=X] [--rel=X]\n"
    "       phobos-tensor draw FILE [-o PICTURE.png] [--at=I[,J]]\n\n"
    "A FILE is .npy, or raw with its type behind the name: x.bin:f32[4096,64]. Types are those of the language; x.npy:bf16 reads\n"
    "two bytes an element as bf16. Elements of x.npy:TYPE[SHAPE] are converted and written in another shape by convert.\n"
    "compare ends with 0 where every element is within one of the tolerances (default: the same number; NaN is NaN), with 1 where\n"
    "one is not; draw shows a matrix in the terminal, or writes a picture; of more axes the leading ones are at 0, or --at.\n"
    "Exit status: 0 fine, 1 different or failed, 2 the command line is wrong.\n";

typedef struct Arguments {
    const char *operands[MAX_OPERANDS];
    int count;
    const char *fill, *output;
    uint64_t seed;
    int64_t most, at[PHB_MAX_RANK];
    int at_count;
    Tolerance tolerance;
} Arguments;

static int fail(const Error *error) {
    fprintf(stderr, "phobos-tensor: error: %s\n", error->text);
    return DIFFERENT;
}

/* ---- arguments ---- */

static bool take_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= 0;
}

static bool take_count(const char *text, int64_t *count) {
    char *end;
    errno = 0;
    *count = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *count >= 0;
}

static bool take_place(const char *text, Arguments *arguments) {
    for (arguments->at_count = 0; arguments->at_count < PHB_MAX_RANK; text++) {
        char *end;
        long long index = strtoll(text, &end, 10);
        if (end == text || index < 0)
            return false;
        arguments->at[arguments->at_count++] = index;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end;
    }
    return false;
}

/* The value of --NAME=V, or of --NAME V, where the next argument is taken with it. */
static const char *value_of(const char *name, int argc, char **argv, int *index) {
    size_t length = strlen(name);
    const char *argument = argv[*index];
    if (strncmp(argument, name, length) != 0)
        return NULL;
    if (argument[length] == '=')
        return argument + length + 1;
    return argument[length] == '\0' && *index + 1 < argc ? argv[++*index] : NULL;
}

static bool take_option(int argc, char **argv, int *index, Arguments *arguments) {
    const char *value;
    if ((value = value_of("--fill", argc, argv, index)) != NULL)
        return (arguments->fill = value) != NULL;
    if ((value = value_of("-o", argc, argv, index)) != NULL)
        return (arguments->output = value) != NULL;
    int64_t seed = 0;
    if ((value = value_of("--seed", argc, argv, index)) != NULL) {
        bool fine = take_count(value, &seed);
        arguments->seed = (uint64_t)seed;
        return fine;
    }
    if ((value = value_of("--most", argc, argv, index)) != NULL)
        return take_count(value, &arguments->most);
    if ((value = value_of("--at", argc, argv, index)) != NULL)
        return take_place(value, arguments);
    if ((value = value_of("--ulp", argc, argv, index)) != NULL)
        return take_number(value, &arguments->tolerance.ulp);
    if ((value = value_of("--abs", argc, argv, index)) != NULL)
        return take_number(value, &arguments->tolerance.absolute);
    if ((value = value_of("--rel", argc, argv, index)) != NULL)
        return take_number(value, &arguments->tolerance.relative);
    return false;
}

static bool parse(int argc, char **argv, Arguments *arguments) {
    *arguments = (Arguments){.fill = "zeros", .seed = 1, .most = 64};
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            const char *option = argv[i];
            if (!take_option(argc, argv, &i, arguments)) {
                fprintf(stderr, "phobos-tensor: error: cannot use \"%s\"; --help lists what is known\n", option);
                return false;
            }
        } else if (arguments->count == MAX_OPERANDS) {
            fprintf(stderr, "phobos-tensor: error: more than %d files\n", MAX_OPERANDS);
            return false;
        } else {
            arguments->operands[arguments->count++] = argv[i];
        }
    }
    return true;
}

/* ---- commands ---- */

static int print_info(const Tensor *tensor) {
    char type[160];
    double least = (double)INFINITY, greatest = -(double)INFINITY, sum = 0;
    int64_t numbers = 0, nans = 0, infinities = 0;
    for (int64_t i = 0; i < tensor->count; i++) {
        double value = tensor_real(tensor, i);
        nans += isnan(value);
        infinities += isinf(value) != 0;
        if (!isfinite(value))
            continue;
        numbers++;
        sum += value;
        least = value < least ? value : least;
        greatest = value > greatest ? value : greatest;
    }
    tensor_describe(tensor, type);
    printf("%s: %s", tensor->path, type);
    if (numbers > 0)
        printf(", %.9g to %.9g, mean %.9g", least, greatest, sum / (double)numbers);
    if (nans > 0)
        printf(", %" PRId64 " NaN", nans);
    if (infinities > 0)
        printf(", %" PRId64 " infinite", infinities);
    putchar('\n');
    return SAME;
}

static int info(const Arguments *arguments) {
    int status = SAME;
    for (int i = 0; i < arguments->count; i++) {
        Tensor tensor;
        Error error;
        if (tensor_open(&tensor, arguments->operands[i], &error))
            print_info(&tensor);
        else
            status = fail(&error);
        tensor_close(&tensor);
    }
    return status;
}

static int print_elements(const Arguments *arguments) {
    Tensor tensor;
    Error error;
    if (!tensor_open(&tensor, arguments->operands[0], &error))
        return fail(&error);
    char place[96];
    for (int64_t i = 0; i < tensor.count && i < arguments->most; i++) {
        tensor_place(&tensor, i, place);
        printf("%s %.17g\n", place, tensor_real(&tensor, i));
    }
    if (tensor.count > arguments->most)
        printf("and %" PRId64 " more\n", tensor.count - arguments->most);
    tensor_close(&tensor);
    return SAME;
}

static int create(const Arguments *arguments) {
    Tensor tensor;
    Error error;
    if (!tensor_target(&tensor, arguments->operands[0], NULL, &error))
        return fail(&error);
    void *bytes = tensor_fill(&tensor, arguments->fill, arguments->seed, &error);
    int status = bytes != NULL && tensor_write(&tensor, bytes, &error) ? SAME : fail(&error);
    free(bytes);
    tensor_close(&tensor);
    return status;
}

static int convert(const Arguments *arguments) {
    Tensor from, to;
    Error error;
    if (!tensor_open(&from, arguments->operands[0], &error))
        return fail(&error);
    int status = DIFFERENT;
    if (tensor_target(&to, arguments->operands[1], &from, &error)) {
        void *bytes = tensor_convert(&from, to.dtype, &error);
        status = bytes != NULL && tensor_write(&to, bytes, &error) ? SAME : fail(&error);
        free(bytes);
        tensor_close(&to);
    } else {
        fail(&error);
    }
    tensor_close(&from);
    return status;
}

static void print_pair(const Tensor *left, const Tensor *right, const char *what, int64_t index) {
    char place[96];
    tensor_place(left, index, place);
    printf("%s at %s: %.17g and %.17g\n", what, place, tensor_real(left, index), tensor_real(right, index));
}

static int compare(const Arguments *arguments) {
    Tensor left, right;
    Error error;
    Comparison result;
    if (!tensor_open(&left, arguments->operands[0], &error))
        return fail(&error);
    int status = DIFFERENT;
    if (!tensor_open(&right, arguments->operands[1], &error)) {
        fail(&error);
    } else if (!tensor_compare(&left, &right, &arguments->tolerance, &result, &error)) {
        fail(&error);
    } else {
        printf("%" PRId64 " of %" PRId64 " elements differ; at most %g ulp, %g\n", result.differing, left.count, result.max_ulp, result.max_absolute);
        if (result.first >= 0)
            print_pair(&left, &right, "first", result.first);
        if (result.max_ulp > 0 && result.worst != result.first)
            print_pair(&left, &right, "worst", result.worst);
        status = result.differing == 0 ? SAME : DIFFERENT;
    }
    tensor_close(&right);
    tensor_close(&left);
    return status;
}

static int terminal_columns(void) {
    struct winsize size;
    const char *given = getenv("COLUMNS");
    int columns = given != NULL ? atoi(given) : ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 80;
    return columns >= 8 && columns <= 1000 ? columns : 80;
}

static int draw(const Arguments *arguments) {
    Tensor tensor;
    Error error;
    if (!tensor_open(&tensor, arguments->operands[0], &error))
        return fail(&error);
    int leading = tensor.rank > 2 ? tensor.rank - 2 : 0, status = DIFFERENT;
    bool fine = arguments->at_count <= leading ||
                error_set(&error, "\"%s\" has %d axes before its matrices, --at names %d", tensor.path, leading, arguments->at_count);
    for (int k = 0; fine && k < arguments->at_count; k++)
        fine = arguments->at[k] < tensor.shape[k] ||
               error_set(&error, "--at: axis %d of \"%s\" has %" PRId64 " places", k, tensor.path, tensor.shape[k]);
    if (fine && tensor_draw(&tensor, arguments->at, arguments->output, terminal_columns(), &error))
        status = SAME;
    else
        fail(&error);
    tensor_close(&tensor);
    return status;
}

static const struct {
    const char *name;
    int least, most; /* files */
    int (*run)(const Arguments *arguments);
} commands[] = {
    {"info", 1, MAX_OPERANDS, info},
    {"print", 1, 1, print_elements},
    {"create", 1, 1, create},
    {"convert", 2, 2, convert},
    {"compare", 2, 2, compare},
    {"draw", 1, 1, draw},
};

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    streams_open();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        fputs(usage, stdout);
        return SAME;
    }
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        Arguments arguments;
        if (strcmp(commands[c].name, name) != 0)
            continue;
        if (!parse(argc, argv, &arguments))
            return WRONG;
        if (arguments.count < commands[c].least || arguments.count > commands[c].most) {
            fprintf(stderr, "phobos-tensor: error: %s takes %d file%s, found %d\n", name, commands[c].least, commands[c].most > 1 ? "s" : "",
                arguments.count);
            return WRONG;
        }
        int status = commands[c].run(&arguments);
        return fflush(stdout) == 0 && !ferror(stdout) ? status : DIFFERENT;
    }
    fputs(usage, stderr);
    return WRONG;
}

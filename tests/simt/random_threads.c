/* random_threads SEED COUNT: kernels of thread code, t0 .. , on standard output. Each keeps what no order of threads may change: elements are written
 * by one thread between barriers, atomics commute and their old values are not used, and what the elected lane does depends on no lane. Floats only
 * go through the language's fixed orders. So every order of threads, and the CPU device, have to give the same bits.
 *
 * A kernel reads x and k, and writes y and n, an element each thread, and counts, which all CTAs add to. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 2 };

/* The state of a kernel that is being written. v is f32, w is i32, both differ from thread to thread. */
typedef struct Writer {
    uint64_t random;
    int threads, cluster; /* a power of two of warps; CTAs of a thread-block cluster, 1: there is none */
    int indent, fresh;
} Writer;

static int below(Writer *g, int count) {
    uint64_t z = g->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)count);
}

static void line(Writer *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void line(Writer *g, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%*s", 4 * g->indent, "");
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static const char *choose(Writer *g, const char *const *texts, int count) {
    return texts[below(g, count)];
}

#define CHOOSE(g, ...) choose(g, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* ---- what each thread does for itself ---- */

static const char *number(Writer *g) {
    return CHOOSE(g, "v", "v", "f32(w)", "x[i]", "0.5", "f32(ctx.lane)", "f32(t) * 0.25", "-v", "f32(k[i])");
}

static const char *integer(Writer *g) {
    return CHOOSE(g, "w", "w", "i32(t)", "i32(ctx.lane)", "i32(ctx.warp)", "k[i]", "i32(7)", "i32(v)", "-w");
}

static const char *condition(Writer *g) {
    return CHOOSE(g, "w % 3 == 1", "t % 5 < 2", "ctx.lane > 11", "v > 0.5", "k[i] < 4", "t == 0", "w < i32(t)");
}

/* Shared by a CTA. */
static const char *uniform_condition(Writer *g) {
    return CHOOSE(g, "ctx.block.x % 2 == 0", "ctx.cluster.rank == 0", "N > 100", "block_sum(w & 1) > 20", "k[0] % 2 == 0");
}

static void assign_scalar(Writer *g) {
    switch (below(g, 5)) {
    case 0:
        line(g, "v = %s + %s", number(g), number(g));
        break;
    case 1:
        line(g, "v = %s * 0.75 - %s", number(g), number(g));
        break;
    case 2:
        line(g, "w = (%s %s %s) %% 1000", integer(g), CHOOSE(g, "+", "-", "^", "*"), integer(g));
        break;
    case 3:
        line(g, "v = where(%s, %s, %s)", condition(g), number(g), number(g));
        break;
    default:
        line(g, "w = where(%s, %s, %s)", condition(g), integer(g), integer(g));
        break;
    }
}

static void diverge(Writer *g) {
    bool has_else = below(g, 2);
    if (below(g, 4) == 0) {
        int fresh = g->fresh++;
        line(g, "var rest%d = (w & 7) + %d", fresh, below(g, 3));
        line(g, "while rest%d > 0 {", fresh);
        g->indent++;
        line(g, "rest%d -= 1", fresh);
        assign_scalar(g);
        if (below(g, 2))
            line(g, "if %s { %s }", condition(g), CHOOSE(g, "break", "continue"));
        g->indent--;
        line(g, "}");
        return;
    }
    line(g, "if %s {", condition(g));
    for (int part = 0; part <= has_else; part++) {
        g->indent++;
        assign_scalar(g);
        g->indent--;
        line(g, part < has_else ? "} else {" : "}");
    }
}

/* ---- warps ---- */

static void exchange_in_warp(Writer *g) {
    switch (below(g, 8)) {
    case 0:
        line(g, "v = shuffle(v, %s) + 0.5 * v", CHOOSE(g, "0", "31", "i32(31 - ctx.lane)", "i32(ctx.lane * 5 + 3)", "w"));
        break;
    case 1:
        line(g, "w = shuffle_xor(w, %d)", 1 << below(g, 5));
        break;
    case 2:
        line(g, "v = v - %s(v, %d)", CHOOSE(g, "shuffle_up", "shuffle_down"), below(g, 32));
        break;
    case 3:
        line(g, "w = i32(ballot(%s) %% 1021)", condition(g));
        break;
    case 4:
        line(g, "w = w ^ i32(%s(%s))", CHOOSE(g, "any", "all"), condition(g));
        break;
    case 5:
        line(g, "v = v + %s(%s) * 0.03125", CHOOSE(g, "warp_sum", "warp_max", "warp_min"), number(g));
        break;
    case 6:
        line(g, "w = (w + %s(%s)) %% 1000", CHOOSE(g, "warp_sum", "warp_max", "warp_min"), integer(g));
        break;
    default:
        line(g, "if elect_one_sync() { atomic_add(counts[%d], %d) }", below(g, 8), 1 + below(g, 9));
        break;
    }
}

static void some_warps(Writer *g) {
    line(g, "if %s {", CHOOSE(g, "ctx.warp == 0", "ctx.warp % 2 == 1", "any(w > 500)", "warp_sum(w & 1) > 10"));
    g->indent++;
    exchange_in_warp(g);
    assign_scalar(g);
    g->indent--;
    line(g, "}");
}

/* ---- CTAs: all between one barrier and the next ---- */

/* A permutation of the threads: an odd factor, and a turn. */
static void permutation(Writer *g, char text[64]) {
    snprintf(text, 64, "(t * %d + %d) %% %d", 2 * below(g, 8) + 1, below(g, g->threads), g->threads);
}

static void exchange_in_cta(Writer *g) {
    char to[64], from[64];
    bool is_float = below(g, 2);
    const char *shared = is_float ? "s" : "m", *value = is_float ? "v" : "w";
    permutation(g, to);
    permutation(g, from);
    line(g, "%s[%s] = %s", shared, to, value);
    line(g, "barrier()");
    if (is_float)
        line(g, "v = v * 0.5 + s[%s]", from);
    else
        line(g, "w = (w + m[%s]) %% 1000", from);
    if (below(g, 3) == 0) /* what is read is not written: no barrier between */
        line(g, "v = v + f32(%s[%d]) * 0.125", shared, below(g, g->threads));
    line(g, "barrier()");
}

static void count(Writer *g) {
    const char *op = CHOOSE(g, "atomic_add", "atomic_max", "atomic_min");
    line(g, "if t < 8 { h[t] = i32(t) * %d }", below(g, 50));
    line(g, "barrier()");
    line(g, "if %s { %s(h[(w & 7)], %s) }", condition(g), op, integer(g));
    if (below(g, 2))
        line(g, "%s(h[t %% 8], %s)", op, integer(g));
    line(g, "barrier()");
    line(g, "w = (w + h[%s]) %% 1000", CHOOSE(g, "t % 8", "0", "(w & 7)"));
    line(g, "barrier()");
}

static void combine_cta(Writer *g) {
    if (below(g, 2))
        line(g, "v = v * 0.5 + %s(%s) * 0.0078125", CHOOSE(g, "block_sum", "block_max", "block_min"), number(g));
    else
        line(g, "w = (w ^ %s(%s)) %% 1000", CHOOSE(g, "block_sum", "block_max", "block_min"), integer(g));
}

/* Tile code on what the threads have written. */
static void use_tile(Writer *g) {
    line(g, "s[t] = v");
    line(g, "s[:] = %s", CHOOSE(g, "s[:] * 0.5 + 1.0", "max(s[:], 0.25)", "s[:] - sum(s[:]) * 0.0078125"));
    line(g, "v = v + s[%d - t]", g->threads - 1);
    line(g, "barrier()");
}

/* ---- clusters ---- */

static void exchange_in_cluster(Writer *g) {
    char from[64];
    permutation(g, from);
    line(g, "s[t] = v");
    if (below(g, 2)) {
        line(g, "cluster_arrive()");
        assign_scalar(g);
        line(g, "cluster_wait()");
    } else {
        line(g, "cluster_sync()");
    }
    line(g, "v = v * 0.5 + remote(s, (ctx.cluster.rank + %d) %% %d)[%s]", below(g, g->cluster), g->cluster, from);
    line(g, "cluster_sync()");
}

static void count_in_cluster(Writer *g) {
    line(g, "if t < 8 { h[t] = 0 }");
    line(g, "cluster_sync()");
    line(g, "atomic_add(remote(h, (w & 1) %% %d)[(k[i] & 7)], %s)", g->cluster, integer(g));
    line(g, "cluster_sync()");
    line(g, "w = (w + h[t %% 8]) %% 1000");
    line(g, "barrier()");
}

/* ---- the kernel ---- */

static void statement(Writer *g, int depth, bool in_branch);

/* Under control that the CTA shares a cluster does not meet. */
static void nested(Writer *g, int depth, bool in_branch) {
    int fresh = g->fresh++;
    bool is_loop = below(g, 2);
    if (is_loop)
        line(g, "for r%d in range(%d) {", fresh, 1 + below(g, 3));
    else
        line(g, "if %s {", uniform_condition(g));
    g->indent++;
    for (int i = 1 + below(g, 3); i > 0; i--)
        statement(g, depth - 1, in_branch || !is_loop);
    g->indent--;
    line(g, "}");
}

static void statement(Writer *g, int depth, bool in_branch) {
    int kind = below(g, depth > 0 ? 20 : 17);
    if (kind < 3)
        assign_scalar(g);
    else if (kind < 5)
        diverge(g);
    else if (kind < 8)
        exchange_in_warp(g);
    else if (kind < 9)
        some_warps(g);
    else if (kind < 12)
        exchange_in_cta(g);
    else if (kind < 13)
        count(g);
    else if (kind < 14)
        combine_cta(g);
    else if (kind < 15)
        use_tile(g);
    else if (kind < 17 && g->cluster > 1 && !in_branch)
        below(g, 3) ? exchange_in_cluster(g) : count_in_cluster(g);
    else if (kind < 17)
        line(g, "if %s { atomic_add(counts[(w & 7)], %s) }", condition(g), integer(g));
    else
        nested(g, depth, in_branch);
}

static void write_kernel(uint64_t seed, int number) {
    Writer g = {.random = seed * 1000003 + (uint64_t)number, .indent = 1};
    g.threads = 32 << below(&g, 3);
    g.cluster = below(&g, 3) ? 1 : 2 << below(&g, 2);
    if (g.cluster > 1)
        printf("@cluster_dims(%d)\n", g.cluster);
    printf("@launch(%d)\n@grid(%d)\n", g.threads, g.cluster * (1 + below(&g, 2)) + (g.cluster > 1 ? 0 : 1));
    printf("kernel t%d(x: tensor<f32>[N], k: tensor<i32>[N], y: tensor<f32>[N], n: tensor<i32>[N], counts: tensor<i32>[8]) {\n", number);
    line(&g, "var s: shared<f32>[%d]", g.threads);
    line(&g, "var m: shared<i32>[%d]", g.threads);
    line(&g, "var h: shared<i32>[8]");
    line(&g, "let t = ctx.thread.x");
    line(&g, "let i = ctx.block.x * %d + t", g.threads);
    line(&g, "var v = x[i]");
    line(&g, "var w = k[i]");
    for (int count = 4 + below(&g, 8); count > 0; count--)
        statement(&g, DEPTH, false);
    line(&g, "y[i] = v");
    line(&g, "n[i] = w");
    line(&g, "atomic_add(counts[(w & 7)], 1)");
    printf("}\n\n");
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s SEED COUNT\n", argv[0]);
        return 2;
    }
    uint64_t seed = strtoull(argv[1], NULL, 0);
    for (int number = 0; number < atoi(argv[2]); number++)
        write_kernel(seed, number);
}

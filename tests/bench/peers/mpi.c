/* The peers in MPI: a product by SUMMA with OpenBLAS, whose panels travel while the ones before are multiplied, a sum, and Jacobi's method. Files are
 * raw f32 in row-major order, read and written by MPI-IO.
 *
 *   mpirun -n RANKS mpi product N A B C
 *   mpirun -n RANKS mpi add LENGTH A B C
 *   mpirun -n RANKS mpi jacobi N TIMES U W           N x N, TIMES times, what is beyond the edge is 0
 *   mpi compare LENGTH FIRST SECOND                  the largest difference over the largest number; fails above 1e-4 */
#include <cblas.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 512 };

static int rank, ranks;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "mpi: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static float *new_floats(size_t count) {
    float *floats = aligned_alloc(64, (count * sizeof *floats + 63) / 64 * 64);
    if (!floats)
        fail("out of memory");
    return floats;
}

static int first_of(int n, int parts, int part) {
    return (int)((long)n * part / parts);
}

/* A box of a rows x columns matrix, as all ranks take or give theirs together. */
static void move_box(const char *path, int write, int rows, int columns, const int from[2], const int size[2], float *floats) {
    MPI_File file;
    MPI_Datatype box;
    int whole[2] = {rows, columns};
    MPI_Type_create_subarray(2, whole, size, from, MPI_ORDER_C, MPI_FLOAT, &box);
    MPI_Type_commit(&box);
    if (MPI_File_open(MPI_COMM_WORLD, path, write ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        fail(path);
    MPI_File_set_view(file, 0, MPI_FLOAT, box, "native", MPI_INFO_NULL);
    int count = size[0] * size[1], moved = -1;
    MPI_Status status;
    if (write)
        MPI_File_write_all(file, floats, count, MPI_FLOAT, &status);
    else
        MPI_File_read_all(file, floats, count, MPI_FLOAT, &status);
    MPI_Get_count(&status, MPI_FLOAT, &moved);
    if (moved != count || (write && MPI_File_sync(file) != MPI_SUCCESS))
        fail(path);
    MPI_File_close(&file);
    MPI_Type_free(&box);
}

/* ---- C = A B on a grid of ranks ---- */

typedef struct Grid {
    int size[2], at[2];
    MPI_Comm row, column; /* the ranks of this one's */
} Grid;

/* Panels end where a block of any rank ends. */
static int panel_end(int n, const Grid *grid, int k) {
    int end = k + PANEL < n ? k + PANEL : n;
    for (int axis = 0; axis < 2; axis++)
        for (int part = 1; part <= grid->size[axis]; part++) {
            int edge = first_of(n, grid->size[axis], part);
            end = edge > k && edge < end ? edge : end;
        }
    return end;
}

static int owner_of(int n, int parts, int k) {
    int part = 0;
    while (first_of(n, parts, part + 1) <= k)
        part++;
    return part;
}

typedef struct Panel {
    int begin, end;
    float *a, *b;
    MPI_Request requests[2];
} Panel;

static void send_panel(Panel *panel, int n, const Grid *grid, const float *a, const float *b, const int rows[2], const int columns[2]) {
    int width = panel->end - panel->begin;
    int a_root = owner_of(n, grid->size[1], panel->begin), b_root = owner_of(n, grid->size[0], panel->begin);
    int height = rows[1] - rows[0], breadth = columns[1] - columns[0];
    if (grid->at[1] == a_root)
        for (int i = 0; i < height; i++)
            memcpy(panel->a + (size_t)i * (size_t)width, a + (size_t)i * (size_t)breadth + (panel->begin - columns[0]), (size_t)width * sizeof *a);
    if (grid->at[0] == b_root)
        memcpy(panel->b, b + (size_t)(panel->begin - rows[0]) * (size_t)breadth, (size_t)width * (size_t)breadth * sizeof *b);
    MPI_Ibcast(panel->a, height * width, MPI_FLOAT, a_root, grid->row, &panel->requests[0]);
    MPI_Ibcast(panel->b, width * breadth, MPI_FLOAT, b_root, grid->column, &panel->requests[1]);
}

static void product(int n, char **paths) {
    Grid grid = {.size = {0, 0}};
    MPI_Dims_create(ranks, 2, grid.size);
    grid.at[0] = rank / grid.size[1];
    grid.at[1] = rank % grid.size[1];
    MPI_Comm_split(MPI_COMM_WORLD, grid.at[0], grid.at[1], &grid.row);
    MPI_Comm_split(MPI_COMM_WORLD, grid.at[1], grid.at[0], &grid.column);
    int rows[2] = {first_of(n, grid.size[0], grid.at[0]), first_of(n, grid.size[0], grid.at[0] + 1)};
    int columns[2] = {first_of(n, grid.size[1], grid.at[1]), first_of(n, grid.size[1], grid.at[1] + 1)};
    int from[2] = {rows[0], columns[0]}, size[2] = {rows[1] - rows[0], columns[1] - columns[0]};
    size_t block = (size_t)size[0] * (size_t)size[1];
    float *a = new_floats(block), *b = new_floats(block), *c = new_floats(block);
    move_box(paths[0], 0, n, n, from, size, a);
    move_box(paths[1], 0, n, n, from, size, b);
    memset(c, 0, block * sizeof *c);
    Panel panels[2];
    for (int p = 0; p < 2; p++)
        panels[p] = (Panel){.a = new_floats((size_t)size[0] * PANEL), .b = new_floats((size_t)size[1] * PANEL)};
    panels[0].end = panel_end(n, &grid, 0);
    send_panel(&panels[0], n, &grid, a, b, rows, columns);
    for (int p = 0, begin = 0; begin < n; p = 1 - p) {
        Panel *here = &panels[p], *next = &panels[1 - p];
        MPI_Waitall(2, here->requests, MPI_STATUSES_IGNORE);
        begin = here->end;
        if (begin < n) {
            next->begin = begin;
            next->end = panel_end(n, &grid, begin);
            send_panel(next, n, &grid, a, b, rows, columns);
        }
        int width = here->end - here->begin;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size[0], size[1], width, 1, here->a, width, here->b, size[1], 1, c, size[1]);
    }
    move_box(paths[2], 1, n, n, from, size, c);
}

/* ---- the others, by rows ---- */

static void add(int length, char **paths) {
    int from[2] = {0, first_of(length, ranks, rank)}, size[2] = {1, first_of(length, ranks, rank + 1) - from[1]};
    float *a = new_floats((size_t)size[1]), *b = new_floats((size_t)size[1]);
    move_box(paths[0], 0, 1, length, from, size, a);
    move_box(paths[1], 0, 1, length, from, size, b);
    for (int i = 0; i < size[1]; i++)
        a[i] += b[i];
    move_box(paths[2], 1, 1, length, from, size, a);
}

static void relax(const float *u, float *w, int n, int row) {
    const float *above = u + (size_t)(row - 1) * (size_t)n, *here = above + n, *below = here + n;
    float *to = w + (size_t)row * (size_t)n;
    to[0] = 0.25f * (above[0] + below[0] + (n > 1 ? here[1] : 0));
    for (int x = 1; x < n - 1; x++)
        to[x] = 0.25f * (above[x] + below[x] + here[x - 1] + here[x + 1]);
    if (n > 1)
        to[n - 1] = 0.25f * (above[n - 1] + below[n - 1] + here[n - 2]);
}

static void jacobi(int n, int times, char **paths) {
    int from[2] = {first_of(n, ranks, rank), 0}, size[2] = {first_of(n, ranks, rank + 1) - from[0], n};
    size_t bytes = (size_t)(size[0] + 2) * (size_t)n * sizeof(float);
    float *u = new_floats(bytes / sizeof(float)), *w = new_floats(bytes / sizeof(float));
    memset(u, 0, bytes); /* a row above and one below */
    memset(w, 0, bytes);
    move_box(paths[0], 0, n, n, from, size, u + n);
    int before = rank > 0 ? rank - 1 : MPI_PROC_NULL, after = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    for (int t = 0; t < times; t++) {
        MPI_Request requests[4];
        float *last = u + (size_t)size[0] * (size_t)n;
        MPI_Irecv(u, n, MPI_FLOAT, before, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(last + n, n, MPI_FLOAT, after, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(u + n, n, MPI_FLOAT, before, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(last, n, MPI_FLOAT, after, 0, MPI_COMM_WORLD, &requests[3]);
        for (int row = 2; row < size[0]; row++) /* those that need no other rank's */
            relax(u, w, n, row);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        relax(u, w, n, 1);
        if (size[0] > 1)
            relax(u, w, n, size[0]);
        float *swap = u;
        u = w;
        w = swap;
    }
    move_box(paths[1], 1, n, n, from, size, u + n);
}

static int compare(long length, char **paths) {
    FILE *files[2] = {fopen(paths[0], "rb"), fopen(paths[1], "rb")};
    float numbers[2];
    double difference = 0, largest = 0;
    for (long i = 0; i < length; i++) {
        for (int f = 0; f < 2; f++)
            if (!files[f] || fread(&numbers[f], sizeof numbers[f], 1, files[f]) != 1) {
                fprintf(stderr, "mpi: %s is too short\n", paths[f]);
                return 1;
            }
        difference = fmax(difference, fabs((double)numbers[0] - (double)numbers[1]));
        largest = fmax(largest, fabs((double)numbers[0]));
    }
    printf("    results differ by %.1e of the largest\n", largest > 0 ? difference / largest : difference);
    return !(difference <= 1e-4 * largest);
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(what, "compare") == 0 && argc == 5)
        return compare(n, argv + 3);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(what, "product") == 0 && argc == 6)
        product(n, argv + 3);
    else if (strcmp(what, "add") == 0 && argc == 6)
        add(n, argv + 3);
    else if (strcmp(what, "jacobi") == 0 && argc == 6)
        jacobi(n, atoi(argv[3]), argv + 4);
    else
        fail("see mpi.c");
    MPI_Finalize();
    return 0;
}

/* Matrices as pictures: a pixel an element, or the mean of a block where there are too many; colours from the least to the greatest number, magenta
 * for what is none. */
#include "runtime/tensor/tensor.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SIDE = 1024, MIN_SIDE = 256 };

typedef struct Colour {
    unsigned char red, green, blue;
} Colour;

typedef struct Picture {
    int width, height;
    double *values; /* NaN: no number */
    double least, greatest;
} Picture;

/* The colour map viridis at ninths; van der Walt and Smith, 2015. */
static Colour colour_of(const Picture *picture, double value) {
    static const Colour map[] = {{68, 1, 84}, {72, 40, 120}, {62, 74, 137}, {49, 104, 142}, {38, 130, 142}, {31, 158, 137}, {53, 183, 121},
        {110, 206, 88}, {181, 222, 43}, {253, 231, 37}};
    enum { LAST = sizeof map / sizeof *map - 1 };
    if (isnan(value))
        return (Colour){255, 0, 255};
    double span = picture->greatest - picture->least, at = span > 0 ? (value - picture->least) / span * LAST : 0;
    at = at < 0 ? 0 : at > LAST ? LAST : at;
    int index = at >= LAST ? LAST - 1 : (int)at;
    double part = at - index;
    const Colour *a = &map[index], *b = &map[index + 1];
    return (Colour){(unsigned char)lround(a->red + part * (b->red - a->red)), (unsigned char)lround(a->green + part * (b->green - a->green)),
        (unsigned char)lround(a->blue + part * (b->blue - a->blue))};
}

/* Rows and columns `first` to `end` of the matrix. */
static double mean(const Tensor *tensor, int64_t base, int64_t columns, const int64_t rows[2], const int64_t cols[2]) {
    double sum = 0;
    for (int64_t r = rows[0]; r < rows[1]; r++)
        for (int64_t c = cols[0]; c < cols[1]; c++)
            sum += tensor_real(tensor, base + r * columns + c);
    return sum / (double)((rows[1] - rows[0]) * (cols[1] - cols[0]));
}

static bool make_picture(const Tensor *tensor, const int64_t *at, int max_width, int max_height, Picture *picture, Error *error) {
    int64_t rows = tensor->rank >= 2 ? tensor->shape[tensor->rank - 2] : 1, columns = tensor->shape[tensor->rank - 1], base = 0;
    for (int k = 0; k + 2 < tensor->rank; k++)
        base = base * tensor->shape[k] + at[k];
    base *= rows * columns;
    picture->width = (int)(columns < max_width ? columns : max_width);
    picture->height = (int)(rows < max_height ? rows : max_height);
    picture->values = malloc((size_t)picture->width * (size_t)picture->height * sizeof *picture->values);
    if (picture->values == NULL)
        return error_set(error, "there is no memory for the picture");
    picture->least = (double)INFINITY;
    picture->greatest = -(double)INFINITY;
    for (int y = 0; y < picture->height; y++)
        for (int x = 0; x < picture->width; x++) {
            int64_t r[2] = {y * rows / picture->height, (y + 1) * rows / picture->height},
                    c[2] = {x * columns / picture->width, (x + 1) * columns / picture->width};
            double value = mean(tensor, base, columns, r, c);
            picture->values[y * picture->width + x] = isinf(value) ? (double)NAN : value;
            if (isfinite(value)) {
                picture->least = value < picture->least ? value : picture->least;
                picture->greatest = value > picture->greatest ? value : picture->greatest;
            }
        }
    return true;
}

/* ---- PNG ---- */

static bool write_png(const Picture *picture, const char *path, Error *error) {
    int side = picture->width > picture->height ? picture->width : picture->height, scale = side < MIN_SIDE ? MIN_SIDE / side : 1;
    png_image image = {.version = PNG_IMAGE_VERSION,
        .width = (png_uint_32)(picture->width * scale),
        .height = (png_uint_32)(picture->height * scale),
        .format = PNG_FORMAT_RGB};
    Colour *pixels = malloc((size_t)image.width * image.height * sizeof *pixels);
    if (pixels == NULL)
        return error_set(error, "there is no memory for the picture");
    for (png_uint_32 y = 0; y < image.height; y++)
        for (png_uint_32 x = 0; x < image.width; x++)
            pixels[y * image.width + x] = colour_of(picture, picture->values[(int)y / scale * picture->width + (int)x / scale]);
    bool written = png_image_write_to_file(&image, path, 0, pixels, 0, NULL) != 0;
    if (!written) {
        error_set(error, "cannot write \"%s\": %s", path, image.message);
        unlink(path);
    }
    png_image_free(&image);
    free(pixels);
    return written;
}

/* ---- the terminal: two rows a line, as the upper and lower halves of a character ---- */

static void print_picture(const Picture *picture) {
    for (int y = 0; y < picture->height; y += 2) {
        for (int x = 0; x < picture->width; x++) {
            Colour upper = colour_of(picture, picture->values[y * picture->width + x]);
            printf("\033[38;2;%d;%d;%dm", upper.red, upper.green, upper.blue);
            if (y + 1 < picture->height) {
                Colour lower = colour_of(picture, picture->values[(y + 1) * picture->width + x]);
                printf("\033[48;2;%d;%d;%dm", lower.red, lower.green, lower.blue);
            }
            printf("\u2580");
        }
        printf("\033[0m\n");
    }
    if (picture->least <= picture->greatest)
        printf("%g to %g\n", picture->least, picture->greatest);
    else
        printf("no numbers\n");
}

bool tensor_draw(const Tensor *tensor, const int64_t *at, const char *path, int columns, Error *error) {
    Picture picture = {0};
    bool fine = make_picture(tensor, at, path != NULL ? MAX_SIDE : columns, path != NULL ? MAX_SIDE : columns, &picture, error);
    if (fine && path != NULL)
        fine = write_png(&picture, path, error);
    else if (fine)
        print_picture(&picture);
    free(picture.values);
    return fine;
}

/* Runs a job of the kernels inside a C program. */
#include "kernels.h"

#include <stdio.h>

int main(int argc, char **argv) {
    const char *const options[] = {"--pods=2", NULL};
    PhbResult result = phb_run_file(&kernels_program, argc > 1 ? argv[1] : "job.json", &(PhbRun){.options = options});
    int status = result.status;
    fputs(result.text, status == PHB_DONE ? stdout : stderr);
    phb_result_free(&result);
    return status;
}

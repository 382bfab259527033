/* The entry of an executable that phobosc makes; a member of its own in libphobosrt.a, so that a program with its own main links without it. */
#include "runtime/program.h"

extern const PhbProgram phb_program;

int main(int argc, char **argv) {
    return phb_main(&phb_program, argc, argv);
}

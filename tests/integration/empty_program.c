/* A program without kernels, to link with libphobosrt.a where phobosc is not at hand. */
#include "runtime/program.h"

extern const PhbProgram phb_program;
const PhbProgram phb_program = {.abi_version = PHB_ABI_VERSION, .file = "empty.phb", .compiler = "none"};

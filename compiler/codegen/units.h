/* Modules that several threads translate. */
#ifndef PHOBOS_CODEGEN_UNITS_H
#define PHOBOS_CODEGEN_UNITS_H

#include "compiler/codegen/emit.h"

/* One LLVM module in a context of its own. */
typedef struct Unit {
    Emitter emitter;              /* gone, */
    LLVMTargetMachineRef machine; /* and this with it, when it is translated */
    const char *file;             /* the source, for messages */
    int optimise;
    CodegenOutput form;
    Buffer output; /* its owner's, from units_end on */
    struct Unit *next;
} Unit;

/* What is the compiler's own fault: says so and aborts. */
_Noreturn void unit_fail(const char *file, const char *pass, const char *message);
/* Appends the module, which is optimised, to the unit's output. */
void unit_write(Unit *unit, LLVMCodeGenFileType type);

/* Optimises the module and appends to `output`. Runs in any thread: must not touch the emitter's context. */
typedef void UnitTranslate(Unit *unit);

typedef struct Units Units;

/* `jobs` threads at most, the caller's among them. */
Units *units_begin(Arena *arena, int jobs, UnitTranslate *translate);
/* The unit is emitted. It may be translated before this returns: so many wait at once that memory is bounded. */
void units_add(Units *units, Unit *unit);
void units_end(Units *units); /* all are translated */

#endif

/* Words of other languages, from foreign.def: what diagnostics propose in their place. */
#include "compiler/base/base.h"

#include <string.h>

static const struct {
    ForeignKind kind;
    const char *theirs, *ours;
} foreign[] = {
#define FOREIGN(kind, theirs, ours) {FOREIGN_##kind, theirs, ours},
#include "compiler/base/foreign.def"
#undef FOREIGN
};

const char *foreign_find(ForeignKind kind, const char *theirs) {
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].kind == kind && strcmp(foreign[i].theirs, theirs) == 0)
            return foreign[i].ours;
    return NULL;
}

/* Line tables for -g: each function is a subprogram of the kernel's name, each instruction has the place of the op that it was made of. Functions
 * that kernels share have none; what is inlined of them gets the place of its call. */
#include "compiler/codegen/emit.h"

#include <llvm-c/DebugInfo.h>

#include <string.h>

enum { DWARF_VERSION = 4, EMISSION_DIRECTIVES = 3 /* DebugDirectivesOnly, which the C interface has no name for */ };

static void set_flag(Emitter *e, const char *name, unsigned value) {
    LLVMMetadataRef number = LLVMValueAsMetadata(LLVMConstInt(e->i32, value, false));
    LLVMAddModuleFlag(e->module, LLVMModuleFlagBehaviorWarning, name, strlen(name), number);
}

void debug_begin(Emitter *e, const DebugSource *source) {
    if (!source)
        return;
    LLVMDWARFEmissionKind kind = source->only_lines ? (LLVMDWARFEmissionKind)EMISSION_DIRECTIVES : LLVMDWARFEmissionFull;
    set_flag(e, "Debug Info Version", LLVMDebugMetadataVersion());
    set_flag(e, "Dwarf Version", DWARF_VERSION);
    e->debug = LLVMCreateDIBuilder(e->module);
    e->debug_file = LLVMDIBuilderCreateFile(e->debug, source->path, strlen(source->path), source->folder, strlen(source->folder));
    LLVMDIBuilderCreateCompileUnit(e->debug, LLVMDWARFSourceLanguageC99, e->debug_file, source->producer, strlen(source->producer),
        source->is_optimised, "", 0, 0, "", 0, kind, 0, false, false, "", 0, "", 0);
    e->debug_optimised = source->is_optimised;
    e->debug_type = LLVMDIBuilderCreateSubroutineType(e->debug, e->debug_file, NULL, 0, LLVMDIFlagZero);
}

void debug_end(Emitter *e) {
    if (e->debug)
        LLVMDIBuilderFinalize(e->debug);
}

void debug_function(Emitter *e, LLVMValueRef function, const Signature *signature) {
    if (!e->debug)
        return;
    e->debug_scope = LLVMDIBuilderCreateFunction(e->debug, e->debug_file, signature->name, strlen(signature->name), "", 0, e->debug_file,
        signature->span.line, e->debug_type, true, true, signature->span.line, LLVMDIFlagZero, e->debug_optimised);
    LLVMSetSubprogram(function, e->debug_scope);
    emit_at(e, signature->span);
}

void emit_at(Emitter *e, Span span) {
    if (e->debug && span.line)
        LLVMSetCurrentDebugLocation2(e->builder, LLVMDIBuilderCreateDebugLocation(e->llvm, span.line, span.column, e->debug_scope, NULL));
}

LLVMMetadataRef emit_place(const Emitter *e) {
    return e->debug ? LLVMGetCurrentDebugLocation2(e->builder) : NULL;
}

void emit_at_place(Emitter *e, LLVMMetadataRef place) {
    if (e->debug)
        LLVMSetCurrentDebugLocation2(e->builder, place);
}

/* The kernels and fns of a file by their names, in constant time: a generated file may hold a million. */
#include "compiler/sema/check.h"

struct DeclTable {
    const Ast *ast;
    int *slots; /* by name, open addressing, at most half full: 1 + the number of a declaration; 0: free */
    uint32_t mask;
};

static int *find_slot(const DeclTable *table, const char *name) {
    uint32_t at = (uint32_t)(((uintptr_t)name >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & table->mask;
    while (table->slots[at] && table->ast->decls.items[table->slots[at] - 1]->name != name)
        at = (at + 1) & table->mask;
    return &table->slots[at];
}

const DeclTable *decl_table_new(Arena *arena, const Ast *ast) {
    DeclTable *table = NEW(arena, DeclTable);
    uint32_t capacity = 16;
    while (capacity < 2 * (uint32_t)ast->decls.count)
        capacity *= 2;
    *table = (DeclTable){ast, NEW_ARRAY(arena, int, (int)capacity), capacity - 1};
    for (int i = 0; i < ast->decls.count; i++) {
        int *slot = find_slot(table, ast->decls.items[i]->name);
        if (!*slot)
            *slot = i + 1;
    }
    return table;
}

int find_decl(const DeclTable *table, const char *interned_name) {
    return *find_slot(table, interned_name) - 1;
}

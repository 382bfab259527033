/* Names and what they stand for. Scopes nest: parameters and dims of a kernel, then its body. */
#include "compiler/sema/check.h"

void scope_push(Checker *checker) {
    Scope *scope = NEW(checker->context->arena, Scope);
    scope->outer = checker->scope;
    checker->scope = scope;
}

void scope_pop(Checker *checker) {
    Scope *scope = checker->scope;
    checker->scope = scope->outer;
    if (diag_error_count(checker->context->diag) > 0)
        return;
    for (int i = 0; i < scope->symbols.count && !checker->is_repeated; i++) {
        const Symbol *symbol = scope->symbols.items[i];
        if (symbol->used)
            continue;
        if (symbol->kind == SYMBOL_PARAM || symbol->is_fn_param)
            diag_warning(checker->context->diag, WARN_UNUSED, symbol->span, "parameter '%s' is never used", symbol->name);
        else if (symbol->kind == SYMBOL_LET || symbol->kind == SYMBOL_VAR)
            diag_warning(checker->context->diag, WARN_UNUSED, symbol->span, "variable '%s' is never read", symbol->name);
    }
}

/* The slot of a name: its newest symbol, or NULL. Names are interned, so that the pointer is the key. */
static Symbol **find_slot(Symbol **slots, int capacity, const char *name) {
    uint32_t mask = (uint32_t)capacity - 1;
    uint32_t at = (uint32_t)(((uintptr_t)name >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
    while (slots[at] && slots[at]->name != name)
        at = (at + 1) & mask;
    return &slots[at];
}

static Symbol *find_in(const Scope *scope, const char *name) {
    return scope->capacity > 0 ? *find_slot(scope->slots, scope->capacity, name) : NULL;
}

static void add_symbol(Checker *checker, Symbol *symbol) {
    Arena *arena = checker->context->arena;
    Scope *scope = checker->scope;
    vec_push(arena, &scope->symbols, symbol);
    if (2 * scope->symbols.count > scope->capacity) {
        scope->capacity = scope->capacity ? 2 * scope->capacity : 16;
        scope->slots = NEW_ARRAY(arena, Symbol *, scope->capacity);
        for (int i = 0; i < scope->symbols.count; i++)
            *find_slot(scope->slots, scope->capacity, scope->symbols.items[i]->name) = scope->symbols.items[i];
    }
    *find_slot(scope->slots, scope->capacity, symbol->name) = symbol;
}

Symbol *scope_find(const Checker *checker, const char *interned_name) {
    for (const Scope *scope = checker->scope; scope; scope = scope->outer) {
        Symbol *symbol = find_in(scope, interned_name);
        if (!symbol)
            continue;
        if (!symbol->alias_of)
            return symbol;
        symbol->used = true;
        return symbol->alias_of;
    }
    return NULL;
}

static const char *kind_text(const Symbol *symbol) {
    switch (symbol->kind) {
    case SYMBOL_PARAM:
        return "parameter";
    case SYMBOL_DIM:
        return "symbolic dim";
    case SYMBOL_SEARCH_DIM:
        return "search dim";
    case SYMBOL_LOOP:
        return "loop variable";
    case SYMBOL_LET:
    case SYMBOL_VAR:
        break;
    }
    return symbol->is_fn_param ? "parameter" : "variable";
}

void warn_shadowing(Checker *checker, const char *kind, const char *name, Span span) {
    Diag *diag = checker->context->diag;
    const Symbol *outer = scope_find(checker, name);
    PhbDType dtype;
    if (checker->is_repeated)
        return;
    if (outer) {
        diag_warning(diag, WARN_SHADOW, span, "%s '%s' shadows a %s", kind, name, kind_text(outer));
        diag_note(diag, outer->span, "the %s is declared here", kind_text(outer));
    } else if (dtype_find(name, &dtype)) {
        diag_warning(diag, WARN_SHADOW, span, "%s '%s' shadows a type", kind, name);
    } else if (builtin_is_known(name)) {
        diag_warning(diag, WARN_SHADOW, span, "%s '%s' shadows a builtin", kind, name);
    } else if (attribute_is_known(name)) {
        diag_warning(diag, WARN_SHADOW, span, "%s '%s' has the name of an attribute", kind, name);
    }
}

static Symbol *new_symbol(Checker *checker, SymbolKind kind, const char *name, Span span, const Type *type) {
    Symbol *symbol = NEW(checker->context->arena, Symbol);
    symbol->kind = kind;
    symbol->name = name;
    symbol->span = span;
    symbol->type = type;
    return symbol;
}

static void declare(Checker *checker, Symbol *symbol) {
    const Symbol *previous = find_in(checker->scope, symbol->name);
    if (previous && !type_is_poison(previous->type)) {
        diag_error(checker->context->diag, symbol->span, "'%s' is declared already", symbol->name);
        diag_note(checker->context->diag, previous->span, "the %s is declared here", kind_text(previous));
    } else if (!previous) {
        warn_shadowing(checker, kind_text(symbol), symbol->name, symbol->span);
    }
    add_symbol(checker, symbol);
}

Symbol *scope_declare(Checker *checker, SymbolKind kind, const char *interned_name, Span span, const Type *type) {
    Symbol *symbol = new_symbol(checker, kind, interned_name, span, type);
    declare(checker, symbol);
    return symbol;
}

Symbol *scope_declare_dim(Checker *checker, SymbolKind kind, const char *interned_name, Span span, const Dim *dim) {
    Symbol *symbol = new_symbol(checker, kind, interned_name, span, type_scalar(checker->context->types, PHB_I64));
    symbol->dim = dim;
    declare(checker, symbol);
    return symbol;
}

Symbol *scope_declare_param(Checker *checker, const char *interned_name, Span span, const Type *type) {
    Symbol *symbol = new_symbol(checker, SYMBOL_LET, interned_name, span, type);
    symbol->is_fn_param = true;
    declare(checker, symbol);
    return symbol;
}

void scope_declare_alias(Checker *checker, const char *interned_name, Span span, Symbol *of) {
    Symbol *symbol = scope_declare_param(checker, interned_name, span, of->type);
    symbol->alias_of = of;
}

void scope_poison(Checker *checker, const char *interned_name) {
    Symbol *symbol = new_symbol(checker, SYMBOL_LET, interned_name, (Span){0}, type_poison(checker->context->types));
    add_symbol(checker, symbol);
}

void scope_names(Checker *checker, Names *names) {
    for (const Scope *scope = checker->scope; scope; scope = scope->outer)
        for (int i = 0; i < scope->symbols.count; i++)
            if (!type_is_poison(scope->symbols.items[i]->type))
                vec_push(checker->context->arena, names, scope->symbols.items[i]->name);
}

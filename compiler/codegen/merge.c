/* Several relocatable objects as one: their sections stand one after another, each as it was; symbols are counted anew, and with them what
 * relocations say. Requires what LLVM writes for x86-64: relocations with addends, no groups, fewer than 2^16 sections. */
#include "compiler/codegen/codegen.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct Object {
    const char *data;
    const Elf64_Shdr *sections;
    int section_count;
    const Elf64_Sym *symbols;
    int symbol_count;
    const char *names;    /* of symbols, */
    const char *titles;   /* and of sections */
    int *section_map;     /* to the output; 0: not there */
    uint32_t *symbol_map; /* likewise */
} Object;

typedef struct Merge {
    Arena *arena;
    Object *objects;
    int count;
    VEC(Elf64_Shdr) sections;
    VEC(Elf64_Sym) locals;
    VEC(Elf64_Sym) globals;
    Buffer names, titles;
    Buffer *output;
} Merge;

static void expect(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "phobosc: internal error in merging objects: %s\n", what);
    abort();
}

static Object read_object(Arena *arena, const Buffer *buffer) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)buffer->data;
    expect(buffer->length > sizeof *header && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0, "no ELF file");
    expect(header->e_type == ET_REL && header->e_machine == EM_X86_64 && header->e_shnum > 0, "no relocatable object for x86-64");
    Object object = {.data = buffer->data, .sections = (const Elf64_Shdr *)(buffer->data + header->e_shoff), .section_count = header->e_shnum};
    object.titles = buffer->data + object.sections[header->e_shstrndx].sh_offset;
    for (int i = 0; i < object.section_count; i++) {
        const Elf64_Shdr *section = &object.sections[i];
        expect(section->sh_type != SHT_GROUP && section->sh_type != SHT_REL && section->sh_type != SHT_SYMTAB_SHNDX,
            "a section that LLVM does not write");
        if (section->sh_type != SHT_SYMTAB)
            continue;
        object.symbols = (const Elf64_Sym *)(buffer->data + section->sh_offset);
        object.symbol_count = (int)(section->sh_size / sizeof *object.symbols);
        object.names = buffer->data + object.sections[section->sh_link].sh_offset;
    }
    object.section_map = NEW_ARRAY(arena, int, object.section_count);
    object.symbol_map = NEW_ARRAY(arena, uint32_t, object.symbol_count + 1);
    return object;
}

/* Where the string lies in a table under construction. */
static uint32_t add_name(Buffer *table, const char *name) {
    size_t at = table->length;
    buffer_append(table, name, strlen(name) + 1);
    return (uint32_t)at;
}

static void pad(Buffer *buffer, size_t align) {
    static const char zeros[64];
    while (align > 1 && buffer->length % align != 0) {
        size_t left = align - buffer->length % align;
        buffer_append(buffer, zeros, left < sizeof zeros ? left : sizeof zeros);
    }
}

/* ---- sections ---- */

static bool is_kept(const Object *object, int index) {
    uint32_t type = object->sections[index].sh_type;
    return type != SHT_NULL && type != SHT_SYMTAB && type != SHT_STRTAB;
}

/* Contents and headers; relocations are rewritten later. */
static void copy_sections(Merge *m, Object *object) {
    for (int i = 0; i < object->section_count; i++) {
        if (!is_kept(object, i))
            continue;
        Elf64_Shdr section = object->sections[i];
        section.sh_name = add_name(&m->titles, object->titles + section.sh_name);
        pad(m->output, section.sh_addralign);
        section.sh_offset = m->output->length;
        if (section.sh_type != SHT_NOBITS)
            buffer_append(m->output, object->data + object->sections[i].sh_offset, section.sh_size);
        object->section_map[i] = m->sections.count;
        vec_push(m->arena, &m->sections, section);
    }
}

/* ---- symbols ---- */

static bool is_hidden(const Elf64_Sym *symbol) {
    return ELF64_ST_VISIBILITY(symbol->st_other) == STV_HIDDEN;
}

static uint16_t section_of(const Object *object, const Elf64_Sym *symbol) {
    return symbol->st_shndx < SHN_LORESERVE ? (uint16_t)object->section_map[symbol->st_shndx] : symbol->st_shndx;
}

/* Symbols of the file's own, and hidden ones, which nobody outside will see. Of the files' names, which are the same, one is kept. */
static void take_locals(Merge *m, Object *object) {
    for (int i = 1; i < object->symbol_count; i++) {
        Elf64_Sym symbol = object->symbols[i];
        bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL, is_file = ELF64_ST_TYPE(symbol.st_info) == STT_FILE;
        if ((!is_local && !(is_hidden(&symbol) && symbol.st_shndx != SHN_UNDEF)) || (is_file && object != m->objects))
            continue;
        symbol.st_name = add_name(&m->names, object->names + symbol.st_name);
        symbol.st_shndx = section_of(object, &symbol);
        symbol.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(symbol.st_info));
        symbol.st_other = STV_DEFAULT;
        object->symbol_map[i] = (uint32_t)m->locals.count;
        vec_push(m->arena, &m->locals, symbol);
    }
}

/* A hidden symbol that this object uses: where some object defines it. */
static uint32_t find_hidden(const Merge *m, const char *name) {
    for (int o = 0; o < m->count; o++) {
        const Object *object = &m->objects[o];
        for (int i = 1; i < object->symbol_count; i++)
            if (is_hidden(&object->symbols[i]) && object->symbols[i].st_shndx != SHN_UNDEF &&
                strcmp(object->names + object->symbols[i].st_name, name) == 0)
                return object->symbol_map[i];
    }
    expect(false, name);
    return 0;
}

/* The place of a global among the output's. */
static uint32_t add_global(Merge *m, const Object *object, const Elf64_Sym *source) {
    const char *name = object->names + source->st_name;
    for (int i = 0; i < m->globals.count; i++) {
        Elf64_Sym *known = &m->globals.items[i];
        if (strcmp(m->names.data + known->st_name, name) != 0)
            continue;
        expect(known->st_shndx == SHN_UNDEF || source->st_shndx == SHN_UNDEF, name);
        if (source->st_shndx != SHN_UNDEF) {
            uint32_t at = known->st_name;
            *known = *source;
            known->st_name = at;
            known->st_shndx = section_of(object, source);
        }
        return (uint32_t)i;
    }
    Elf64_Sym symbol = *source;
    symbol.st_name = add_name(&m->names, name);
    symbol.st_shndx = section_of(object, source);
    vec_push(m->arena, &m->globals, symbol);
    return (uint32_t)m->globals.count - 1;
}

/* Requires every object's locals: globals are counted behind them. */
static void take_globals(Merge *m, Object *object) {
    for (int i = 1; i < object->symbol_count; i++) {
        const Elf64_Sym *symbol = &object->symbols[i];
        if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || (is_hidden(symbol) && symbol->st_shndx != SHN_UNDEF))
            continue;
        object->symbol_map[i] =
            is_hidden(symbol) ? find_hidden(m, object->names + symbol->st_name) : (uint32_t)m->locals.count + add_global(m, object, symbol);
    }
}

/* ---- relocations ---- */

static void fix_section(Merge *m, const Object *object, int index, uint32_t symbol_table) {
    Elf64_Shdr *section = &m->sections.items[object->section_map[index]];
    if (section->sh_type != SHT_RELA) {
        section->sh_link = (uint32_t)object->section_map[section->sh_link];
        return;
    }
    section->sh_link = symbol_table;
    section->sh_info = (uint32_t)object->section_map[section->sh_info];
    Elf64_Rela *relocations = (Elf64_Rela *)(m->output->data + section->sh_offset);
    for (size_t i = 0; i < section->sh_size / sizeof *relocations; i++)
        relocations[i].r_info =
            ELF64_R_INFO((Elf64_Xword)object->symbol_map[ELF64_R_SYM(relocations[i].r_info)], ELF64_R_TYPE(relocations[i].r_info));
}

/* ---- the file ---- */

static void add_section(Merge *m, uint32_t title, Elf64_Shdr section, const void *data, size_t size) {
    pad(m->output, section.sh_addralign);
    section.sh_name = title;
    section.sh_offset = m->output->length;
    section.sh_size = size;
    buffer_append(m->output, data, size);
    vec_push(m->arena, &m->sections, section);
}

static void write_tables(Merge *m) {
    uint32_t symbol_table = (uint32_t)m->sections.count;
    for (int o = 0; o < m->count; o++)
        for (int i = 0; i < m->objects[o].section_count; i++)
            if (is_kept(&m->objects[o], i))
                fix_section(m, &m->objects[o], i, symbol_table);
    uint32_t local_count = (uint32_t)m->locals.count;
    for (int i = 0; i < m->globals.count; i++)
        vec_push(m->arena, &m->locals, m->globals.items[i]);
    Elf64_Shdr symbols = {
        .sh_type = SHT_SYMTAB, .sh_link = symbol_table + 1, .sh_info = local_count, .sh_addralign = 8, .sh_entsize = sizeof(Elf64_Sym)};
    add_section(m, add_name(&m->titles, ".symtab"), symbols, m->locals.items, (size_t)m->locals.count * sizeof(Elf64_Sym));
    Elf64_Shdr strings = {.sh_type = SHT_STRTAB, .sh_addralign = 1};
    add_section(m, add_name(&m->titles, ".strtab"), strings, m->names.data, m->names.length);
    uint32_t title = add_name(&m->titles, ".shstrtab");
    add_section(m, title, strings, m->titles.data, m->titles.length);
}

void merge_objects(Arena *arena, const Buffer *const *objects, int count, Buffer *merged) {
    Merge m = {.arena = arena, .objects = NEW_ARRAY(arena, Object, count), .count = count, .output = merged};
    buffer_append(&m.names, "", 1);
    buffer_append(&m.titles, "", 1);
    vec_push(arena, &m.sections, (Elf64_Shdr){0});
    vec_push(arena, &m.locals, (Elf64_Sym){0});
    Elf64_Ehdr header;
    memcpy(&header, objects[0]->data, sizeof header);
    buffer_append(merged, (const char *)&header, sizeof header);
    for (int o = 0; o < count; o++) {
        m.objects[o] = read_object(arena, objects[o]);
        copy_sections(&m, &m.objects[o]);
    }
    for (int o = 0; o < count; o++)
        take_locals(&m, &m.objects[o]);
    for (int o = 0; o < count; o++)
        take_globals(&m, &m.objects[o]);
    write_tables(&m);
    pad(merged, sizeof(Elf64_Xword));
    header.e_shoff = merged->length;
    header.e_shnum = (uint16_t)m.sections.count;
    header.e_shstrndx = (uint16_t)(m.sections.count - 1);
    expect(m.sections.count < SHN_LORESERVE, "too many sections");
    buffer_append(merged, (const char *)m.sections.items, (size_t)m.sections.count * sizeof *m.sections.items);
    memcpy(merged->data, &header, sizeof header);
    buffer_free(&m.names);
    buffer_free(&m.titles);
}

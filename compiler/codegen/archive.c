/* Static archives for --emit=lib, in the format that `ar` of GNU and LLVM share: the kernels' object, the runtime's members but the one with main(),
 * and the index that linkers look names up in. A member of the runtime keeps its own, so that two such archives in one program bring one runtime. */
#include "compiler/codegen/codegen.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC "!<arch>\n"
#define MAGIC_SIZE (sizeof MAGIC - 1)
#define HEADER_SIZE 60
#define MAIN_MEMBER "main.o/"

/* A member of an archive in memory, or its place in one that is made. */
typedef struct Member {
    const char *name; /* 16 bytes, as in the header */
    const char *data;
    size_t size;
    size_t offset; /* of its header */
} Member;

/* A name in an index and the member that defines it. */
typedef struct IndexEntry {
    const char *name;
    int member;
} IndexEntry;

typedef struct Archive {
    Arena *arena;
    VEC(Member) members;
    VEC(IndexEntry) index;
} Archive;

static uint32_t read_be32(const char *at) {
    const unsigned char *bytes = (const unsigned char *)at;
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void put_be32(Buffer *buffer, size_t value) {
    char bytes[4] = {(char)(value >> 24), (char)(value >> 16), (char)(value >> 8), (char)value};
    buffer_append(buffer, bytes, sizeof bytes);
}

/* The member whose header is at `offset`; false where there is none. */
static bool member_at(const Buffer *file, size_t offset, Member *member) {
    if (offset + HEADER_SIZE > file->length)
        return false;
    const char *header = file->data + offset;
    char digits[11] = {0};
    memcpy(digits, header + 48, 10);
    char *end;
    unsigned long long size = strtoull(digits, &end, 10);
    if (end == digits || size > file->length - offset - HEADER_SIZE || memcmp(header + 58, "`\n", 2) != 0)
        return false;
    *member = (Member){header, header + HEADER_SIZE, (size_t)size, offset};
    return true;
}

static bool has_name(const Member *member, const char *name) {
    return strncmp(member->name, name, strlen(name)) == 0;
}

/* Takes over the names of the index of `file`, whose members are those from `first` on. */
static bool take_index(Archive *archive, const Member *index, int first) {
    if (index->size < 4)
        return false;
    size_t count = read_be32(index->data);
    if (count > (index->size - 4) / 5)
        return false;
    const char *name = index->data + 4 + 4 * count, *end = index->data + index->size;
    for (size_t i = 0; i < count; i++) {
        size_t offset = read_be32(index->data + 4 + 4 * i);
        const char *stop = memchr(name, '\0', (size_t)(end - name));
        if (!stop)
            return false;
        for (int m = first; m < archive->members.count; m++)
            if (archive->members.items[m].offset == offset)
                vec_push(archive->arena, &archive->index, ((IndexEntry){name, m}));
        name = stop + 1;
    }
    return true;
}

/* The members of the runtime's archive, and its index. */
static bool take_runtime(Archive *archive, const Buffer *file) {
    if (file->length < MAGIC_SIZE || memcmp(file->data, MAGIC, MAGIC_SIZE) != 0)
        return false;
    int first = archive->members.count;
    Member member, index = {0};
    for (size_t offset = MAGIC_SIZE; offset < file->length; offset = member.offset + HEADER_SIZE + member.size + (member.size & 1)) {
        if (!member_at(file, offset, &member))
            return false;
        if (has_name(&member, "/ "))
            index = member;
        else if (!has_name(&member, MAIN_MEMBER))
            vec_push(archive->arena, &archive->members, member);
    }
    return index.data && take_index(archive, &index, first);
}

static void put_header(Buffer *out, const char *name, size_t size) {
    buffer_printf(out, "%-16.16s%-12d%-6d%-6d%-8o%-10zu`\n", name, 0, 0, 0, 0644, size);
}

static void put_padding(Buffer *out) {
    if (out->length & 1)
        buffer_puts(out, "\n");
}

static void print_archive(Archive *archive, Buffer *out) {
    size_t index_size = 4 + 4 * (size_t)archive->index.count;
    for (int i = 0; i < archive->index.count; i++)
        index_size += strlen(archive->index.items[i].name) + 1;
    size_t offset = MAGIC_SIZE + HEADER_SIZE + index_size + (index_size & 1);
    for (int m = 0; m < archive->members.count; m++) {
        Member *member = &archive->members.items[m];
        member->offset = offset;
        offset += HEADER_SIZE + member->size + (member->size & 1);
    }
    buffer_puts(out, MAGIC);
    put_header(out, "/", index_size);
    put_be32(out, (size_t)archive->index.count);
    for (int i = 0; i < archive->index.count; i++)
        put_be32(out, archive->members.items[archive->index.items[i].member].offset);
    for (int i = 0; i < archive->index.count; i++)
        buffer_append(out, archive->index.items[i].name, strlen(archive->index.items[i].name) + 1);
    put_padding(out);
    for (int m = 0; m < archive->members.count; m++) {
        const Member *member = &archive->members.items[m];
        put_header(out, member->name, member->size);
        buffer_append(out, member->data, member->size);
        put_padding(out);
    }
}

bool archive_print(Arena *arena, const Buffer *object, const char *symbol, const Buffer *runtime, Buffer *out) {
    Archive archive = {.arena = arena};
    vec_push(arena, &archive.members, ((Member){"kernels.o/", object->data, object->length, 0}));
    vec_push(arena, &archive.index, ((IndexEntry){symbol, 0}));
    if (!take_runtime(&archive, runtime))
        return false;
    print_archive(&archive, out);
    return true;
}

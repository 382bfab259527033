/* jansson decides what is JSON but keeps neither positions, nor duplicate keys, nor the spelling of numbers. This file walks text that jansson has
 * accepted once more and builds a tree that has all three. */
#include "runtime/runtime.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct Cursor {
    const char *at, *end;
    int line, column;
} Cursor;

static char peek(const Cursor *cursor) {
    return cursor->at < cursor->end ? *cursor->at : '\0';
}

static char advance(Cursor *cursor) {
    char c = *cursor->at++;
    if (c == '\n') {
        cursor->line++;
        cursor->column = 1;
    } else if (((unsigned char)c & 0xC0) != 0x80) {
        cursor->column++;
    }
    return c;
}

static void skip_space(Cursor *cursor) {
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at) != NULL && *cursor->at != '\0')
        advance(cursor);
}

/* Nesting is checked before jansson sees the text: its parser recurses. */
static bool depth_fits(const char *text, size_t size, const char *path, ErrorList *errors) {
    Cursor cursor = {text, text + size, 1, 1};
    int depth = 0;
    bool in_string = false;
    while (cursor.at < cursor.end) {
        int line = cursor.line, column = cursor.column;
        char c = advance(&cursor);
        if (in_string) {
            if (c == '\\' && cursor.at < cursor.end)
                advance(&cursor);
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_MAX_DEPTH) {
                errors_add(errors, "%s:%d:%d: nesting deeper than %d", path, line, column, JSON_MAX_DEPTH);
                return false;
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return true;
}

static unsigned hex4(Cursor *cursor) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        char c = advance(cursor);
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
        value = value << 4 | digit;
    }
    return value;
}

static char *put_utf8(char *out, unsigned code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    } else {
        *out++ = (char)(0xF0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

static char *put_escape(char *out, Cursor *cursor) {
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    char c = advance(cursor);
    if (c != 'u') {
        const char *letter = strchr(letters, c);
        *out++ = letter != NULL ? meanings[letter - letters] : c;
        return out;
    }
    unsigned code = hex4(cursor);
    if (code >= 0xD800 && code < 0xDC00) {
        advance(cursor); /* jansson has seen that a low surrogate follows */
        advance(cursor);
        code = 0x10000 + ((code - 0xD800) << 10) + (hex4(cursor) - 0xDC00);
    }
    return put_utf8(out, code);
}

static char *read_string(Cursor *cursor) {
    advance(cursor);
    const char *close = cursor->at;
    while (*close != '"')
        close += *close == '\\' ? 2 : 1;
    char *text = new_zeroed((size_t)(close - cursor->at) + 1, 1); /* an escape is never shorter than what it means */
    char *out = text;
    while (peek(cursor) != '"') {
        char c = advance(cursor);
        if (c == '\\')
            out = put_escape(out, cursor);
        else
            *out++ = c;
    }
    advance(cursor);
    return text;
}

static JsonNode *read_value(Cursor *cursor);

static void read_elements(Cursor *cursor, JsonNode *node) {
    JsonNode **tail = &node->first;
    char close = advance(cursor) == '{' ? '}' : ']';
    skip_space(cursor);
    while (peek(cursor) != close) {
        char *key = NULL;
        int key_line = cursor->line, key_column = cursor->column;
        if (close == '}') {
            key = read_string(cursor);
            skip_space(cursor);
            advance(cursor); /* ':' */
            skip_space(cursor);
        }
        JsonNode *element = read_value(cursor);
        element->key = key;
        element->key_line = key_line;
        element->key_column = key_column;
        *tail = element;
        tail = &element->next;
        node->count++;
        skip_space(cursor);
        if (peek(cursor) == ',')
            advance(cursor);
        skip_space(cursor);
    }
    advance(cursor);
}

static JsonNode *read_value(Cursor *cursor) {
    JsonNode *node = new_zeroed(1, sizeof *node);
    node->line = cursor->line;
    node->column = cursor->column;
    switch (peek(cursor)) {
    case '{':
        node->kind = JSON_NODE_OBJECT;
        read_elements(cursor, node);
        return node;
    case '[':
        node->kind = JSON_NODE_ARRAY;
        read_elements(cursor, node);
        return node;
    case '"':
        node->kind = JSON_NODE_STRING;
        node->text = read_string(cursor);
        return node;
    case 't':
    case 'f':
        node->kind = JSON_NODE_BOOL;
        break;
    case 'n':
        node->kind = JSON_NODE_NULL;
        break;
    default:
        node->kind = JSON_NODE_NUMBER;
    }
    const char *begin = cursor->at;
    while (cursor->at < cursor->end && strchr(",]} \t\r\n", *cursor->at) == NULL)
        advance(cursor);
    node->text = format_text("%.*s", (int)(cursor->at - begin), begin);
    return node;
}

static int by_key(const void *left, const void *right) {
    const JsonNode *a = *(const JsonNode *const *)left, *b = *(const JsonNode *const *)right;
    int order = strcmp(a->key, b->key);
    if (order != 0)
        return order;
    return a->key_line != b->key_line ? (a->key_line < b->key_line ? -1 : 1) : (a->key_column > b->key_column) - (a->key_column < b->key_column);
}

static void report_duplicates(const JsonNode *node, const char *path, ErrorList *errors) {
    for (const JsonNode *element = node->first; element != NULL; element = element->next)
        report_duplicates(element, path, errors);
    if (node->kind != JSON_NODE_OBJECT || node->count < 2)
        return;
    const JsonNode **members = new_zeroed((size_t)node->count, sizeof(JsonNode *));
    int count = 0;
    for (const JsonNode *element = node->first; element != NULL; element = element->next)
        members[count++] = element;
    qsort(members, (size_t)count, sizeof(JsonNode *), by_key);
    const JsonNode *first = members[0];
    for (int i = 1; i < count; i++) {
        const JsonNode *member = members[i];
        if (strcmp(member->key, first->key) == 0)
            errors_add(errors, "%s:%d:%d: duplicate key \"%s\", first given in line %d", path, member->key_line, member->key_column, member->key,
                first->key_line);
        else
            first = member;
    }
    free(members);
}

/* What jansson says of a syntax error, by how it begins, as what the writer of a job lacks. */
static const struct {
    const char *beginning, *instead;
} syntax_texts[] = {
    {"string or '}' expected near '}'", "a comma before '}'"},
    {"string or '}' expected", "expected a key in double quotes"},
    {"'}' expected", "expected ',' or '}'"},
    {"']' expected", "expected ',' or ']'"},
    {"':' expected", "expected ':' behind the key"},
    {"end of file expected", "expected the end of the file"},
    {"unexpected token", "expected a value"},
    {"invalid token", "expected a string in double quotes, a number, true, false, an object or an array"},
};

static void report_syntax(const char *path, const json_error_t *error, ErrorList *errors) {
    int line = error->line > 0 ? error->line : 1, column = error->column > 0 ? error->column : 1;
    if (json_error_code(error) == json_error_null_character) {
        errors_add(errors, "%s:%d:%d: \\u0000 is not allowed", path, line, column);
        return;
    }
    for (size_t i = 0; i < sizeof syntax_texts / sizeof *syntax_texts; i++) {
        size_t length = strlen(syntax_texts[i].beginning);
        if (strncmp(error->text, syntax_texts[i].beginning, length) != 0)
            continue;
        const char *found = error->text + length, *near = " near ";
        bool located = strncmp(found, near, strlen(near)) == 0;
        errors_add(errors, "%s:%d:%d: %s%s%s", path, line, column, syntax_texts[i].instead, located ? ", found " : "",
            found + (located ? strlen(near) : 0));
        return;
    }
    errors_add(errors, "%s:%d:%d: %s", path, line, column, error->text);
}

JsonNode *json_parse_located(const char *text, size_t size, const char *path, ErrorList *errors) {
    if (size > JSON_MAX_BYTES) {
        errors_add(errors, "%s: longer than %d bytes", path, JSON_MAX_BYTES);
        return NULL;
    }
    if (!depth_fits(text, size, path, errors))
        return NULL;
    json_error_t error;
    /* Integers as reals: the spelling is what counts here, and u64 reaches beyond jansson's integers. */
    json_t *accepted = json_loadb(text, size, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (accepted == NULL) {
        report_syntax(path, &error, errors);
        return NULL;
    }
    json_decref(accepted);
    Cursor cursor = {text, text + size, 1, 1};
    skip_space(&cursor);
    JsonNode *root = read_value(&cursor);
    report_duplicates(root, path, errors);
    return root;
}

void json_free(JsonNode *node) {
    while (node != NULL) {
        JsonNode *next = node->next;
        json_free(node->first);
        free(node->text);
        free(node->key);
        free(node);
        node = next;
    }
}

const JsonNode *json_member(const JsonNode *object, const char *key) {
    for (const JsonNode *member = object->first; member != NULL; member = member->next)
        if (strcmp(member->key, key) == 0)
            return member;
    return NULL;
}

const char *json_kind_text(const JsonNode *node) {
    static const char *const texts[] = {"an object", "an array", "a string", "a number", "a boolean", "null"};
    return texts[node->kind];
}

/* Requests and notifications of the protocol: one at a time, each answered before the next is read. */
#include "compiler/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

/* Error codes of JSON-RPC and the protocol. */
enum { PARSE_ERROR = -32700, INVALID_REQUEST = -32600, METHOD_NOT_FOUND = -32601, INVALID_PARAMS = -32602, NOT_INITIALIZED = -32002 };

typedef struct Server {
    FILE *in, *out;
    bool initialized, shut_down, ended, utf16;
    Document **documents;
    int count;
} Server;

/* A method gives the result of a request, a new reference; a notification's is NULL. */
typedef json_t *Method(Server *server, const json_t *params);

/* ---- documents ---- */

static const char *uri_of(const json_t *params) {
    const char *uri = json_string_value(json_object_get(json_object_get(params, "textDocument"), "uri"));
    return uri ? uri : "";
}

static int find_document(const Server *server, const char *uri) {
    for (int i = 0; i < server->count; i++)
        if (strcmp(server->documents[i]->uri, uri) == 0)
            return i;
    return -1;
}

static Document *document_of(const Server *server, const json_t *params) {
    int index = find_document(server, uri_of(params));
    return index < 0 ? NULL : server->documents[index];
}

static void publish(Server *server, const char *uri, json_t *diagnostics) {
    json_t *params = json_pack("{s:s, s:o}", "uri", uri, "diagnostics", diagnostics);
    message_write(server->out, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", "textDocument/publishDiagnostics", "params", params));
}

static void close_document(Server *server, int index) {
    document_free(server->documents[index]);
    server->documents[index] = server->documents[--server->count];
}

static json_t *did_open(Server *server, const json_t *params) {
    const char *text = json_string_value(json_object_get(json_object_get(params, "textDocument"), "text"));
    int known = find_document(server, uri_of(params));
    if (known >= 0)
        close_document(server, known);
    Document **documents = realloc(server->documents, (size_t)(server->count + 1) * sizeof *documents);
    if (!documents)
        abort();
    server->documents = documents;
    documents[server->count] = document_new(uri_of(params), text ? text : "", server->utf16);
    publish(server, uri_of(params), document_diagnostics(documents[server->count++]));
    return NULL;
}

static json_t *did_change(Server *server, const json_t *params) {
    Document *document = document_of(server, params);
    if (document && document_change(document, json_object_get(params, "contentChanges")))
        publish(server, document->uri, document_diagnostics(document));
    return NULL;
}

static json_t *did_close(Server *server, const json_t *params) {
    int index = find_document(server, uri_of(params));
    if (index >= 0) {
        publish(server, uri_of(params), json_array());
        close_document(server, index);
    }
    return NULL;
}

/* ---- requests ---- */

static json_t *hover(Server *server, const json_t *params) {
    Document *document = document_of(server, params);
    if (!document)
        return json_null();
    Found found = find_at(document, document_place(document, json_object_get(params, "position")));
    Buffer text = {0};
    json_t *result = json_null();
    if (hover_print(document, &found, &text))
        result = json_pack("{s:{s:s, s:s}, s:o}", "contents", "kind", "markdown", "value", text.data, "range", document_range(document, found.span));
    buffer_free(&text);
    return result;
}

static json_t *definition(Server *server, const json_t *params) {
    const Document *document = document_of(server, params);
    if (!document)
        return json_null();
    Found found = find_at(document, document_place(document, json_object_get(params, "position")));
    Span span = find_declaration(&found);
    return span.line ? json_pack("{s:s, s:o}", "uri", document->uri, "range", document_range(document, span)) : json_null();
}

static json_t *completion(Server *server, const json_t *params) {
    const Document *document = document_of(server, params);
    return document ? complete_at(document, document_place(document, json_object_get(params, "position"))) : json_null();
}

/* One edit of the whole text, none where nothing changes; a source with syntax errors is left alone. */
static json_t *formatting(Server *server, const json_t *params) {
    Document *document = document_of(server, params);
    if (!document)
        return json_null();
    json_t *edits = json_array();
    Buffer text = {0};
    if (document->program) {
        source_format(&document->context, &text);
        if (text.length != document->length || memcmp(text.data, document->text, text.length) != 0)
            json_array_append_new(edits, json_pack("{s:o, s:s}", "range", document_whole(document), "newText", text.data));
    }
    buffer_free(&text);
    return edits;
}

static json_t *document_symbols(Server *server, const json_t *params) {
    enum { FUNCTION = 12 };
    const Document *document = document_of(server, params);
    if (!document)
        return json_null();
    json_t *symbols = json_array();
    for (int d = 0; d < document->ast->decls.count; d++) {
        const Decl *decl = document->ast->decls.items[d];
        json_array_append_new(
            symbols, json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", decl->name, "detail", decl->is_kernel ? "kernel" : "fn", "kind", FUNCTION,
                         "range", document_range(document, decl->name_span), "selectionRange", document_range(document, decl->name_span)));
    }
    return symbols;
}

static json_t *initialize(Server *server, const json_t *params) {
    const json_t *encodings = json_object_get(json_object_get(json_object_get(params, "capabilities"), "general"), "positionEncodings");
    size_t index;
    json_t *encoding;
    server->utf16 = true;
    json_array_foreach(encodings, index, encoding) if (json_is_string(encoding) && strcmp(json_string_value(encoding), "utf-8") == 0) server->utf16 =
        false;
    server->initialized = true;
    json_t *capabilities = json_pack("{s:s, s:{s:b, s:i}, s:b, s:b, s:b, s:b, s:{s:[s, s]}}", "positionEncoding", server->utf16 ? "utf-16" : "utf-8",
        "textDocumentSync", "openClose", 1, "change", 2, "hoverProvider", 1, "definitionProvider", 1, "documentFormattingProvider", 1,
        "documentSymbolProvider", 1, "completionProvider", "triggerCharacters", ".", "@");
    return json_pack("{s:o, s:{s:s}}", "capabilities", capabilities, "serverInfo", "name", "phobosc");
}

static json_t *shut_down(Server *server, const json_t *params) {
    (void)params;
    server->shut_down = true;
    return json_null();
}

static json_t *end(Server *server, const json_t *params) {
    (void)params;
    server->ended = true;
    return NULL;
}

static json_t *nothing(Server *server, const json_t *params) {
    (void)server;
    (void)params;
    return NULL;
}

static const struct {
    const char *name;
    bool is_request;
    Method *run;
} methods[] = {
    {"initialize", true, initialize},
    {"initialized", false, nothing},
    {"shutdown", true, shut_down},
    {"exit", false, end},
    {"textDocument/didOpen", false, did_open},
    {"textDocument/didChange", false, did_change},
    {"textDocument/didClose", false, did_close},
    {"textDocument/didSave", false, nothing},
    {"textDocument/hover", true, hover},
    {"textDocument/definition", true, definition},
    {"textDocument/completion", true, completion},
    {"textDocument/formatting", true, formatting},
    {"textDocument/documentSymbol", true, document_symbols},
};

/* ---- dispatch ---- */

static void reply(Server *server, const json_t *id, json_t *result) {
    message_write(server->out, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

static void refuse(Server *server, const json_t *id, int code, const char *message) {
    json_t *error = json_pack("{s:i, s:s}", "code", code, "message", message);
    json_t *answer = json_pack("{s:s, s:o}", "jsonrpc", "2.0", "error", error);
    if (id)
        json_object_set(answer, "id", (json_t *)id);
    else
        json_object_set_new(answer, "id", json_null());
    message_write(server->out, answer);
}

static void serve(Server *server, const json_t *message) {
    const char *name = json_string_value(json_object_get(message, "method"));
    const json_t *id = json_object_get(message, "id");
    if (!name) {
        if (!json_object_get(message, "result") && !json_object_get(message, "error")) /* an answer to us needs none */
            refuse(server, id, INVALID_REQUEST, "no method");
        return;
    }
    size_t m = 0, count = sizeof methods / sizeof *methods;
    while (m < count && strcmp(methods[m].name, name) != 0)
        m++;
    if (m == count) {
        if (id)
            refuse(server, id, METHOD_NOT_FOUND, name);
        return;
    }
    if (methods[m].is_request != (id != NULL)) {
        if (id)
            refuse(server, id, INVALID_REQUEST, "a notification has no id");
        return;
    }
    bool any_time = methods[m].run == initialize || methods[m].run == end;
    if (!server->initialized && !any_time) {
        if (id)
            refuse(server, id, NOT_INITIALIZED, "the first request is initialize");
        return;
    }
    if (server->shut_down && methods[m].run != end) {
        if (id)
            refuse(server, id, INVALID_REQUEST, "the server is shut down");
        return;
    }
    json_t *result = methods[m].run(server, json_object_get(message, "params"));
    if (id)
        reply(server, id, result);
}

int lsp_run(FILE *in, FILE *out) {
    Server server = {.in = in, .out = out};
    while (!server.ended) {
        json_t *message = NULL;
        ReadStatus status = message_read(in, &message);
        if (status == READ_END || status == READ_BROKEN)
            break;
        if (status == READ_NO_JSON)
            refuse(&server, NULL, PARSE_ERROR, "no JSON");
        else
            serve(&server, message);
        json_decref(message);
    }
    while (server.count)
        close_document(&server, 0);
    free(server.documents);
    return server.ended && server.shut_down ? 0 : 1;
}

# A client of our own, for what editors do not do: every method by its answer, positions in both encodings, and messages that are none.
#   lsp.py PHOBOSC SAMPLES
import json
import random
import subprocess
import sys


class Client:
    def __init__(self, encodings=None):
        self.process = subprocess.Popen([sys.argv[1], "--lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = 0
        self.notes = []
        capabilities = {"general": {"positionEncodings": encodings}} if encodings else {}
        self.capabilities = self.ask("initialize", {"capabilities": capabilities})["capabilities"]
        self.tell("initialized", {})

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()):
            name, value = line.split(b":")
            assert name == b"Content-Length", line
            length = int(value)
        return json.loads(self.process.stdout.read(length))

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, method, params):
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        while (message := self.receive()).get("id") != self.last:
            self.notes.append(message)
        return message

    def ask(self, method, params):
        answer = self.answer(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def open(self, uri, text):
        self.tell("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "phobos", "version": 1, "text": text}})
        return self.diagnostics(uri)

    def change(self, uri, text):
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]})
        return self.diagnostics(uri)

    def diagnostics(self, uri):
        message = self.receive()
        assert message["method"] == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri, message
        return message["params"]["diagnostics"]

    def at(self, method, uri, text, what, skip=0, units=len):
        """Asks about the middle of the (skip+1)th `what` in the text."""
        offset = -1
        for _ in range(skip + 1):
            offset = text.index(what, offset + 1)
        line = text.count("\n", 0, offset)
        before = text[text.rfind("\n", 0, offset) + 1:offset]
        return self.ask(method, {"textDocument": {"uri": uri}, "position": {"line": line, "character": units(before) + (1 if len(what) > 1 else 0)}})

    def hover(self, uri, text, what, skip=0):
        result = self.at("textDocument/hover", uri, text, what, skip)
        return result["contents"]["value"] if result else ""

    def end(self):
        assert self.ask("shutdown", None) is None
        assert self.answer("textDocument/hover", {})["error"]["code"] == -32600
        self.tell("exit", None)
        assert self.process.wait(10) == 0


def contains(text, *parts):
    for part in parts:
        assert part in text, (part, text)


client = Client()
assert client.capabilities["positionEncoding"] == "utf-16"
gemm = open(sys.argv[2] + "/gemm/gemm.phb").read()
uri = "file:///gemm.phb"
assert client.open(uri, gemm) == []

# Hover: types, shapes, uniformity, both readings.
source = """// é𝄞
@cluster(B in [256, 1024])
@autotune(B in [16, 64])
kernel scale(factor: f32, x: tensor<f32>[N, 4], y: tensor<f32>[N, 4]) {
    let i = ctx.block.x * B
    let lane = ctx.lane
    var t = twice(x[i :+ B, :]) * factor
    for k in range(0, 3) {
        t = t + exp(t) /* 𝄞 */ + f32(k)
    }
    if lane == 0 { y[i, 0] = 1.0 }
    y[i :+ B, :] = t
}
fn twice(v: tile<f32>[R, C]) -> tile<f32>[R, C] {
    let two = 2.0
    return v * two
}
"""
where = "file:///scale.phb"
found = client.open(where, source)
assert not any(d["severity"] == 1 for d in found), found
contains(client.hover(where, source, "i = ctx"), "let i: i64", "the same in all threads of a CTA")
contains(client.hover(where, source, "t = twice"), "tile<f32>[B, 4]", "whole CTA", "more than once")
contains(client.hover(where, source, "ctx.block"), "On a node", "On a cluster", "ceildiv")
contains(client.hover(where, source, "B in [256"), "16, 32, 64", "256, 512, 1024", "On a node", "On a cluster")
contains(client.hover(where, source, "x[i"), "tensor<f32>[N, 4]", "read x: f32[ctx.super.x * B :+ B, 0 :+ 4]")
contains(client.hover(where, source, "y[i :+"), "write y: f32[ctx.super.x * B :+ B")
contains(client.hover(where, source, "scale"), "super-tiles x: ceildiv(N, B)", "leaf grid")
contains(client.hover(where, source, "factor: f32"), "factor: f32", "thread-block cluster")
contains(client.hover(where, source, "N, 4"), "A dim")
contains(client.hover(where, source, "exp"), "tile<f32>[B, 4]", "Element by element", "floats")
contains(client.hover(where, source, "twice"), "fn twice(v: tile<f32>[R, C]) -> tile<f32>[R, C]")
contains(client.hover(where, source, "lane ="), "may differ from lane to lane")
contains(client.hover(where, source, "two = "), "let two: f32")
contains(client.hover(where, source, "v * two"), "tile<f32>[B, 4]")
assert client.hover(where, source, "cluster(") == ""

# Definitions.
def definition(what, skip=0):
    result = client.at("textDocument/definition", where, source, what, skip)
    return result and (result["uri"], source.split("\n")[result["range"]["start"]["line"]][result["range"]["start"]["character"]:result["range"]["end"]["character"]])


assert definition("twice") == (where, "twice") and definition("i :+") == (where, "i") and definition("factor\n") == (where, "factor")
assert definition("B, :]") == (where, "B") and definition("x[i") == (where, "x") and definition("exp(") is None

# Positions count UTF-16 units: two for what lies beyond the basic plane.
result = client.at("textDocument/hover", where, source, "k)", units=lambda s: len(s.encode("utf-16-le")) // 2)
contains(result["contents"]["value"], "for k: i64")
utf8 = Client(["utf-8", "utf-16"])
assert utf8.capabilities["positionEncoding"] == "utf-8"
utf8.open(where, source)
result = utf8.at("textDocument/hover", where, source, "k)", units=lambda s: len(s.encode()))
contains(result["contents"]["value"], "for k: i64")
line = next(line for line in source.split("\n") if "f32(k)" in line)
assert result["range"]["start"]["character"] == len(line[:line.index("k)")].encode())
utf8.end()

# Diagnostics follow what is typed, with notes at other places.
wrong = source.replace("* factor", "* fator")
messages = client.change(where, wrong)
assert [m["message"] for m in messages if m["severity"] == 1] == ["unknown name 'fator'; did you mean 'factor'?"], messages
assert messages[0]["source"] == "phobosc" and source.split("\n")[messages[0]["range"]["start"]["line"]].endswith("factor")
assert client.change(where, source + "kernel")[0]["severity"] == 1
assert client.ask("textDocument/formatting", {"textDocument": {"uri": where}}) == []
assert not any(m["severity"] == 1 for m in client.change(where, source))
twice = source + source[source.index("kernel"):source.index("fn ")]
assert any(m["relatedInformation"] for m in client.change(where, twice)), "no note"

# Edits of ranges: after each, a server that had them says what one says that opens the text as it is then.
def place(text, offset, units):
    return {"line": text.count("\n", 0, offset), "character": units(text[text.rfind("\n", 0, offset) + 1:offset])}


def edit(client, uri, text, edits, units):
    """Puts strings in the place of ranges of offsets, one after the other; returns the new text and the diagnostics."""
    changes = []
    for start, end, new in edits:
        changes.append({"range": {"start": place(text, start, units), "end": place(text, end, units)}, "text": new})
        text = text[:start] + new + text[end:]
    client.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": 3}, "contentChanges": changes})
    return text, client.diagnostics(uri)


shifted = """@cluster(B in [64, 128])
@autotune(B in [16])
kernel first(x: tensor<f32>[N], y: tensor<f32>[N]) {
    y[ctx.block.x * B :+ B] = x[place(ctx.block.x * B) :+ B]
}
@cluster(B in [64, 128])
@autotune(B in [16])
kernel second(x: tensor<f32>[N], y: tensor<f32>[N]) { y[ctx.block.x * B :+ B] = x[ctx.block.x * B :+ B] } fn place(at: i64) {
    return at
}
"""
random.seed(1)
words = ["", "", "\n", "𝄞", "é", "fn", "1", " + ", "B", "}", "// 𝄞\n"]
for encoding, units in (("utf-16", lambda s: len(s.encode("utf-16-le")) // 2), ("utf-8", lambda s: len(s.encode()))):
    editor, reader = Client([encoding]), Client([encoding])
    text = shifted
    assert editor.open("a", text) == []
    # A kernel is split anew when it changes, and when what it calls does.
    for old, new, refused in (("return at", "return at + 1", 1), ("return at + 1", "return at", 0), (" x[ctx", " x[1 + ctx", 1), (" x[1 + ctx", " x[ctx", 0)):
        at = text.index(old)
        text, found = edit(editor, "a", text, [(at, at + len(old), new)], units)
        assert len(found) == refused and found == reader.open("a", text), (old, new, found)
    contains(editor.hover("a", text, "second"), "super-tiles x: ceildiv(N, B)")
    # The whole text, then a range of it; and a range that ends before it begins, or after the text.
    editor.tell("textDocument/didChange", {"textDocument": {"uri": "a"}, "contentChanges": [
        {"text": source}, {"range": {"start": {"line": 3, "character": 7}, "end": {"line": 3, "character": 2}}, "text": "x"},
        {"range": {"start": {"line": source.count("\n"), "character": 0}, "end": {"line": 10**6, "character": 3}}, "text": "// end"}]})
    text = source.replace("kernel scale", "kernel xscale") + "// end"
    assert editor.diagnostics("a") == reader.open("a", text)
    for _ in range(60):
        cuts = [random.randrange(len(text) + 1) for _ in range(random.choice((1, 1, 2)))]
        text, found = edit(editor, "a", text, [(at, min(at + random.choice((0, 0, 1, 9)), len(text)), random.choice(words)) for at in sorted(cuts, reverse=True)], units)
        assert found == reader.open("a", text), (text, found)
        if random.random() < 0.3:
            text = source
            assert editor.change("a", text) == reader.open("a", text)
    editor.end()
    reader.end()

# Formatting: one edit that makes it what `phobosc fmt` does, none where it is so already.
dense = source.replace(" + ", "+").replace("    ", "  ")
client.change(where, dense)
edits = client.ask("textDocument/formatting", {"textDocument": {"uri": where}})
formatted = subprocess.run([sys.argv[1], "fmt", "-"], input=dense.encode(), stdout=subprocess.PIPE).stdout.decode()
assert len(edits) == 1 and edits[0]["newText"] == formatted
assert edits[0]["range"]["start"] == {"line": 0, "character": 0} and edits[0]["range"]["end"]["line"] == dense.count("\n")
client.change(where, formatted)
assert client.ask("textDocument/formatting", {"textDocument": {"uri": where}}) == []

# Completion, in a source that is not whole.
def complete(text, marker="|"):
    offset = text.index(marker)
    text = text.replace(marker, "")
    client.change(where, text)
    line = text.count("\n", 0, offset)
    items = client.ask("textDocument/completion", {"textDocument": {"uri": where}, "position": {"line": line, "character": offset - text.rfind("\n", 0, offset) - 1}})
    return {item["label"] for item in items}


head = "@autotune(B in [16])\nkernel scale(factor: f32, x: tensor<f32>[N]) {\n    let here = 1\n"
assert {"here", "factor", "x", "N", "B", "rowsum", "for", "tile", "f32", "ctx", "helper"} <= complete(head + "    |\n    let later = 2\n}\nfn helper(a) { return a }\n")
assert "later" not in complete(head + "    |\n    let later = 2\n}\n")
assert complete(head + "    let z = ctx.bl|\n}\n") == {"block"}
assert {"block", "grid", "super", "supers", "thread", "lane", "warp", "cluster"} <= complete(head + "    let z = ctx.|\n}\n")
assert {"x", "y", "z"} <= complete(head + "    let z = ctx.block.|\n}\n")
assert {"rank", "size", "x"} <= complete(head + "    let z = ctx.cluster.|\n}\n")
assert {"rowsum", "rowmax"} <= complete(head + "    let z = row|\n}\n") and "here" not in complete(head + "    let z = row|\n}\n")
assert {"cluster", "cluster_dims"} == complete("@clu|\n" + head + "}\n")

# Symbols of a file, and files that are not open.
symbols = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
assert [s["name"] for s in symbols if s["detail"] == "kernel"] == [line.split("(")[0].split()[1] for line in gemm.split("\n") if line.startswith("kernel")]
for method in ("hover", "definition", "completion", "formatting", "documentSymbol"):
    params = {"textDocument": {"uri": "file:///closed"}, "position": {"line": 9, "character": 9}}
    assert client.ask("textDocument/" + method, params) is None
for position in ({"line": 10**9, "character": 10**9}, {"line": -1, "character": -1}, {}, None):
    client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})
    client.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": position})

# What is no message of the protocol.
assert client.answer("no/such", {})["error"]["code"] == -32601
client.tell("$/cancelRequest", {"id": 1})
client.raw(b"Content-Length: 3\r\n\r\n{x}")
assert client.receive()["error"]["code"] == -32700
client.send({"jsonrpc": "2.0", "id": 99})
assert client.receive()["error"]["code"] == -32600
client.send([])
assert client.receive()["error"]["code"] == -32600
assert client.answer("exit", {})["error"]["code"] == -32600
client.tell("textDocument/didOpen", {})
client.receive()
client.tell("textDocument/didChange", {"textDocument": 3, "contentChanges": "x"})
client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
assert client.diagnostics(uri) == []
client.end()

early = subprocess.Popen([sys.argv[1], "--lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
body = b'{"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": {}}'
out, _ = early.communicate(b"Content-Length: %d\r\n\r\n" % len(body) + body)
assert b"-32002" in out and early.returncode == 1
for broken in (b"", b"Content-Length: 5\r\n\r\n{", b"nonsense\r\n\r\n", b"Content-Length: 99999999999\r\n\r\n", b"A: " + b"x" * 5000):
    done = subprocess.run([sys.argv[1], "--lsp"], input=broken, stdout=subprocess.PIPE, timeout=20)
    assert done.returncode == 1 and done.stdout == b"", (broken[:20], done)

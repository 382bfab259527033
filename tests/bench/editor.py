# What an editor waits for: a source of 10,000 lines parsed and checked, and answers in it; medians of 21, in milliseconds.
#   editor.py PHOBOSC
import json
import os
import statistics
import subprocess
import sys
import time

kernel = """// {n}
@cluster(TM in [256, 1024], TN in [256, 1024])
@autotune(TM in [32, 64], TN in [32, 64], TK in [16, 32])
kernel gemm{n}(alpha: f32, A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {{
    let row = ctx.block.y * TM
    let col = ctx.block.x * TN
    var acc: tile<f32>[TM, TN]
    for k in range(0, K, TK) {{
        let a = A[row :+ TM, k :+ TK]
        let b = B[k :+ TK, col :+ TN]
        acc += dot(a, b)
    }}
    let scaled = acc * alpha
    let old = C[row :+ TM, col :+ TN]
    let both = scaled + old
    let low = both * 0.5
    C[row :+ TM, col :+ TN] = where(low > 0.0, low, low * low)
}}

"""
text = "".join(kernel.format(n=n) for n in range(527))
server = subprocess.Popen([sys.argv[1], "--lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send(message):
    body = json.dumps(dict(message, jsonrpc="2.0")).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    server.stdin.flush()


def receive():
    length = int(server.stdout.readline().split(b":")[1])
    server.stdout.readline()
    return json.loads(server.stdout.read(length))


def median(ask):
    times = []
    for i in range(21):
        begin = time.perf_counter()
        ask(i)
        times.append(time.perf_counter() - begin)
    return 1000 * statistics.median(times)


def change(i):
    """A digit typed into a kernel, as editors say it."""
    place = {"line": 19 * 250 + 15, "character": 24}
    edit = {"range": {"start": place, "end": place}, "text": "1"}
    send({"method": "textDocument/didChange", "params": {"textDocument": {"uri": "u"}, "contentChanges": [edit]}})
    found = receive()["params"]["diagnostics"]
    assert found == [], found[0]


def hover(i):
    send({"id": i, "method": "textDocument/hover", "params": {"textDocument": {"uri": "u"}, "position": {"line": 19 * 500 + 5, "character": 8}}})
    assert "col" in receive()["result"]["contents"]["value"]


def complete(i):
    send({"id": i, "method": "textDocument/completion", "params": {"textDocument": {"uri": "u"}, "position": {"line": 19 * 500 + 5, "character": 4}}})
    assert len(receive()["result"]) > 20


send({"id": 0, "method": "initialize", "params": {}})
receive()
send({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "u", "text": text}}})
receive()
print(f"{text.count(chr(10))} lines, {text.count('kernel gemm')} kernels")
print(f"typed, parsed, checked, split for clusters, diagnostics back: {median(change):.1f} ms")
print(f"hover {median(hover):.2f} ms, completion {median(complete):.2f} ms")
server.stdin.close()

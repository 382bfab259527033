# The grammar for editors: it knows the words that the compiler itself offers, all of them and no others, and it gives every token of every kernel the
# scope that its kind has by docs/language.md. A small engine of ours does what an editor does with a TextMate grammar.
#   grammar.py PHOBOSC GRAMMAR FOLDER...
import json
import pathlib
import re
import subprocess
import sys

phobosc, grammar_path, *folders = sys.argv[1:]
grammar = json.load(open(grammar_path))


# ---- the compiler's words ----

def offers(text):
    """What the language server would complete at the end of `text`: names by kind."""
    def frame(message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return b"Content-Length: %d\r\n\r\n" % len(body) + body
    uri = "file:///x.phb"
    place = {"line": text.count("\n"), "character": len(text) - text.rfind("\n") - 1}
    said = subprocess.run([phobosc, "--lsp"], check=True, stdout=subprocess.PIPE, input=b"".join(map(frame, [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": uri, "languageId": "phobos", "version": 1, "text": text}}},
        {"id": 2, "method": "textDocument/completion", "params": {"textDocument": {"uri": uri}, "position": place}},
        {"id": 3, "method": "shutdown"}, {"method": "exit"}]))).stdout
    for body in re.split(rb"Content-Length: \d+\r\n\r\n", said):
        if body and json.loads(body).get("id") == 2:
            result = json.loads(body)["result"]
            items = result["items"] if isinstance(result, dict) else result
            return {(item["label"], item["kind"]) for item in items}
    raise SystemExit("no completion for " + repr(text))


FUNCTION, FIELD, PROPERTY, KEYWORD, TYPE = 3, 5, 10, 14, 25
language = offers("kernel k(a: tensor<f32>[N]) {\n    ")


def of_kind(items, kind):
    return {name for name, its in items if its == kind}


def words_of(part, *scopes):
    """The alternatives in the patterns of those scopes."""
    found = set()
    for pattern in grammar["repository"][part]["patterns"]:
        if pattern.get("name") in scopes:
            found |= set(re.search(r"\(([a-z0-9_|\\.]+)\)", pattern["match"]).group(1).replace("\\", "").split("|"))
    return found


failures = []


def expect_same(what, grammars, compilers):
    if grammars != compilers:
        failures.append(f"{what}: the grammar alone has {sorted(grammars - compilers)}, the compiler alone {sorted(compilers - grammars)}")


literals = words_of("numbers", "constant.language.phobos")
keywords = words_of("keywords", "keyword.declaration.phobos", "keyword.control.phobos")
expect_same("keywords", keywords | {"true", "false"}, of_kind(language, KEYWORD))
expect_same("literals", literals, {"true", "false", "inf", "nan"})
types = words_of("types", "storage.type.phobos")
expect_same("types", types, of_kind(language, TYPE))
functions = words_of("functions", "support.function.phobos")
expect_same("functions", functions, of_kind(language, FUNCTION))
attributes = words_of("attributes", "storage.modifier.attribute.phobos")
expect_same("attributes", attributes, of_kind(offers("@"), PROPERTY))
fields = of_kind(offers("kernel k(a: tensor<f32>[N]) {\n    let i = ctx."), FIELD)
fields |= {"cluster." + name for name in of_kind(offers("kernel k(a: tensor<f32>[N]) {\n    let i = ctx.cluster."), FIELD)} - {"cluster.x", "cluster.y", "cluster.z"}
expect_same("fields of ctx", words_of("context", "variable.language.phobos"), fields)


# ---- what an editor does ----

def expand(patterns):
    for pattern in patterns:
        if "include" in pattern:
            yield from expand(grammar["repository"][pattern["include"][1:]]["patterns"])
        else:
            yield pattern


rules = [(re.compile(rule.get("match") or rule["begin"]), rule) for rule in expand(grammar["patterns"])]


def scopes(text):
    """For each character the name of its innermost scope, or None."""
    out = [None] * len(text)
    start, inside = 0, None
    for line in text.splitlines(keepends=True):
        at, bare = 0, line.rstrip("\n")
        while at <= len(bare):
            if inside:
                end = re.compile(inside["end"]).search(bare, at)
                until = end.end() if end else len(bare)
                out[start + at:start + until] = [inside["name"]] * (until - at)
                at = until if end else len(bare) + 1
                inside = None if end else inside
                continue
            best = min(((m.start(), i, m) for i, (regex, _) in enumerate(rules) if (m := regex.search(bare, at))), key=lambda hit: hit[:2], default=None)
            if not best:
                break
            match, rule = best[2], rules[best[1]][1]
            if "name" in rule:
                out[start + match.start():start + match.end()] = [rule["name"]] * (match.end() - match.start())
            for group, capture in rule.get("captures", {}).items():
                low, high = match.span(int(group))
                out[start + low:start + high] = [capture["name"]] * (high - low)
            inside = rule if "begin" in rule else None
            at = match.end()
        start += len(line)
    return out


# ---- what the tokens are ----

token = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<number>[0-9](?:[0-9a-zA-Z_]|\.[0-9a-fA-F]|(?<=[eEpP])[+-](?=[0-9]))*)
    |(?P<attribute>@\s*\w+)|(?P<context>ctx\b(?:\.\w+)*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>:\+|->|[^\s\w])""", re.S | re.X)


def expected(text, match, before):
    """The scope's beginning, or None where anything will do."""
    kind, word = match.lastgroup, match.group()
    if kind in ("comment", "number"):
        return {"comment": "comment.", "number": "constant.numeric."}[kind]
    if kind == "attribute":
        return "storage.modifier.attribute." if re.sub(r"@\s*", "", word) in attributes else "keyword.operator"
    if kind == "context":
        return "variable.language."
    if kind == "sign":
        return None if word == "@" else ("punctuation.", "keyword.operator.", "keyword.control.")
    if before in ("kernel", "fn"):
        return "entity.name.function."
    if word in literals:
        return "constant.language."
    if word in keywords:
        return "keyword."
    if word in types:
        return "storage.type."
    if word in functions and re.compile(r"\s*\(").match(text, match.end()):
        return "support.function."
    return "keyword.control." if word == "unroll" and before == "<" else "variable.other."


def check_file(path):
    text = path.read_text()
    found, before, count = scopes(text), None, 0
    for match in token.finditer(text):
        want = expected(text, match, before)
        have = {found[i] for i in range(match.start(), match.end()) if text[i] != "\n" and (match.lastgroup != "context" or i < match.start() + 3)}
        if want and not all(scope and scope.startswith(want) for scope in have):
            line = text.count("\n", 0, match.start()) + 1
            failures.append(f"{path}:{line}: '{match.group()}' has {have}, expected {want}")
        if match.lastgroup != "comment":
            before = match.group()
        count += 1
    return count


count = 0
for folder in folders:
    for path in sorted(pathlib.Path(folder).rglob("*.phb")):
        count += check_file(path)
print(f"{count} tokens")
if count < 10000:
    failures.append("too few tokens to be all samples")
for failure in failures[:20]:
    print(failure, file=sys.stderr)
sys.exit(1 if failures else 0)

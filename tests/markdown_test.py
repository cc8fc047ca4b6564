"""The page's Markdown without a browser: a stream's tree is that of the whole text at every cut, nothing hostile becomes
more than text, and time stays linear. Also the values of the chat and engine views. In QuickJS (PyPI's quickjs)."""

import json
import pathlib
import random
import time

import pytest
import quickjs

from seed import SEED

FILES = pathlib.Path(__file__).parent.parent / "src/web_ui/files"


def as_script(name):
    """A module as a script: imports of others are left out, exports become globals."""
    lines = (FILES / name).read_text().splitlines()
    return "\n".join(line.removeprefix("export ") for line in lines if not line.startswith("import "))


@pytest.fixture(scope="module")
def script():
    context = quickjs.Context()
    for name in ("markdown.js", "engine_state.js"):
        context.eval(as_script(name))
    context.eval("const isConversation = (c) => typeof c.id === 'string' && Array.isArray(c.turns);")
    context.eval(as_script("chat_state.js"))
    context.eval("""
        // All at once, and in pieces; {open} is what the stream would show.
        function streamed(pieces) {
          const stream = new MarkdownStream(), blocks = [];
          let open = [];
          for (const piece of pieces) { const r = stream.append(piece); blocks.push(...r.final); open = r.open; }
          blocks.push(...stream.finish());
          return JSON.stringify(blocks);
        }
        const whole = (text) => JSON.stringify(parse(text));
        // The names of the elements that a tree would become, and where its links go.
        function kinds(nodes, out = new Set()) {
          for (const n of nodes) {
            out.add(n.t === 'a' ? 'a:' + n.href : n.t);
            for (const inner of [n.c, n.head?.flat(), n.rows?.flat(2), n.items?.flat()]) if (inner) kinds(inner, out);
          }
          return out;
        }
        const kindsOf = (text) => JSON.stringify([...kinds(parse(text))]);
        const textOf = (nodes) => nodes.map((n) => n.v ?? textOf([...(n.c ?? []), ...(n.head?.flat() ?? []), ...(n.rows?.flat(2) ?? []), ...(n.items?.flat() ?? [])])).join('');
    """)

    def call(name, *values):
        return context.eval(f"{name}({','.join(json.dumps(value) for value in values)})")

    return call


SAMPLES = [
    "# Title\n\nA *first* **second** `code` ~~gone~~ [link](https://a.example/x) https://b.example.\n\n---\n",
    "text\n- one\n- two\n  - inner\n\n    more\n- three\n\nafter\n1. a\n2. b\n\n   in b\n",
    "| a | b |\n|---|--:|\n| 1 | `x\\|y` |\n| 2 |\nno more\n\nx | y\n",
    "```python\nprint('**not bold**')\n\n# no heading\n```\nafter\n~~~\nopen until the end\n``\n",
    "> quote\n> - list in it\n>\n> ```\n> code\n> ```\nlazy\n",
    "a\n---\nb\n***x\n- -\n--- -\n-x\n1.x\n#x\n",
    "\u202eevil\u202c \u0000\u0007 <b>x</b> &amp; \\* \\<script>\n",
    "**a *b** c* __d_ e__ `` ` `` ![alt](http://x.example/i.png) [x](javascript:alert(1)) <https://c.example/>\n",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_every_cut_gives_the_same_tree(script, text):
    expected = script("whole", text)
    for cut in range(len(text) + 1):
        assert script("streamed", [text[:cut], text[cut:]]) == expected, text[:cut]
    assert script("streamed", list(text)) == expected


def test_random_texts_and_cuts(script):
    chance = random.Random(SEED)
    parts = ["\n", "\n\n", "- ", "* ", "1. ", "    ", "  ", "> ", "```", "~~~", "|", "|---|---|\n", "# ", "---", "***", "**", "*", "_", "`",
             "[", "](", ")", "https://x.example/", "word ", "a", "\\", "\t", "\r\n", "<", "&lt;", "~~", "!["]
    for _ in range(3000):
        text = "".join(chance.choices(parts, k=chance.randint(1, 40)))
        cuts = sorted(chance.randint(0, len(text)) for _ in range(chance.randint(1, 5)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
        if any(piece.endswith("\r") for piece in pieces):
            continue  # a server's pieces of text are tokens; what follows is another line either way
        assert script("streamed", pieces) == script("whole", text), (text, pieces)


HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<iframe srcdoc='<script>1</script>'>", "<svg/onload=alert(1)>",
    "[x](javascript:alert(1))", "[x]( JaVaScRiPt:alert(1))", "[x](data:text/html;base64,AAAA)", "[x](vbscript:x)", "[x](//evil.example)",
    "[x](java\tscript:alert(1))", "[x](&#106;avascript:alert(1))", "![x](javascript:alert(1))", "<javascript:alert(1)>", "[x](https://a\u0000b)",
    "[<b>](https://a.example\"onclick=alert(1))", "```<script>\nalert(1)\n```", "| <img src=x> |\n|---|\n| <b> |", "[a]: javascript:alert(1)\n[a]",
]
MEANT = {"p", "h", "ul", "ol", "quote", "code", "table", "hr", "text", "strong", "em", "del", "br"}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_are_text(script, text):
    for around in ("{}", "**{}**", "- {}", "> {}", "# {}", "| {} |\n|---|\n"):
        for kind in json.loads(script("kindsOf", around.format(text))):
            assert kind in MEANT or kind == "a:https://a.example", (kind, text)


def test_links_that_are_meant(script):
    assert "a:https://a.example/x?y=1" in json.loads(script("kindsOf", "[x](https://a.example/x?y=1 \"title\")"))
    assert "a:mailto:a@b.example" in json.loads(script("kindsOf", "[x](mailto:a@b.example)"))
    assert "a:https://a.example/y" in json.loads(script("kindsOf", "see https://a.example/y."))


def test_direction_marks_are_shown(script):
    assert "\u202e" not in script("whole", "a \u202e b \u2066 c")
    assert "U+202E" in script("whole", "a \u202e b")


# Each would take minutes if it were quadratic.
@pytest.mark.parametrize("text", ["*" * 200_000, "[" * 200_000, "`a" * 100_000, "**a " * 60_000, "> " * 60_000 + "x", "- " * 60_000,
                                  "|" * 200_000 + "\n" + "|-" * 100_000, "x" * 1_000_000, "[a](" * 50_000, "_a*" * 60_000, "- a\n" * 20_000,
                                  "https://" * 40_000, "\\" * 200_000, "```\n" + "x\n" * 100_000],
                         ids=lambda text: text[:8])
def test_large_texts_take_little_time(script, text):
    began = time.process_time()
    script("whole", text)
    assert time.process_time() - began < 20


def test_requests(script):
    conversation = {"settings": {"system": "Be brief.", "temperature": "0.5", "top_p": "", "top_k": "40", "max_tokens": "", "seed": "7", "pinned": True,
                                 "thinking": "on", "effort": "high", "tools": '{"name": "weather"}', "format": '{"type": "object"}', "logprobs": True}}
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "reasoning": "r", "error": "",
                                                "calls": [{"id": "c1", "name": "weather", "arguments": "{}"}]},
             {"role": "tool", "call": "c1", "content": "21"}]
    body = json.loads(script("((m, c, t) => JSON.stringify(requestOf(m, c, t)))", "tiny", conversation, turns))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "reasoning_content": "r",
         "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "21"}]
    assert (body["seed"], body["temperature"], body["top_k"], body["reasoning_effort"]) == (7, 0.5, 40, "high")
    assert body["tools"] == [{"type": "function", "function": {"name": "weather"}}]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert body["chat_template_kwargs"] == {"thinking": True} and body["top_logprobs"] == 5
    python = script("asPython", "http://127.0.0.1:1", body)
    compile(python, "example", "exec")
    assert "'\\''" in script("asCurl", "http://x", {"messages": [{"content": "it's"}]})


def test_the_engines_state_from_its_stream(script):
    """Rates, waits and hits of two sequences, the second of which waits and finds a block in the cache."""
    steps = [[0, 0, 1000, 130, 1, 1, 2, 0, 1, 0, 1, 0, 0, [[0, 0, 0, 1, 130, 3], [1, 0, 0, 1, 9, 0], [0, 0, 0, 2, 140, 2], [6, 0, 0, 2, 2, 0],
                                                           [7, 0, 0, 1, 0, 0], [9, 1, 0, 1, 0, 130]]],
             [1, 1000, 2000, 13, 2, 0, 3, 0, 2, 0, 2, 0, 0, [[7, 0, 0, 2, 128, 128], [9, 1, 0, 1, 130, 1], [9, 1, 0, 2, 128, 12]]],
             [2, 2000, 3000, 1, 0, 0, 0, 3, 0, 2, 0, 0, 0, [[9, 1, 0, 1, 131, 1], [10, 0, 0, 1, 3, 0], [10, 0, 0, 2, 1, 0]]]]
    state = json.loads(script("""((steps) => { const s = new EngineState(); s.addSteps(steps); s.addSteps(steps);
      const two = s.sequences.get(2);
      return JSON.stringify({n: s.steps.length, in: s.steps.map((x) => x.in), out: s.steps.map((x) => x.out), waits: two.waits, cached: two.cached,
        funnel: s.funnel, first: s.first, lanes: s.lanes, bucket: s.buckets}); })""", steps))
    assert state["n"] == 3  # told twice, kept once
    assert state["in"] == [130, 12, 0] and sum(state["out"]) == 4
    assert state["waits"] == [[0, 1000, "places"]] and state["cached"] == 128
    assert state["funnel"] == {"asked": 270, "matched": 128, "resumed": 128}
    assert state["first"] == [1000, 2000] and state["lanes"] == [None, None]

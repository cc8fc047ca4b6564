"""The page in a browser (Debian's chromium): a person's path, at 390 and 1,440 pixels, light and dark; hostile answers; the engine view.

SLUICE_PAGE_PICTURES=DIR keeps the pictures of each place."""

import http.client
import http.server
import json
import os
import subprocess
import threading
import time

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browser import CONTRAST, Browser
from server_process import BUILD, PATIENCE, Server, fetch

SHAPES = [(1440, 900, "light"), (390, 844, "dark"), (1440, 900, "dark"), (390, 844, "light")]


@pytest.fixture(scope="module")
def server():
    with Server("--max-num-seqs", "4", "--kv-cache-memory", "64MiB") as server:
        yield server


@pytest.mark.parametrize("width, height, scheme", SHAPES)
def test_a_persons_path(server, width, height, scheme):
    with Browser(server.url, width, height, scheme) as b:
        assert "What shall we try?" in b.one(".welcome").text
        b.is_clean()
        assert b.js(CONTRAST) == []
        assert b.axe() == []
        b.picture("welcome")

        b.say("What is 17 + 25?")
        first = b.answers()[0]
        assert first
        facts = b.one(".facts").text
        assert "in" in facts and "out" in facts and "seed" in facts
        assert b.axe() == []
        b.picture("answer")

        # Pinned, the seed gives the same answer again.
        b.press(".seed")
        assert b.one("[name=pinned]").is_selected()
        b.press("[aria-label='Close settings']")
        b.press(".turn.assistant [aria-label=Regenerate]")
        assert b.answers() == [first]

        # A long answer is stopped.
        b.js("sluice.chat.current.settings.max_tokens = '5000'; sluice.chat.current.settings.temperature = '1.8'")
        b.say("Count as far as you can, and tell a story of each number.")
        b.until(lambda: b.js("return sluice.chat.running?.turn.content.length > 5 || sluice.chat.running === null"))
        b.keys(Keys.ESCAPE)
        b.idle()
        assert len(b.answers()) == 2

        # An edit of the first message forgets what came after it.
        b.press(".turn.user [aria-label=Edit]")
        b.one("textarea.edit").send_keys(" And 1 + 1?")
        b.press(".edit-row .primary")
        b.idle()
        assert len(b.all(".turn.user")) == 1 and "And 1 + 1?" in b.one(".bubble").text

        # A second conversation; after a reload both are there.
        b.press(".new")
        b.say("Another conversation")
        b.idle()
        assert len(b.all(".conversation")) == 2
        b.until(lambda: b.js("return sluice.chat.running === null"))
        time.sleep(0.3)
        b.driver.refresh()
        b.until(lambda: b.js("return Boolean(window.sluice)"))
        b.until(lambda: len(b.all(".conversation")) == 2 and len(b.all(".turn.assistant")) == 1)
        if b.narrow:
            b.press(".menu")
            b.until(lambda: b.js("return document.querySelector('.side').getAnimations().length === 0"))
            b.picture("conversations")
        b.press(".conversation:not(.current) .open")
        assert "And 1 + 1?" in b.one(".bubble").text

        # The request as code.
        b.press("[aria-label='The request as code']")
        assert "curl " in b.one("dialog code").text
        b.press("dialog [role=tab]:nth-child(2)")
        assert "from openai import OpenAI" in b.one("dialog code").text
        b.press("dialog [aria-label=Close]")

        b.press("#settings-button")
        b.is_clean()
        assert b.js(CONTRAST) == []
        assert b.axe() == []
        b.picture("settings")
        b.press("[aria-label='Close settings']")

        # Export, delete all, import.
        exported = b.js("return JSON.stringify({format: 'sluice-conversations', version: 1, conversations: sluice.chat.conversations})")
        b.press(".side-foot .danger")
        b.press("dialog .primary")
        b.until(lambda: not b.all(".conversation"))
        b.js("""window.picked = import('/page/chat_state.js').then(async (state) => {
                  for (const c of state.readExport(arguments[0])) await sluice.chat.save(c); })""", exported)
        b.until(lambda: len(b.all(".conversation")) == 2)
        b.is_clean()


def test_thinking_tools_schema_and_probabilities(server):
    with Browser(server.url) as b:
        b.press("#settings-button")
        Select(b.one("[name=thinking]")).select_by_value("on")
        b.say("What is 12 + 30?")
        b.until(lambda: b.js("return sluice.chat.running === null && sluice.chat.current.turns.length === 2"))
        turn = b.js("return sluice.chat.current.turns[1]")
        assert turn["reasoning"] or turn["content"]
        if turn["reasoning"]:
            assert not b.js("return document.querySelector('.reasoning').open")
        b.picture("thinking")

        b.press(".new")
        Select(b.one("[name=thinking]")).select_by_value("off")
        b.press("[name=logprobs]")
        b.one("[name=format]").send_keys('{"type": "object", "properties": {"city": {"enum": ["Lisbon", "Paris"]}}, "required": ["city"], "additionalProperties": false}')
        b.say("Where?")
        b.idle()
        assert json.loads(b.js("return sluice.chat.current.turns[1].content"))["city"] in ("Lisbon", "Paris")
        tokens = b.all(".tok")
        assert tokens
        b.js("arguments[0].focus()", tokens[0])
        assert b.one(".tip").is_displayed() and len(b.all(".alt")) == 5
        b.keys(Keys.ARROW_RIGHT)
        assert b.js("return document.activeElement.dataset.at") == "1"
        b.picture("probabilities")

        # Calls are shown; what is typed in for them goes back.
        b.js("""const c = sluice.chat.current; c.settings.format = ''; c.settings.logprobs = false;
                c.settings.tools = '[{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]';
                c.turns.length = 0;
                c.turns.push({role: 'user', content: 'Weather in Lisbon?'}, {role: 'assistant', content: '', reasoning: '', tokens: [], usage: null, seed: null,
                  finish: 'tool_calls', error: '', ms: 1, first: 1, calls: [{id: 'call_1', name: 'weather', arguments: '{"city":"Lisbon"}'}]});
                sluice.chat.draw();""")
        assert '"city": "Lisbon"' in b.one(".call pre").text
        b.one(".results textarea").send_keys('{"temperature": 21}')
        b.picture("tool-call")
        b.press(".results button")
        b.idle()
        assert [t["role"] for t in b.js("return sluice.chat.current.turns")] == ["user", "assistant", "tool", "assistant"]
        assert not b.all(".turn.assistant .error"), b.one(".turn.assistant .error").text
        b.is_clean()

        b.js("sluice.chat.current.settings.tools = '['")
        b.say("And now?")
        b.idle()
        assert "Tools: not valid JSON" in b.one(".error").text


HOSTILE = """<script>window.hurt=1</script><img src=x onerror="window.hurt=2"><svg/onload=window.hurt=3>
[a](javascript:window.hurt=4) [b](data:text/html,<script>1</script>) [c](https://ok.example/) \u202e evil \u202c
```html
<script>window.hurt=5</script>
```
| <iframe src=javascript:window.hurt=6> |
|---|
| <b onclick=window.hurt=7>x</b> |
"""


class Scripted(http.server.BaseHTTPRequestHandler):
    """The server's page with answers of the test's own: `pieces` streamed."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        connection = http.client.HTTPConnection(self.server.origin)
        connection.request("GET", self.path, headers={"Accept": self.headers["Accept"] or ""})
        answer = connection.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name not in ("Connection", "Content-Length", "Server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for piece in self.server.pieces():
                chunk = {"seed": 1, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass


@pytest.fixture(scope="module")
def scripted(server):
    scripted = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    scripted.origin = server.url.removeprefix("http://")
    threading.Thread(target=scripted.serve_forever, daemon=True).start()
    yield scripted
    scripted.shutdown()


def test_hostile_answers_make_no_elements(scripted):
    with Browser(f"http://127.0.0.1:{scripted.server_port}") as b:
        for size in (1, 7, 1000):
            scripted.pieces = lambda size=size: [HOSTILE[i:i + size] for i in range(0, len(HOSTILE), size)]
            b.press(".new")
            b.say("Go")
            b.until(lambda: b.js("return sluice.chat.running === null && sluice.chat.current.turns.length === 2"))
            assert b.js("return sluice.chat.current.turns[1].content") == HOSTILE
            names = set(b.js("return [...document.querySelectorAll('.turn.assistant .markdown *')].map((e) => e.localName)"))
            assert names <= {"p", "a", "figure", "figcaption", "span", "button", "svg", "path", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td"}, names
            assert b.js("return [...document.querySelectorAll('.turn.assistant .markdown a')].map((a) => a.href)") == ["https://ok.example/"]
            handlers = b.js("return [...document.querySelectorAll('.turn.assistant *')].filter((e) => [...e.attributes].some((a) => a.name.startsWith('on'))).length")
            assert handlers == 0
        # An action that the page's policy forbids fails, wherever it comes from.
        assert b.js("try { document.createElement('div').inner" + "HTML = '<b>x</b>'; return 'made'; } catch (e) { return e.name; }") == "TypeError"
        assert b.js("return window.hurt ?? null") is None


def test_a_long_fast_answer_keeps_the_page_alive(scripted):
    """10,000 tokens, faster than any model here makes them, and lines of a megabyte."""
    with Browser(f"http://127.0.0.1:{scripted.server_port}") as b:
        words = [f"word{i} " + ("\n\n" if i % 60 == 59 else "\n- **item** " if i % 17 == 0 else "") for i in range(10_000)]

        def pieces():
            for i in range(0, len(words), 10):
                yield "".join(words[i:i + 10])
                time.sleep(0.002)

        scripted.pieces = pieces
        b.say("Go")
        b.until(lambda: b.js("return sluice.chat.running === null && sluice.chat.current.turns.length === 2"))
        assert b.js("return sluice.chat.current.turns[1].content") == "".join(words)
        print("longest draw of the view:", b.js("return sluice.chat.longestDraw"), "ms")
        scripted.pieces = lambda: ["x" * 1000] * 1000 + ["\n\ndone"]
        b.press(".new")
        b.say("Go")
        b.until(lambda: b.js("return sluice.chat.running === null && sluice.chat.current.turns.length === 2"))
        assert len(b.one(".turn.assistant .markdown").get_attribute("textContent")) == 1_000_004


# For each frame over 50 ms: how long the page's scripts ran in it, and the frame.
LONG_FRAMES = """
window.frames_ = [];
new PerformanceObserver((list) => { for (const f of list.getEntries()) frames_.push([f.scripts.reduce((sum, s) => sum + s.duration - s.forcedStyleAndLayoutDuration, 0), f.duration]); })
  .observe({type: 'long-animation-frame', buffered: false});
"""


@pytest.mark.skipif("SLUICE_PAGE_LONG" not in os.environ, reason="takes a minute, and measures time: SLUICE_PAGE_LONG=1")
def test_ten_thousand_tokens_at_200_a_second_without_a_long_frame(scripted):
    with Browser(f"http://127.0.0.1:{scripted.server_port}") as b:
        words = [f"word{i} " + ("\n\n" if i % 60 == 59 else "\n- **item** " if i % 17 == 0 else "") for i in range(10_000)]

        def pieces():
            began = time.monotonic()
            for i, word in enumerate(words):
                time.sleep(max(0.0, began + i / 200 - time.monotonic()))
                yield word

        scripted.pieces = pieces
        b.js(LONG_FRAMES)
        b.say("Go")
        b.until(lambda: b.js("return sluice.chat.running === null && sluice.chat.current.turns.length === 2"), 120)
        assert b.js("return sluice.chat.current.turns[1].content") == "".join(words)
        frames = b.js("return frames_")
        print(f"longest draw {b.js('return sluice.chat.longestDraw'):.1f} ms; {len(frames)} frames over 50 ms, "
              f"scripts in one {max((own for own, _ in frames), default=0):.1f} ms at most, the frame {max((all_ for _, all_ in frames), default=0):.1f}")
        assert b.js("return sluice.chat.longestDraw") <= 50
        assert all(own <= 50 for own, _ in frames), frames


@pytest.mark.parametrize("width, height, scheme", SHAPES)
def test_the_engine_at_work(server, width, height, scheme):
    stop = threading.Event()

    def load(i):
        while not stop.is_set():
            fetch(server.url + "/v1/chat/completions", {"messages": [{"role": "system", "content": "You are kind. " * 40}, {"role": "user", "content": f"Story {i}: " + "more " * 90 * i}],
                                                        "max_tokens": 150, "ignore_eos": True, "temperature": 1})

    threads = [threading.Thread(target=load, args=(i,)) for i in range(7)]
    for thread in threads:
        thread.start()
    try:
        with Browser(server.url + "/#engine", width, height, scheme) as b:
            b.until(lambda: b.js("return sluice.engine.state.steps.length > 50 && sluice.engine.state.snapshot !== null"))
            b.until(lambda: b.js("return sluice.engine.state.snapshot.sequences.some((s) => s.reason === 'places')"))
            b.until(lambda: b.js("return [...sluice.engine.state.sequences.values()].some((s) => s.cached > 0)"))
            b.until(lambda: b.all(".queue tbody tr"))
            time.sleep(2)
            b.is_clean()
            assert b.js(CONTRAST) == []
            assert b.axe() == []
            b.picture("engine")
            b.press(".card header .pill[aria-pressed]")
            step = b.js("return sluice.engine.state.steps.at(-1).number")
            b.js("document.querySelector('.timeline canvas').focus()")
            b.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
            text = b.one(".step-text").text
            assert text.startswith("Step ") and int(text.split()[1].rstrip(":")) <= step
            b.picture("paused")
            b.js("document.querySelector('.engine').scrollTop = 640")
            time.sleep(0.3)
            b.picture("memory")
            b.js("const c = sluice.engine; c.memory.tokens.value = '1000'; c.memory.drawNeed();")
            assert "needs 8 latent pages" in b.one(".need").text
            b.press(".card header .pill[aria-pressed]")
            before = b.js("return sluice.engine.state.steps.at(-1).number")
            b.until(lambda: b.js("return sluice.engine.state.steps.at(-1).number") > before)
            # In the other view nothing is sent.
            b.js("location.hash = '#chat'")
            b.until(lambda: b.js("return sluice.engine.abort === null"))
            print("longest draw of the engine view:", b.js("return sluice.engine.longest"), "ms")
            b.is_clean()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    lines = [json.loads(line) for line in fetch(server.url + "/debug/engine/trace").text.splitlines()]
    assert lines and all({"timestamp", "input_length", "output_length", "step"} <= set(line) for line in lines)
    assert fetch(server.url + "/debug/engine/perfetto").json()["traceEvents"]


# Three sequences of which everything happens, in steps of 5 ms, too narrow for gaps between them, that end
# at 10 s: rows as docs/server.md says.
def eventful_steps():
    steps = []
    for i in range(360):
        at, items = 8_200_000 + 5_000 * i, []
        if i == 0:
            items += [[0, 0, 0, who, 600, 900] for who in (1, 2, 3)] + [[7, 0, 0, 1, 256, 256], [7, 0, 0, 2, 0, 0], [7, 0, 0, 3, 0, 0]]
        if i == 160:
            items += [[8, 0, 0, 2, 610, 0], [8, 1, 0, 3, 610, 0]]
        if i == 240:
            items += [[7, 0, 0, 2, 0, 0], [7, 1, 0, 3, 0, 0]]
        for who in (1, 2, 3):
            if i < 140:
                items.append([9, 0, 0, who, 4 * i, 4])
            elif who == 1 or i < 160 or i >= 320 or (who == 3 and i >= 240):
                items.append([9, 0, 0, who, 600 + i, 1])
            elif i >= 240:
                items.append([9, 0, 0, who, 7 * (i - 240), 7 | 7 << 16])
        steps.append([900_000 + i, at, at + 5_000, 40, 3, 0, 9, 9, 1, 1, 3, 0, 0, items])
    return steps


@pytest.mark.parametrize("width, height, scheme", SHAPES)
def test_kinds_are_told_apart_without_colours(server, width, height, scheme):
    """In the legends, in the timeline and in the map: every two are different for somebody who sees no colours."""
    with Browser(server.url + "/#engine", width, height, scheme) as b:
        b.until(lambda: b.js("return sluice.engine.state.snapshot !== null"))
        b.js("""
            const e = sluice.engine, snapshot = e.state.snapshot;
            e.connect = () => {};  // nothing comes but what the test says
            e.abort.abort();
            e.reset();
            snapshot.latents.cells = 'f000f000f000'.repeat(40);
            e.take('snapshot', JSON.stringify(snapshot));
            e.take('steps', JSON.stringify(arguments[0]));
            e.zoom.value = '2000000';
            e.zoom.dispatchEvent(new Event('change'));
            e.pause(true);
            e.timeline.end = 10e6;
            e.draw();""", eventful_steps())
        b.picture("kinds")

        def told_apart(places, size):
            """`places` by name: the middles."""
            seen = {name: b.brightness(x - size / 2, y - size / 2, size, size) for name, (x, y) in places.items()}
            names = list(seen)
            for i, one in enumerate(names):
                for other in names[:i]:
                    difference = sum(abs(p - q) for p, q in zip(seen[one], seen[other])) / len(seen[one])
                    assert difference > 8, f"{one} and {other} look alike: {difference:.1f} of 255"

        def middles(selector):
            return b.js("""document.querySelector(arguments[0]).scrollIntoView({block: 'center'});
                return Object.fromEntries([...document.querySelectorAll(arguments[0] + ' span')].map((s) => {
                  const r = s.firstChild.getBoundingClientRect(); return [s.textContent, [r.x + r.width / 2, r.y + r.height / 2]]; }));""", selector)

        told_apart(middles(".kinds"), 13)
        box = b.js("const r = document.querySelector('.timeline canvas').getBoundingClientRect(); return [r.x, r.y, r.width]")
        told_apart({name: (box[0] + (at - 8e6) / 2e6 * box[2], box[1] + 46 + 20 * lane + 8.5)
                    for name, at, lane in (("prompt", 8.6e6, 0), ("decode", 9.5e6, 0), ("cached", 8.2e6, 0), ("preempted", 9e6, 1),
                                           ("waits", 9.2e6, 1), ("again", 9.55e6, 1), ("swapped", 9e6, 2))}, 13)
        told_apart(middles(".cells"), 13)
        cell = b.js("const c = document.querySelector('.map canvas'); c.scrollIntoView({block: 'center'}); const r = c.getBoundingClientRect();"
                    "return [r.x, r.y, sluice.engine.memory.latents.size]")
        told_apart({name: (cell[0] + (i + 0.5) * cell[2], cell[1] + min(cell[2], 22) / 2) for i, name in enumerate(("used", "shared", "cached", "vacant"))}, int(cell[2]))


@pytest.mark.skipif("SLUICE_PAGE_MINUTES" not in os.environ, reason="takes so many minutes: SLUICE_PAGE_MINUTES=60")
def test_the_engine_view_keeps_its_size(server):
    """At 50 steps a second: one request of 50 tokens a second. What the page holds when it has everything it keeps, and at the end."""
    minutes = int(os.environ["SLUICE_PAGE_MINUTES"])
    load = subprocess.Popen([BUILD / "sluice", "bench", "serve", server.url, "--rate", "1", "--requests", str(60 * minutes + 120), "--input", "64", "--output", "50"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Browser(server.url + "/#engine") as b:
            b.cdp("Performance.enable")
            sizes = []
            for minute in range(1, minutes + 1):
                time.sleep(60)
                b.cdp("HeapProfiler.collectGarbage")
                now = {m["name"]: m["value"] for m in b.cdp("Performance.getMetrics")["metrics"]}
                sizes.append((now["JSHeapUsedSize"] / 2**20, now["Nodes"], now["JSEventListeners"]))
                print(f"minute {minute}: {sizes[-1][0]:.2f} MiB, {now['Nodes']:.0f} nodes, step {b.js('return sluice.engine.state.steps.at(-1).number')}", flush=True)
            assert load.poll() is None, "the load ended"
            b.is_clean()
    finally:
        load.terminate()
        load.wait(PATIENCE)
    settled, end = (max(size for size, _, _ in part) for part in (sizes[minutes // 4:minutes // 2], sizes[3 * minutes // 4:]))
    assert end <= 1.1 * settled + 1, sizes
    assert sizes[-1][1] <= 1.2 * sizes[minutes // 4][1] + 50 and sizes[-1][2] <= sizes[minutes // 4][2] + 10, sizes


def test_by_keyboard_alone(server):
    with Browser(server.url, motion="reduce") as b:
        b.js("document.activeElement.blur()")
        seen = []
        for _ in range(25):
            b.keys(Keys.TAB)
            seen.append(b.js("const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent.trim()"))
        for name in ("Skip to the content", "Chat", "Engine", "Settings", "Light or dark", "New chat", "Export", "Import", "Delete all", "Message"):
            assert name in seen, (name, seen)
        assert b.js("return getComputedStyle(document.querySelector('.side')).transitionDuration") in ("0s", "")
        b.js("document.getElementById('message').focus()")
        b.keys("What is 2 + 3?", Keys.ENTER)
        b.until(lambda: len(b.all(".turn.assistant:not(.live)")) == 1)
        webdriver.ActionChains(b.driver).key_down(Keys.ALT).send_keys("n").key_up(Keys.ALT).perform()
        b.until(lambda: b.all(".welcome"))

"""The server as its clients see it: the real program with the embedded model, driven by the `openai` package."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

import openai
import pytest

ROOT = pathlib.Path(__file__).parent.parent
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD_DIR", ROOT / "build"))
# Sanitizer builds and busy machines are slow; a healthy server needs a few seconds.
PATIENCE = 120

QUESTION = [{"role": "user", "content": "What is 17 + 25?"}]
ENDLESS = {"max_tokens": 20000, "extra_body": {"ignore_eos": True}}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather for a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.text = response.status, response.headers, response.read().decode()

    def json(self):
        return json.loads(self.text)


def fetch(url, body=None):
    """GET, or POST of bytes or of a value as JSON."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    try:
        connection.request("GET" if body is None else "POST", parts.path, body)
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Server:
    """A running `sluice serve`; `log` gathers its stderr."""

    def __init__(self, *flags):
        self.process = subprocess.Popen([BUILD / "sluice", "serve", "--port", "0", *flags], stderr=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.log = []
        self.url = None
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._started.wait(PATIENCE), "the server did not start:\n" + "".join(self.log)
        assert self.url, "the server ended:\n" + "".join(self.log)
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE)

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.match(r"Serving .* on (http://\S+)$", line):
                self.url = found[1]
                self._started.set()
        self._started.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def metric(self, name):
        text = fetch(self.url + "/metrics").text
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])

    def wait_for(self, name, condition):
        """Waits until a metric fulfils a condition; its last value and the seconds that it took."""
        start = time.monotonic()
        while not condition(value := self.metric(name)) and time.monotonic() - start < PATIENCE:
            time.sleep(0.02)
        return value, time.monotonic() - start


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running
        assert running.process.poll() is None, "the server died:\n" + "".join(running.log)


@pytest.fixture(scope="module")
def model(server):
    (only,) = server.client.models.list().data
    assert only.id == "sluice-tiny-v4"
    return only.id


def chat(server, model, **more):
    return server.client.chat.completions.create(**{"model": model, "messages": QUESTION, "temperature": 0, **more})


def error_of(call):
    with pytest.raises(openai.APIStatusError) as caught:
        call()
    return caught.value


# --- answers ----------------------------------------------------------------------------------------------------------


def test_chat(server, model):
    answer = chat(server, model)
    assert "42" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == model and answer.object == "chat.completion" and answer.system_fingerprint
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0


def test_chat_stream_equals_whole(server, model):
    whole = chat(server, model)
    chunks = list(chat(server, model, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({c.id for c in chunks}) == 1


def test_thinking(server, model):
    on = chat(server, model, extra_body={"chat_template_kwargs": {"thinking": True}})
    assert on.choices[0].message.reasoning_content
    assert "42" in on.choices[0].message.content
    assert "</think>" not in on.choices[0].message.content
    assert 0 < on.usage.completion_tokens_details.reasoning_tokens < on.usage.completion_tokens
    stream = chat(server, model, stream=True, extra_body={"chat_template_kwargs": {"thinking": True}})
    deltas = [chunk.choices[0].delta for chunk in stream]
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert reasoning == on.choices[0].message.reasoning_content
    off = chat(server, model, extra_body={"chat_template_kwargs": {"thinking": False}})
    assert not getattr(off.choices[0].message, "reasoning_content", None)


def test_tool_call(server, model):
    ask = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [WEATHER]}
    whole = chat(server, model, **ask)
    (call,) = whole.choices[0].message.tool_calls
    assert whole.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "get_weather" and call.type == "function" and call.id.startswith("call_")
    assert json.loads(call.function.arguments) == {"city": "Paris"}

    name, arguments, reasons = "", "", []
    for chunk in chat(server, model, stream=True, **ask):
        for piece in chunk.choices[0].delta.tool_calls or []:
            name += piece.function.name or ""
            arguments += piece.function.arguments or ""
        reasons.append(chunk.choices[0].finish_reason)
    assert name == "get_weather" and json.loads(arguments) == {"city": "Paris"} and reasons[-1] == "tool_calls"

    again = chat(server, model, tools=[WEATHER], messages=ask["messages"] + [
        whole.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 21 degrees."}])
    assert again.choices[0].message.content


def test_logprobs_of_every_token(server, model):
    answer = chat(server, model, logprobs=True, top_logprobs=5,
                  extra_body={"chat_template_kwargs": {"thinking": True}})
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    text = b"".join(bytes(token.bytes) for token in tokens).decode()
    assert answer.choices[0].message.reasoning_content in text and answer.choices[0].message.content in text
    for token in tokens:
        assert len(token.top_logprobs) == 5
        assert token.top_logprobs[0].token == token.token, "greedy takes the best token"
        assert token.logprob == token.top_logprobs[0].logprob <= 0
        best = [top.logprob for top in token.top_logprobs]
        assert best == sorted(best, reverse=True) and sum(2.718281828 ** value for value in best) <= 1.0001


def test_seed_decides_and_defaults_sample(server, model):
    ask = {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 24, "temperature": 1.5}
    first, second = (chat(server, model, seed=7, **ask).choices[0].message.content for _ in range(2))
    assert first == second
    assert len({chat(server, model, seed=seed, **ask).choices[0].message.content for seed in range(5)}) > 1


def test_completions(server, model):
    create = server.client.completions.create
    whole = create(model=model, prompt="In the beginning", temperature=0, max_tokens=12)
    assert whole.usage.completion_tokens == 12 and whole.choices[0].finish_reason == "length"
    streamed = create(model=model, prompt="In the beginning", temperature=0, max_tokens=12, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text
    both = create(model=model, prompt=["In the beginning", "And it came"], temperature=0, max_tokens=12, echo=True)
    assert both.choices[0].text == "In the beginning" + whole.choices[0].text
    assert both.choices[1].text.startswith("And it came") and both.choices[1].index == 1
    scored = create(model=model, prompt=[5, 6, 7], temperature=0, max_tokens=3, logprobs=2).choices[0].logprobs
    assert len(scored.tokens) == len(scored.token_logprobs) == len(scored.top_logprobs) == len(scored.text_offset) == 3


def test_stop_strings(server, model):
    whole = chat(server, model).choices[0].message.content
    for stop in (whole[2:5], [whole[-3:], "never"]):
        answer = chat(server, model, stop=stop)
        first = stop if isinstance(stop, str) else stop[0]
        assert answer.choices[0].message.content == whole[:whole.index(first)]
        assert answer.choices[0].finish_reason == "stop"


def test_answers_do_not_depend_on_company(server, model):
    def ask(i):
        return chat(server, model, messages=[{"role": "user", "content": f"What is {i} plus {2 * i}?"}],
                    logprobs=True).choices[0]

    alone = [ask(i) for i in range(8)]
    together = [None] * 8

    def answer(i):
        together[i] = ask(i)

    threads = [threading.Thread(target=answer, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [c.message.content for c in together] == [c.message.content for c in alone]
    assert [c.logprobs for c in together] == [c.logprobs for c in alone]


# --- clients that leave -----------------------------------------------------------------------------------------------


def test_cancelled_stream_frees_its_memory(server, model):
    cancelled = server.metric("sluice_requests_cancelled_total")
    stream = chat(server, model, stream=True, **ENDLESS)
    for _, _chunk in zip(range(5), stream):
        pass
    assert server.metric("sluice_num_requests_running") == 1
    assert server.metric("sluice_kv_cache_bytes_used") > 0
    stream.close()
    used, seconds = server.wait_for("sluice_kv_cache_bytes_used", lambda value: value == 0)
    assert used == 0 and seconds < 5
    assert server.metric("sluice_num_requests_running") == 0
    assert server.metric("sluice_requests_cancelled_total") == cancelled + 1


def test_a_waiting_client_that_leaves_cancels(server, model):
    with pytest.raises(openai.APITimeoutError):
        chat(server, model, timeout=1, **ENDLESS)
    used, seconds = server.wait_for("sluice_kv_cache_bytes_used", lambda value: value == 0)
    assert used == 0 and seconds < 5


# --- errors -----------------------------------------------------------------------------------------------------------


def test_unknown_model(server):
    error = error_of(lambda: chat(server, "gpt-4"))
    assert isinstance(error, openai.NotFoundError) and error.param == "model"
    assert "gpt-4" in error.message and "sluice-tiny-v4" in error.message


@pytest.mark.parametrize("field, value", [
    ("temperature", 9), ("temperature", "hot"), ("top_p", 0), ("max_tokens", -1), ("n", 3), ("stop", [""] * 3),
    ("top_logprobs", 99), ("tool_choice", "required"), ("presence_penalty", 1), ("colour", "blue"), ("seed", "x"),
    ("messages", []), ("messages", [{"role": "robot", "content": "x"}]), ("logit_bias", {"1": 5})])
def test_absurd_parameters(server, model, field, value):
    answer = fetch(server.url + "/v1/chat/completions", {"messages": QUESTION, "model": model, field: value})
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["param"] == field and field in error["message"] and error["type"] == "invalid_request_error"


def test_prompt_beyond_the_context(server, model):
    error = error_of(lambda: chat(server, model, messages=[{"role": "user", "content": "word " * 80_000}]))
    assert isinstance(error, openai.BadRequestError) and error.code == "context_length_exceeded"
    error = error_of(lambda: chat(server, model, max_tokens=10_000_000))
    assert isinstance(error, openai.BadRequestError) and error.param == "max_tokens"


@pytest.mark.parametrize("body, words", [
    (b'{"messages": [', "line 1"), (b"", "request body"), (b'{"messages": "\xff"}', "UTF-8, found an invalid byte at offset 14"), (b"[" * 100_000, "request body"),
    (b'{"stream": true, "stream": false}', "stream"), (b"null", "JSON object")])
def test_malformed_bodies(server, body, words):
    answer = fetch(server.url + "/v1/chat/completions", body)
    assert answer.status == 400 and words in answer.json()["error"]["message"]


def test_large_bodies(server):
    url = server.url + "/v1/completions"
    assert fetch(url, {"prompt": [5], "max_tokens": 1, "user": "x" * 2_000_000}).status == 200
    assert fetch(url, {"prompt": "x" * (16 << 20)}).status == 413


def test_paths_and_methods(server):
    assert fetch(server.url + "/nowhere").status == 404
    answer = fetch(server.url + "/v1/chat/completions")
    assert answer.status == 405 and answer.headers["allow"] == "POST" and "error" in answer.json()
    assert fetch(server.url + "/health").status == 200
    assert fetch(server.url + "/").json()["model"] == "sluice-tiny-v4"


# --- start and end ----------------------------------------------------------------------------------------------------


def test_served_model_name(model):
    with Server("--served-model-name", "org/name") as other:
        assert other.client.models.retrieve("org/name").id == "org/name"
        assert isinstance(error_of(lambda: chat(other, model)), openai.NotFoundError)
        assert "curl " in "".join(other.log)


def test_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run([BUILD / "sluice", "serve", "--port", str(port)], capture_output=True, text=True,
                               timeout=PATIENCE)
    assert ended.returncode != 0 and f"127.0.0.1:{port}" in ended.stderr and "in use" in ended.stderr


def test_sigterm_lets_answers_finish():
    with Server() as server:
        stream = chat(server, "sluice-tiny-v4", stream=True, max_tokens=200, extra_body={"ignore_eos": True})
        next(iter(stream))
        server.process.send_signal(signal.SIGTERM)
        chunks = list(stream)
        assert chunks[-1].choices[0].finish_reason == "length"
        assert server.process.wait(PATIENCE) == 0


def test_drain_timeout_ends_the_rest():
    with Server("--drain-timeout", "0.5") as server:
        stream = chat(server, "sluice-tiny-v4", stream=True, **ENDLESS)
        next(iter(stream))
        server.process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        with pytest.raises(openai.APIError):
            list(stream)
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - start < 10

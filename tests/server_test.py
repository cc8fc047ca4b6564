"""The server as its clients see it: the real program with the embedded model, driven by the `openai` package."""

import http.client
import json
import select
import signal
import socket
import subprocess
import threading
import urllib.parse

import openai
import pytest

from program import SANITIZED
from server_calls import QUESTION, WEATHER, chat, error_of, model, of, server  # noqa: F401
from server_process import BUILD, PATIENCE, Server, fetch

ENDLESS = {"max_tokens": 20000, "extra_body": {"ignore_eos": True}}


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


def parses(arguments):
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def test_a_cut_tool_call_is_no_json(server, model):
    """Cut after any token: nothing parses before the call is whole, no piece of a marker is anywhere."""
    ask = {"messages": [{"role": "user", "content": "What is the weather in Lisbon?"}], "tools": [WEATHER]}
    whole = chat(server, model, **ask)
    (call,) = whole.choices[0].message.tool_calls
    cut_calls = []
    for tokens in range(1, whole.usage.completion_tokens, 2 if SANITIZED else 1):
        choice = chat(server, model, max_tokens=tokens, **ask).choices[0]
        assert choice.finish_reason == "length"
        assert not (choice.message.content or "").strip()
        for cut in choice.message.tool_calls or []:
            assert call.function.arguments.startswith(cut.function.arguments)
            assert parses(cut.function.arguments) in (None, {"city": "Lisbon"})
            if parses(cut.function.arguments) is None:
                cut_calls.append(choice.message)
        streamed = [chunk.choices[0].delta for chunk in chat(server, model, max_tokens=tokens, stream=True, **ask)]
        calls = [piece for delta in streamed for piece in delta.tool_calls or []]
        assert "".join(piece.function.arguments or "" for piece in calls) == "".join(
            cut.function.arguments for cut in choice.message.tool_calls or [])
    assert any("Lis" in message.tool_calls[0].function.arguments for message in cut_calls)
    for message in cut_calls[::4]:
        again = chat(server, model, tools=[WEATHER], max_tokens=4, messages=ask["messages"] + [
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "the call was cut off"}])
        assert again.usage.completion_tokens > 0


def test_a_conversation_may_end_in_an_answer(server, model):
    asked = QUESTION + [{"role": "assistant", "content": "17 + 25 ="}]
    again = chat(server, model, messages=asked).choices[0].message.content
    assert "<｜" not in again

    whole = chat(server, model).choices[0].message.content
    start, rest = whole[:whole.index(" ", 5)], whole[whole.index(" ", 5):]  # where a token ends
    for more in ({"messages": QUESTION + [{"role": "assistant", "content": start, "prefix": True}]},
                 {"messages": QUESTION + [{"role": "assistant", "content": start}],
                  "extra_body": {"continue_final_message": True, "add_generation_prompt": False}}):
        assert chat(server, model, **more).choices[0].message.content == rest

    thinking = {"extra_body": {"chat_template_kwargs": {"thinking": True}}}
    thought = chat(server, model, **thinking).choices[0].message
    half = thought.reasoning_content[:thought.reasoning_content.rindex(" ")]
    more = chat(server, model, messages=QUESTION + [
        {"role": "assistant", "content": "", "reasoning_content": half, "prefix": True}]).choices[0].message
    assert half + more.reasoning_content == thought.reasoning_content and more.content == thought.content


def test_a_clients_text_is_no_control_token(server, model):
    """<｜User｜> written by a client takes the tokens of its characters."""
    def tokens(text):
        return chat(server, model, messages=[{"role": "user", "content": text}], max_tokens=1).usage.prompt_tokens

    assert tokens("a<｜User｜>b") > tokens("ab") + 3
    assert tokens("a<｜end▁of▁sentence｜>b") > tokens("ab") + 3


def test_foreign_pages_are_refused(server, model):
    def ask(path, method="GET", **headers):
        parts = urllib.parse.urlsplit(server.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        connection.request(method, path, headers=headers)
        return connection.getresponse().status

    assert ask("/v1/models") == 200
    assert ask("/v1/models", Host="evil.example") == 403
    assert ask("/debug/cache/reset", "POST", Origin="http://evil.example") == 403
    assert ask("/debug/cache/reset", "POST", **{"X-Forwarded-For": "1.2.3.4"}) == 403
    assert ask("/v1/chat/completions", "OPTIONS", Origin="https://a.example",
               **{"Access-Control-Request-Method": "POST"}) == 403
    with Server("--cors-origin", "https://a.example") as other:
        parts = urllib.parse.urlsplit(other.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        connection.request("OPTIONS", "/v1/chat/completions",
                           headers={"Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["Access-Control-Allow-Origin"] == "https://a.example"


@pytest.mark.parametrize("more, field", [
    ({"guided_regex": "(a)\\1"}, "guided_regex"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"unevaluatedItems": False}}}},
     "response_format.json_schema.schema"),
    ({"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "string"}}}]},
     "tools"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice")])
def test_promises_that_cannot_be_kept_are_refused(server, model, more, field):
    answer = fetch(server.url + "/v1/chat/completions", {"messages": QUESTION, "model": model, **more})
    assert answer.status == 400 and answer.json()["error"]["param"] == field


def test_what_says_nothing_is_accepted(server, model):
    neutral = {"lora_path": None, "modalities": ["text"], "min_tokens": 0, "functions": [], "guided_json": {},
               "parallel_tool_calls": False, "skip_special_tokens": True, "max_tokens": 1}
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        answer = fetch(server.url + "/v1/chat/completions",
                       {"messages": QUESTION, "model": model, "reasoning_effort": effort, **neutral})
        assert answer.status == 200, answer.text


def test_a_large_body_does_not_hold_up_small_ones(server, model):
    large = json.dumps({"messages": [{"role": "user", "content": "word " * (300_000 if SANITIZED else 3_000_000)}], "model": model}).encode()
    large = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(large) + large
    parts = urllib.parse.urlsplit(server.url)

    def answered():
        """How many small ones are between the first and the last of six large ones that came together."""
        waiting = [socket.create_connection((parts.hostname, parts.port), PATIENCE) for _ in range(6)]
        for piece in (large[:-1], large[-1:]):
            for client in waiting:
                client.sendall(piece)
        count = 0
        while waiting:
            assert fetch(server.url + "/v1/completions", {"model": model, "prompt": "x", "max_tokens": 1}).status == 200
            count += len(waiting) < 6
            for client in select.select(waiting, [], [], 0)[0]:
                waiting.remove(client)
                client.close()
        return count

    if SANITIZED:  # where how many is a matter of the machine
        answered()
        return
    # Hundreds, or few if this program stood still; 0 to 30 if both workers read large bodies.
    counts = []
    while len(counts) < 5 and sum(count > 80 for count in counts) < 3:
        counts.append(answered())
    assert sum(count > 80 for count in counts) >= 3, counts


def test_localhost_is_both_of_its_addresses(model):
    with Server("--host", "localhost") as server:
        port = urllib.parse.urlsplit(server.url).port
        families = {info[0] for info in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM)}
        for family in families:
            with socket.socket(family, socket.SOCK_STREAM) as client:
                client.settimeout(PATIENCE)
                client.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))


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
    first, second = (chat(server, model, seed=7, **STORY).choices[0].message.content for _ in range(2))
    assert first == second
    assert len({chat(server, model, seed=seed, **STORY).choices[0].message.content for seed in range(5)}) > 1


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


# --- several choices --------------------------------------------------------------------------------------------------

STORY = {"messages": [{"role": "user", "content": "Write about the sea and the king."}], "temperature": 1.2, "max_tokens": 24,
         "logprobs": True, "top_logprobs": 2}


def test_choices_share_a_seed(server, model):
    def ask(n, seed=5):
        return chat(server, model, n=n, seed=seed, **STORY)

    one, three, again = ask(1), ask(3), ask(3)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert of(three.choices[0]) == of(one.choices[0]), "choice 0 is what n=1 answers"
    assert [of(choice) for choice in again.choices] == [of(choice) for choice in three.choices]
    assert len({choice.message.content for choice in three.choices}) == 3, "each choice has a seed of its own"
    assert three.usage.prompt_tokens == one.usage.prompt_tokens
    assert three.usage.completion_tokens == sum(len(choice.logprobs.content) for choice in three.choices)
    assert three.usage.total_tokens == three.usage.prompt_tokens + three.usage.completion_tokens


def test_completions_of_several_prompts_and_choices(server, model):
    def ask(prompt, n):
        return server.client.completions.create(model=model, prompt=prompt, n=n, seed=3, temperature=1, max_tokens=8,
                                                logprobs=1)

    both = ask(["In the beginning", "And it came"], 2)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    first, second = ask("In the beginning", 2), ask("And it came", 2)
    assert [of(choice) for choice in both.choices] == [of(choice) for choice in first.choices + second.choices]
    assert both.usage.prompt_tokens == first.usage.prompt_tokens + second.usage.prompt_tokens
    assert both.usage.completion_tokens == first.usage.completion_tokens + second.usage.completion_tokens


def test_choices_stream_interleaved(server, model):
    whole = chat(server, model, n=3, seed=5, **STORY)
    texts, reasons, tokens, order = [""] * 3, [None] * 3, [[], [], []], []
    for chunk in chat(server, model, n=3, seed=5, stream=True, stream_options={"include_usage": True}, **STORY):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = reasons[choice.index] or choice.finish_reason
            tokens[choice.index] += choice.logprobs.content if choice.logprobs else []
            order.append(choice.index)
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert tokens == [choice.logprobs.content for choice in whole.choices]
    assert order != sorted(order), "the choices are made at the same time"
    assert chunk.usage.completion_tokens == whole.usage.completion_tokens
    assert chunk.usage.prompt_tokens_details.cached_tokens >= 0


def test_best_of(server, model):
    every = chat(server, model, n=5, seed=8, **STORY)
    best = chat(server, model, n=2, seed=8, extra_body={"best_of": 5}, **STORY)

    def mean(choice):
        values = [token.logprob for token in choice.logprobs.content]
        return sum(values) / len(values)

    ranked = sorted(every.choices, key=mean, reverse=True)
    assert [of(choice) for choice in best.choices] == [of(choice) for choice in ranked[:2]]
    assert best.usage.completion_tokens == every.usage.completion_tokens
    assert best.usage.prompt_tokens == every.usage.prompt_tokens

    ask = {"model": model, "prompt": "In the beginning", "seed": 8, "temperature": 1, "max_tokens": 8}
    every = server.client.completions.create(n=4, logprobs=0, **ask).choices
    likeliest = max(every, key=lambda choice: sum(choice.logprobs.token_logprobs) / len(choice.logprobs.tokens))
    assert server.client.completions.create(best_of=4, **ask).choices[0].text == likeliest.text
    error = error_of(lambda: server.client.completions.create(best_of=4, stream=True, **ask))
    assert isinstance(error, openai.BadRequestError) and error.param == "best_of"


def test_a_stop_string_ends_its_choice_only(server, model):
    whole = chat(server, model, n=3, seed=5, **STORY).choices
    stop = whole[1].message.content[5:12]
    assert stop not in whole[0].message.content + whole[2].message.content
    stopped = chat(server, model, n=3, seed=5, stop=stop, **STORY).choices
    for before, after in zip(whole, stopped):
        assert after.message.content == before.message.content.split(stop)[0]
        assert (after.finish_reason == "stop") == (stop in before.message.content or before.finish_reason == "stop")


def test_a_drawn_seed_is_logged(server, model):
    first = chat(server, model, n=2, **STORY)
    line = server.logged(rf"{first.id}: no seed was given, drew seed (\d+)$")
    again = chat(server, model, n=2, seed=int(line[1]), **STORY)
    assert [of(choice) for choice in again.choices] == [of(choice) for choice in first.choices]


# --- clients that leave -----------------------------------------------------------------------------------------------


def test_cancelled_stream_frees_its_memory(server, model):
    cancelled = server.metric("sluice_requests_cancelled_total")
    stream = chat(server, model, stream=True, **ENDLESS)
    for _, _chunk in zip(range(5), stream):
        pass
    assert server.metric("sluice_num_requests_running") == 1
    assert server.metric("sluice_kv_cache_bytes_used") > 0
    stream.close()
    assert server.wait_for("sluice_kv_cache_bytes_used", lambda value: value == 0) == 0
    assert server.metric("sluice_num_requests_running") == 0
    assert server.metric("sluice_requests_cancelled_total") == cancelled + 1, "it has not run to its end"


def test_a_waiting_client_that_leaves_cancels(server, model):
    cancelled = server.metric("sluice_requests_cancelled_total")
    with pytest.raises(openai.APITimeoutError):
        chat(server, model, timeout=1, **ENDLESS)
    assert server.wait_for("sluice_requests_cancelled_total", lambda value: value > cancelled) == cancelled + 1
    assert server.wait_for("sluice_kv_cache_bytes_used", lambda value: value == 0) == 0


# --- errors -----------------------------------------------------------------------------------------------------------


def test_unknown_model(server):
    error = error_of(lambda: chat(server, "gpt-4"))
    assert isinstance(error, openai.NotFoundError) and error.param == "model"
    assert "gpt-4" in error.message and "sluice-tiny-v4" in error.message


@pytest.mark.parametrize("field, value", [
    ("temperature", 9), ("temperature", "hot"), ("top_p", -0.1), ("max_tokens", -1), ("n", 0), ("n", 257), ("best_of", 0),
    ("priority", "high"), ("cache_salt", 5), ("stop", [""] * 3),
    ("top_logprobs", 99), ("tool_choice", "required"), ("presence_penalty", 3), ("use_beam_search", True), ("seed", "x"),
    ("messages", []), ("messages", [{"role": "robot", "content": "x"}]), ("logit_bias", {"1": 500})])
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
    assert "loaded" not in ended.stderr, "known before a model is loaded, which may take minutes"


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
        with pytest.raises(openai.APIError):  # cut, of 20,000 tokens
            list(stream)
        assert server.process.wait(PATIENCE) == 0

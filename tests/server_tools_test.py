"""Calls of tools by the running server: what is asked of the model, what a call may be, and what a cut one is.

By pytest a sample: SLUICE_TOOL_PROMPTS (8) random prompts with SLUICE_TOOL_SETS (5) of the tools; 500 and 20 are all.
SLUICE_TOOL_SHARD=I/N takes every N-th of them from the I-th (0/1), for several processes at a time."""

import concurrent.futures
import json
import os
import random
import tarfile

import pytest
from jsonschema import Draft202012Validator

from server_calls import WEATHER, chat, error_of, model, server  # noqa: F401
from server_process import ROOT, Server, fetch

PROMPTS, SETS = int(os.environ.get("SLUICE_TOOL_PROMPTS", 8)), int(os.environ.get("SLUICE_TOOL_SETS", 5))
SHARD, SHARDS = map(int, os.environ.get("SLUICE_TOOL_SHARD", "0/1").split("/"))
WORDS = "weather Lisbon add event Monday phone of Quinn convert 17 miles to km play song é 汉 ? < > </ \" { } ｜DSML｜".split()


def tool(name, properties=None, strict=True, **more):
    function = {"name": name, "description": f"Does {name}.", "strict": strict}
    if properties is not None:
        function["parameters"] = {"type": "object", "properties": properties, "required": sorted(properties),
                                  "additionalProperties": False, **more}
    return {"type": "function", "function": function}


TEXT, DAY = {"type": "string"}, {"enum": ["Monday", "Tuesday", "Sunday"]}
TOOLS = [
    tool("get_weather", {"city": TEXT}),
    tool("get_time", {"city": TEXT}, strict=False),
    tool("add_event", {"title": {"type": "string", "minLength": 1, "maxLength": 20}, "day": DAY,
                       "hour": {"type": "integer", "minimum": 0, "maximum": 23}}),
    tool("stop"),
    tool("ping", {}),
    tool("convert", {"amount": {"type": "number"}, "from": {"enum": ["km", "mi"]}, "to": {"enum": ["km", "mi"]}}),
    tool("lookup", {"name": TEXT, "phone": {"type": ["string", "null"]}}),
    tool("search", {"query": TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 50}}, required=["query"]),
    tool("tag", {"tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3}}),
    tool("set", {"key": {"type": "string", "pattern": "^[a-z]{1,8}$"}, "value": {"type": ["string", "number", "boolean"]}}),
    tool("at", {"when": {"type": "string", "format": "date"}}),
    tool("move", {"to": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                         "required": ["x", "y"], "additionalProperties": False}}),
    tool("pick", {"one": {"anyOf": [{"const": "red"}, {"const": 7}, {"type": "null"}]}}),
    tool("write", {"path": TEXT, "text": TEXT}),
    tool("run", {"command": TEXT, "seconds": {"type": "integer", "minimum": 1, "maximum": 600}}, required=["command"]),
    tool("rate", {"stars": {"type": "integer", "enum": [1, 2, 3, 4, 5]}}),
    tool("book", {"people": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 13}, "day": DAY}),
    tool("login", {"user": TEXT, "remember": {"type": "boolean"}}, strict=False),
    tool("note", {"note_text": TEXT}, required=[]),
    tool("get_weather_at", {"city": TEXT, "hour": {"type": "integer", "minimum": 0, "maximum": 23}}),
]
assert len(TOOLS) == 20


def schema_of(name):
    (function,) = [t["function"] for t in TOOLS if t["function"]["name"] == name]
    if not function["strict"]:
        return {"type": "object"}
    return function.get("parameters", {"type": "object", "additionalProperties": False})


def post(server, body):
    answer = fetch(server.url + "/v1/chat/completions", body)
    assert answer.status == 200, answer.text
    return answer


def whole(server, body):
    (choice,) = post(server, body).json()["choices"]
    message = choice["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return choice["finish_reason"], calls, message.get("content") or "", message.get("reasoning_content") or ""


def streamed(server, body):
    finish, calls, texts = None, {}, {"content": "", "reasoning_content": ""}
    for line in post(server, {**body, "stream": True}).text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[len("data: "):])["choices"]:
            finish = choice["finish_reason"] or finish
            for key in texts:
                texts[key] += choice["delta"].get(key) or ""
            for call in choice["delta"].get("tool_calls") or []:
                entry = calls.setdefault(call["index"], ["", ""])
                entry[0] += call["function"].get("name") or ""
                entry[1] += call["function"].get("arguments") or ""
    return finish, [tuple(calls[i]) for i in sorted(calls)], texts["content"], texts["reasoning_content"]


def is_json(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def check(body, answer, names):
    """What every answer to a forced call is, whole or cut."""
    finish, calls, content, _ = answer
    assert not content.strip() and finish in ("tool_calls", "length"), (body, answer)
    if finish == "tool_calls":
        assert calls
    for name, arguments in calls[:-1] if finish == "length" else calls:
        assert name in names, (body, answer)
        errors = list(Draft202012Validator(schema_of(name)).iter_errors(json.loads(arguments)))
        assert not errors, (body, answer, errors)


def random_body(seed):
    r = random.Random(seed)
    tools = r.sample(TOOLS, r.randint(1, 6))
    names = [t["function"]["name"] for t in tools]
    named = r.random() < 0.5
    choice = {"type": "function", "function": {"name": r.choice(names)}} if named else "required"
    body = {"messages": [{"role": "user", "content": " ".join(r.choices(WORDS, k=r.randint(1, 12)))}], "tools": tools,
            "tool_choice": choice, "temperature": 1.5, "top_p": 1, "top_k": 0, "seed": seed, "max_tokens": 300,
            "chat_template_kwargs": {"thinking": r.random() < 0.5}, "parallel_tool_calls": r.random() < 0.5}
    return body, [choice["function"]["name"]] if named else names


def try_one(server, seed):
    body, names = random_body(seed)
    answer = whole(server, body)
    check(body, answer, names)
    assert streamed(server, body) == answer, body
    if not body["parallel_tool_calls"] or body["tool_choice"] != "required":
        assert len(answer[1]) <= 1, (body, answer)
    # Cut anywhere: what there is of the calls is theirs, and half a one is no JSON.
    cut = {**body, "max_tokens": 1 + seed % 60}
    short = whole(server, cut)
    if short[0] == "length":
        for (name, arguments), full in zip(short[1], answer[1]):
            assert (name, arguments) == full or (name == full[0] and not is_json(arguments)), (cut, short, answer)
    return answer[0] == "tool_calls"


def test_forced_calls_parse_and_validate(server):
    seeds = [prompt * 100 + tools for prompt in range(PROMPTS) for tools in range(SETS)][SHARD::SHARDS]
    print(f"{len(seeds)} forced calls")
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        complete = list(threads.map(lambda seed: try_one(server, seed), seeds))
    assert sum(complete) > len(seeds) / 2  # hot, a text may go on and on


@pytest.mark.parametrize("thinking", [False, True])
def test_a_cut_at_every_token(server, thinking):
    body = {"messages": [{"role": "user", "content": "Add football on Monday at 17."}], "tools": [TOOLS[2]],
            "tool_choice": "required", "temperature": 0, "chat_template_kwargs": {"thinking": thinking}}
    full = whole(server, body)
    check(body, full, ["add_event"])
    assert full[0] == "tool_calls" and bool(full[3]) == thinking
    tokens = post(server, body).json()["usage"]["completion_tokens"]
    for most in range(1, tokens):
        finish, calls, content, _ = whole(server, {**body, "max_tokens": most})
        assert finish == "length" and not content.strip() and len(calls) <= 1
        for name, arguments in calls:
            assert name == "add_event"
            # The end token and the closing tags are all that may lack behind a whole call.
            assert arguments == full[1][0][1] or not is_json(arguments), (most, arguments)


def test_what_each_choice_means(server, model):
    tools = [TOOLS[0], TOOLS[1]]
    ask = [{"role": "user", "content": "What is 17 + 25?"}]
    free = chat(server, model, messages=ask, tools=tools).choices[0]
    assert free.finish_reason == "stop" and not free.message.tool_calls
    weather = [{"role": "user", "content": "What is the weather in Oslo?"}]
    called = chat(server, model, messages=weather, tools=tools).choices[0].message
    history = weather + [{"role": "assistant", "content": "", "tool_calls": [call.model_dump() for call in called.tool_calls]}]
    history += [{"role": "tool", "tool_call_id": call.id, "content": "cold"} for call in called.tool_calls] + weather
    assert called.tool_calls and chat(server, model, messages=history, tools=tools).choices[0].message.tool_calls
    for body in ({"messages": weather, "tools": tools, "tool_choice": "none"}, {"messages": history}):
        message = chat(server, model, **body).choices[0].message
        assert not message.tool_calls and "DSML" not in message.content
    forced = chat(server, model, messages=ask, tools=tools, tool_choice="required").choices[0]
    assert forced.finish_reason == "tool_calls" and forced.message.tool_calls
    for name in ("get_weather", "get_time"):
        named = {"type": "function", "function": {"name": name}}
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
        for choice in (named, allowed):
            message = chat(server, model, messages=ask, tools=tools, extra_body={"tool_choice": choice}).choices[0].message
            assert {call.function.name for call in message.tool_calls} == {name}
    bad = [({"tool_choice": "required"}, "tool_choice"), ({"tools": tools, "tool_choice": "any"}, "tool_choice"),
           ({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
           ({"tools": [tool("f", {"a": {"unevaluatedItems": False}})]}, "tools"),
           ({"tools": [tool("f", {'a"b': TEXT})]}, "tools")]
    for more, param in bad:
        error = error_of(lambda: chat(server, model, messages=ask, extra_body=more))
        assert error.status_code == 400 and error.param == param, more


# The templates write what the model was not trained on; what it has to say is enforced all the same.
@pytest.mark.parametrize("template", ["hermes", "qwen3", "llama3", "deepseek_v3", "deepseek_v31"])
def test_every_syntax(template):
    flags = ["--chat-template", ROOT / "tests" / "chat_templates" / (template + ".jinja")]
    if template in ("deepseek_v3", "deepseek_v31"):  # they do not show the tools
        flags = flags[:1] + [flags[1].with_name("hermes.jinja"), "--tool-call-parser", template]
    with Server(*flags) as other:
        ended = 0
        for seed in range(4):
            body, names = random_body(seed)
            body["chat_template_kwargs"] = {"enable_thinking": False}
            body["temperature"] = 1
            answer = whole(other, body)
            check(body, answer, names)
            assert streamed(other, body) == answer
            ended += answer[0] == "tool_calls"
        assert ended > 0


def test_the_tool_tasks_under_auto(server):
    with tarfile.open(ROOT / "tests" / "evals" / "sluice-tiny-v4.tar.xz") as archive:
        items = [json.loads(line) for line in archive.extractfile("tools.jsonl")]
    assert len(items) == 100

    def right(item):
        thinking = item["mode"] == "thinking"
        finish, calls, content, _ = whole(server, {
            "messages": item["messages"], "tools": item["tools"], "tool_choice": "auto", "temperature": 0,
            "chat_template_kwargs": {"thinking": thinking}, "max_tokens": 400})
        if "expected_tool_calls" in item:
            def values(arguments):
                return json.loads(arguments) if isinstance(arguments, str) else arguments
            return [(name, values(arguments)) for name, arguments in calls] == \
                [(c["name"], values(c["arguments"])) for c in item["expected_tool_calls"]] and finish == "tool_calls"
        return item["expected_answer"] in content

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        wrong = [item["id"] for item, good in zip(items, threads.map(right, items)) if not good]
    assert wrong == []


@pytest.mark.parametrize("more", [{}, {"tools": [WEATHER], "tool_choice": "required"}, {"guided_choice": ["42", "41"]}])
def test_a_budget_of_reasoning(server, more):
    body = {"messages": [{"role": "user", "content": "What is the weather in Oslo?"}], "temperature": 0,
            "chat_template_kwargs": {"thinking": True}, **more}
    full = whole(server, body)
    assert full[3]
    for budget in (0, 1, 4, 1000):
        short = whole(server, {**body, "thinking_token_budget": budget})
        assert full[3].startswith(short[3]) and (short[3] == full[3]) == (budget == 1000), (budget, short, full)
        assert short[1] or short[2], short  # and then it answers
        assert streamed(server, {**body, "thinking_token_budget": budget}) == short
    assert fetch(server.url + "/v1/chat/completions", {**body, "thinking_token_budget": -1}).status == 400
    without = {**body, "chat_template_kwargs": {"thinking": False}}
    assert whole(server, {**without, "thinking_token_budget": 0}) == whole(server, without)

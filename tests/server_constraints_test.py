"""Constrained answers of the running server: what each field binds, whole and streamed, and how it is refused. How many random
schemas: SLUICE_TEST_SCHEMAS (default 24)."""

import concurrent.futures
import json
import os
import re

import pytest
from jsonschema import Draft202012Validator

import schema_maker
from seed import SEED
from server_calls import WEATHER, chat, error_of, model, server  # noqa: F401
from server_process import fetch

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Lisbon", "Paris"]},
                                           "days": {"type": "array", "items": {"type": "integer", "minimum": 1},
                                                    "minItems": 1, "maxItems": 3},
                                           "sunny": {"type": "boolean"}},
          "required": ["city", "days", "sunny"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}}
DATE = r"20[0-9]{2}-(0[1-9]|1[0-2])"
GBNF = 'root ::= "(" root? ")"'


def is_nested(text):
    return re.fullmatch(r"\(*\)*", text) and text.count("(") == text.count(")") > 0


BOUND = [
    ({"response_format": FORMAT}, lambda text: not list(Draft202012Validator(SCHEMA).iter_errors(json.loads(text)))),
    ({"response_format": {"type": "json_object"}}, lambda text: isinstance(json.loads(text), dict)),
    ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}},
     lambda text: text == json.dumps(json.loads(text), separators=(",", ":"))),
    ({"structured_outputs": {"regex": DATE}}, lambda text: re.fullmatch(DATE, text)),
    ({"structured_outputs": {"choice": ["heads", "tails"]}}, lambda text: text in ("heads", "tails")),
    ({"structured_outputs": {"grammar": GBNF}}, is_nested),
    ({"structured_outputs": {"json_object": True}}, lambda text: isinstance(json.loads(text), dict)),
    ({"guided_json": json.dumps(SCHEMA)}, lambda text: json.loads(text)["city"] in ("Lisbon", "Paris")),
    ({"guided_regex": DATE}, lambda text: re.fullmatch(DATE, text)),
    ({"guided_choice": ["heads", "tails"]}, lambda text: text in ("heads", "tails")),
    ({"guided_grammar": GBNF}, is_nested),
]
# A small model need not come to an end with them.
UNBOUNDED = ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}})


def whole(server, path, body):
    answer = fetch(server.url + path, body)
    assert answer.status == 200, answer.text
    return answer.json()["choices"]


def streamed(server, path, body):
    answer = fetch(server.url + path, {**body, "stream": True})
    assert answer.status == 200, answer.text
    events = [line[len("data: "):] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


@pytest.mark.parametrize("more, holds", BOUND, ids=[json.dumps(more)[:40] for more, _ in BOUND])
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_what_each_field_binds(server, more, holds, temperature):
    # Hot, a text may nest or go on for long: such ones are cut, and say so.
    body = {"temperature": temperature, "seed": 3, "n": 4, "max_tokens": 200, **more}
    for path, prompt in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "Where to go?"}]}),
                         ("/v1/completions", {"prompt": "Where to go? "})):
        choices = whole(server, path, {**body, **prompt})
        texts = [c["message"]["content"] if "message" in c else c["text"] for c in choices]
        for choice, text in zip(choices, texts):
            if choice["finish_reason"] == "stop":
                assert holds(text), text
        if more not in UNBOUNDED:
            assert any(c["finish_reason"] == "stop" for c in choices), texts
        pieces = [""] * 4
        for event in streamed(server, path, {**body, **prompt}):
            for c in event["choices"]:
                pieces[c["index"]] += (c["delta"].get("content") or "") if "delta" in c else c["text"]
        assert pieces == texts


def test_without_a_constraint_the_answer_is_free(server, model):
    free = chat(server, model).choices[0].message.content
    assert free not in ("heads", "tails")
    for none in ({"response_format": {"type": "text"}}, {"structured_outputs": {}}, {"guided_json": None},
                 {"guided_choice": []}):
        assert chat(server, model, extra_body=none).choices[0].message.content == free


def test_the_constraint_begins_behind_the_reasoning(server, model):
    answer = chat(server, model, extra_body={"chat_template_kwargs": {"thinking": True},
                                             "structured_outputs": {"regex": "<<[a-z ]{1,20}>>"}})
    message = answer.choices[0].message
    assert message.reasoning_content and not re.fullmatch("<<[a-z ]{1,20}>>", message.reasoning_content)
    assert re.fullmatch("<<[a-z ]{1,20}>>", message.content)


def test_max_tokens_cuts_and_says_so(server, model):
    (choice,) = chat(server, model, max_tokens=3, response_format=FORMAT).choices
    assert choice.finish_reason == "length"
    with pytest.raises(ValueError):
        json.loads(choice.message.content)


@pytest.mark.parametrize("more, param, words", [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {
        "properties": {"a": {"unevaluatedItems": False}}}}}}, "response_format.json_schema.schema",
     "/properties/a/unevaluatedItems"),
    ({"response_format": {"type": "yaml"}}, "response_format", "json_object"),
    ({"response_format": {"type": "json_schema"}}, "response_format", "json_schema"),
    ({"structured_outputs": {"regex": "(?=a)b"}}, "structured_outputs.regex", "regex"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs.choice", "one constraint"),
    ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice", "an array of texts"),
    ({"guided_grammar": 'root ::= root "a" | "b"'}, "guided_grammar", "left-recursive"),
    ({"guided_json": "{"}, "guided_json", "schema"),
    ({"guided_json": {"type": "string", "minLength": 3, "maxLength": 2}}, "guided_json", "no"),
    ({"guided_choice": ["a"], "ignore_eos": True}, "ignore_eos", "guided_choice"),
    ({"guided_choice": ["a"], "tools": [WEATHER]}, "guided_choice", "tools"),
    ({"guided_regex": "(a{9999}){9999}"}, "guided_regex", "smaller counts"),
])
def test_what_cannot_be_enforced_is_refused(server, model, more, param, words):
    error = error_of(lambda: chat(server, model, extra_body=more))
    assert error.status_code == 400 and error.param == param
    assert words in error.body["message"], error.body["message"]


def test_random_schemas(server):
    """Answers of the model at temperature 1 are valid wherever they come to an end, which a small model need not."""
    count = int(os.environ.get("SLUICE_TEST_SCHEMAS", "24"))

    def ask(seed):
        schema = schema_maker.SchemaMaker(seed).schema()
        answer = fetch(server.url + "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "What is 17 + 25?"}], "temperature": 1, "seed": seed % 2**31, "max_tokens": 800,
            "response_format": {"type": "json_schema", "json_schema": {"name": "random", "schema": schema, "strict": True}}})
        if answer.status == 400:
            assert answer.json()["error"]["code"] == "unsupported_constraint", answer.text
            return "refused"
        assert answer.status == 200, answer.text
        choice = answer.json()["choices"][0]
        if choice["finish_reason"] == "stop":
            errors = list(Draft202012Validator(schema).iter_errors(json.loads(choice["message"]["content"])))
            assert not errors, f"SLUICE_TEST_SEED={seed} {json.dumps(schema)}: {choice['message']['content']}"
        return choice["finish_reason"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(ask, range(SEED, SEED + count)))
    print(f"{count} random schemas: {({end: ends.count(end) for end in set(ends)})}")
    assert ends.count("stop") >= count / 4

"""Fields of requests to the running server: those that nobody knows, and the documents that say which there are."""

import json

import pytest
from jsonschema import Draft202012Validator

from program import fails, sluice
from server_calls import QUESTION, chat, error_of, model, server  # noqa: F401
from server_process import Server, fetch

HEADER = "x-sluice-ignored"
CHAT = {"messages": QUESTION, "max_tokens": 2, "temperature": 0}
COMPLETION = {"prompt": "x", "max_tokens": 2, "temperature": 0}


def ask(server, body, path=None):
    return fetch(server.url + (path or ("/v1/completions" if "prompt" in body else "/v1/chat/completions")), body)


@pytest.mark.parametrize("body", [CHAT, COMPLETION], ids=["chat", "completion"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_nobody_knows_is_named(server, body, stream):
    before = server.metric("sluice_ignored_fields_total")
    plain = ask(server, {**body, "stream": stream})
    assert plain.status == 200 and HEADER not in plain.headers
    answer = ask(server, {**body, "stream": stream, "temprature": 1, "mood": {"a": 1}, "nothing": None, "none": []})
    assert answer.status == 200 and answer.headers[HEADER] == "temprature, mood"
    assert server.metric("sluice_ignored_fields_total") == before + 2


def test_keys_of_messages_and_parts_are_named(server):
    messages = [{"role": "user", "mood": "x", "content": [{"type": "text", "text": "hi", "colour": "red"}]}]
    answer = ask(server, {**CHAT, "messages": messages, "response_format": {"type": "text", "more": 1}})
    assert answer.status == 200
    assert set(answer.headers[HEADER].split(", ")) == {"messages[0].mood", "messages[0].content[0].colour",
                                                       "response_format.more"}


def test_a_header_cannot_be_broken_by_a_name(server):
    answer = ask(server, {**COMPLETION, "a\r\nSet-Cookie: b": 1, "größe, 100%": 1})
    assert answer.status == 200 and "set-cookie" not in answer.headers
    assert answer.headers[HEADER] == "a%0D%0ASet-Cookie:%20b, gr%C3%B6%C3%9Fe%2C%20100%25"
    many = ask(server, {**COMPLETION, **{f"field{i}": 1 for i in range(1000)}})
    assert many.headers[HEADER].startswith("field0, field1, ") and many.headers[HEADER].endswith(", and 980 more")


def test_what_is_known_and_missing_is_refused(server):
    for body, field, value in ((CHAT, "use_beam_search", True), (COMPLETION, "suffix", "x"), (CHAT, "functions", [{}]),
                               (CHAT, "return_hidden_states", True)):
        answer = ask(server, {**body, field: value})
        assert answer.status == 400 and answer.json()["error"]["param"] == field, answer.text
    message = {"role": "user", "content": "x", "audio": {"id": "x"}}
    assert "audio" in ask(server, {**CHAT, "messages": [message]}).json()["error"]["message"]


def test_strict_fields():
    with Server("--strict-fields") as server:
        for body in (CHAT, COMPLETION):
            assert ask(server, body).status == 200
            answer = ask(server, {**body, "temprature": 1})
            assert answer.status == 400 and answer.json()["error"]["param"] == "temprature"
        message = {"role": "user", "content": "x", "mood": "x"}
        assert "mood" in ask(server, {**CHAT, "messages": [message]}).json()["error"]["message"]


def test_the_page_of_fields_has_every_field_of_the_openapi_document():
    page, document = sluice("api").stdout, json.loads(sluice("api", "--openapi").stdout)
    for path, operations in document["paths"].items():
        schema = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        for field in schema.get("properties", {}):
            assert f"`{field}" in page, f"{path}: {field}"
    fails("api", "--openapi", "more", says="more")


def test_openapi(server):
    answer = fetch(server.url + "/openapi.json")
    document = answer.json()
    assert answer.status == 200 and document == json.loads(sluice("api", "--openapi").stdout)
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION)):
        operation = document["paths"][path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)
        # The schema accepts a body if the server does.
        for more in ({}, {"temperature": 0.5}, {"temperature": 3}, {"top_p": -1}, {"top_p": 0.1}, {"n": 0}, {"stop": "x"},
                     {"stop": [""]}, {"stop_token_ids": [-1]}, {"seed": "x"}, {"seed": 2**40}, 
                     {"use_beam_search": True}, {"use_beam_search": False}, {"stream": 1}, {"temperature": None},
                     {"response_format": {"type": "text"}}, {"response_format": {"type": 5}}, {"ignore_eos": "no"}):
            answer = ask(server, {**body, **more}, path)
            assert validator.is_valid({**body, **more}) == (answer.status == 200), (more, answer.text)
            assert str(answer.status) in operation["responses"]

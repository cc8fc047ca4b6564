"""What the tests of the server share: one that runs with the embedded model, and calls of it."""

import pytest

from server_process import Server

QUESTION = [{"role": "user", "content": "What is 17 + 25?"}]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather for a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


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
    import openai  # forced calls of tools do without

    with pytest.raises(openai.APIStatusError) as caught:
        call()
    return caught.value


def of(choice):
    """All that a choice says: text, finish reason and every digit of its log-probabilities."""
    text = choice.text if hasattr(choice, "text") else choice.message.content
    return text, choice.finish_reason, choice.logprobs

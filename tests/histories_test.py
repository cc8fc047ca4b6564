"""Histories never end a conversation: each item and block that the SDKs' own types know is answered, and what the model
cannot use is named. The types come from the installed SDKs, so that a newer SDK brings its new ones."""

import json
import urllib.request

import anthropic.types
import openai.types.responses
import pytest

from sdk_types import members, sample
from server_calls import model, server  # noqa: F401

ITEMS = members(openai.types.responses.ResponseInputItemParam)
BLOCKS = members(anthropic.types.ContentBlockParam)
THINKING = members(anthropic.types.ThinkingConfigParam)
SEEN = {"image", "document"}  # what a model that reads text only cannot answer about


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.status, answer.headers.get("X-Sluice-Ignored", "")


@pytest.mark.parametrize("kind", ITEMS, ids=lambda kind: kind.__name__)
def test_items(server, kind):  # noqa: F811
    item = sample(kind)
    status, _ = post(server, "/v1/responses", {"input": [item, {"role": "user", "content": "Hi"}], "max_output_tokens": 1})
    assert status == 200, item


@pytest.mark.parametrize("kind", [kind for kind in BLOCKS if sample(kind)["type"] not in SEEN],
                         ids=lambda kind: kind.__name__)
def test_blocks(server, kind):  # noqa: F811
    block = sample(kind)
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [block, {"type": "text", "text": "Yes"}]},
            {"role": "user", "content": "Go on"}]
    if block["type"] == "tool_result":
        talk = [{"role": "user", "content": [block]}]
    status, ignored = post(server, "/v1/messages", {"messages": talk, "max_tokens": 1})
    assert status == 200, block
    assert block["type"] in ("text", "tool_use", "tool_result") or ignored, block


@pytest.mark.parametrize("kind", THINKING, ids=lambda kind: kind.__name__)
def test_thinking(server, kind):  # noqa: F811
    thinking = sample(kind)
    status, _ = post(server, "/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1,
                                              "thinking": thinking})
    assert status == 200, thinking

"""Fields of sampling over the running server: the effect of each, what is refused, and the seed that was drawn."""

import pytest

from server_calls import QUESTION, chat, error_of, model, server  # noqa: F401
from server_process import fetch

STORY = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0}


def complete(server, **more):
    answer = fetch(server.url + "/v1/completions", {**STORY, **more})
    assert answer.status == 200, answer.text
    return answer.json()


def text_of(server, **more):
    return complete(server, **more)["choices"][0]["text"]


def first_id(server, model):
    """The id of the first token of the story, found by what a bias against it changes."""
    top = complete(server, max_tokens=1, logprobs=1)["choices"][0]
    for token in range(4096):
        if text_of(server, max_tokens=1, allowed_token_ids=[token]) == top["text"]:
            return token
    raise AssertionError(top)


def test_penalties(server):
    plain = text_of(server)
    for field, value in (("presence_penalty", 2), ("frequency_penalty", 2), ("repetition_penalty", 1.8)):
        changed = text_of(server, **{field: value})
        assert changed != plain, field
        assert changed == text_of(server, **{field: value}), "the same again"
    assert text_of(server, presence_penalty=0, frequency_penalty=0.0, repetition_penalty=1, logit_bias={}) == plain
    # A strong one against repeating makes for more different words.
    words = text_of(server, frequency_penalty=2, presence_penalty=2, max_tokens=120).split()
    free = text_of(server, max_tokens=120).split()
    assert len(set(words)) / len(words) >= len(set(free)) / len(free)


def test_penalties_do_not_depend_on_company_or_drafts(server):
    more = {"presence_penalty": 1, "frequency_penalty": 0.5, "repetition_penalty": 1.3, "temperature": 1, "seed": 5}
    alone = text_of(server, **more)
    assert alone == complete(server, n=8, **more)["choices"][0]["text"]
    texts = [c["text"] for c in complete(server, prompt=["Once upon a time", "x", "Once upon a time"], **more)["choices"]]
    assert texts[0] == texts[2] == alone


def test_bias_and_bans(server, model):
    token = first_id(server, model)
    first = text_of(server, max_tokens=1)
    assert text_of(server, max_tokens=1, logit_bias={str(token): -100}) != first
    assert text_of(server, max_tokens=5, logit_bias={str(token): 100}) == first * 5
    assert text_of(server, max_tokens=5, allowed_token_ids=[token]) == first * 5
    word = text_of(server, max_tokens=30).split()[0]
    assert f" {word}" in " " + text_of(server, max_tokens=30)
    assert word not in text_of(server, max_tokens=30, bad_words=[word]).split()
    # Log-probabilities stay those of the raw logits.
    biased = complete(server, max_tokens=1, logprobs=2, logit_bias={str(token): -100})["choices"][0]["logprobs"]
    plain = complete(server, max_tokens=1, logprobs=2)["choices"][0]["logprobs"]
    assert biased["top_logprobs"][0].items() >= plain["top_logprobs"][0].items()


def test_least_and_no_tokens(server, model):
    short = chat(server, model)
    count = short.usage.completion_tokens
    longer = chat(server, model, extra_body={"min_tokens": count + 5})
    assert longer.usage.completion_tokens >= count + 5
    none = complete(server, max_tokens=0)
    assert none["choices"][0]["text"] == "" and none["choices"][0]["finish_reason"] == "length"
    assert none["usage"]["completion_tokens"] == 0 and none["usage"]["prompt_tokens"] > 0
    assert complete(server, max_tokens=0, echo=True)["choices"][0]["text"] == STORY["prompt"]


def test_the_stop_string_may_be_shown(server, model):
    whole = text_of(server)
    stop = whole[10:14]
    upto = whole.index(stop)
    assert text_of(server, stop=stop) == text_of(server, stop=stop, include_stop_str_in_output=False) == whole[:upto]
    assert text_of(server, stop=stop, include_stop_str_in_output=True) == whole[:upto] + stop
    said = chat(server, model).choices[0].message.content
    shown = chat(server, model, stop=said[2:5], extra_body={"include_stop_str_in_output": True})
    assert shown.choices[0].message.content == said[:said.index(said[2:5]) + 3]
    assert shown.choices[0].finish_reason == "stop"


def test_special_tokens_may_be_shown(server):
    special = {"temperature": 0, "max_tokens": 3, "ignore_eos": True, "allowed_token_ids": [0]}
    assert text_of(server, **special) == text_of(server, **special, skip_special_tokens=True) == ""
    token = text_of(server, **special, skip_special_tokens=False)
    assert token and token == token[:len(token) // 3] * 3
    for more, shown in ({}, None), ({"skip_special_tokens": True}, None), ({"skip_special_tokens": False}, token):
        answer = fetch(server.url + "/v1/chat/completions", {"messages": QUESTION, **special, **more}).json()
        assert answer["choices"][0]["message"]["content"] in ([shown] if shown else [None, ""])


def test_256_choices(server):
    choices = complete(server, n=256, max_tokens=2, temperature=1, seed=1)["choices"]
    assert [c["index"] for c in choices] == list(range(256))
    assert len({c["text"] for c in choices}) > 10


def test_the_drawn_seed_is_told(server, model):
    drawn = complete(server, temperature=1.5)
    assert text_of(server, temperature=1.5, seed=drawn["seed"]) == drawn["choices"][0]["text"]
    assert "seed" not in complete(server, temperature=1.5, seed=3), "it was given"
    assert "seed" not in complete(server), "nothing is drawn"
    both = complete(server, prompt=["Once", "Twice"], temperature=1.5, max_tokens=8)
    for seed, prompt, choice in zip(both["seeds"], ("Once", "Twice"), both["choices"]):
        assert text_of(server, prompt=prompt, seed=seed, temperature=1.5, max_tokens=8) == choice["text"]
    whole = chat(server, model, temperature=1.5, max_tokens=8)
    assert whole.seed >= 0
    chunks = list(chat(server, model, temperature=1.5, max_tokens=8, stream=True))
    assert len({chunk.seed for chunk in chunks}) == 1


@pytest.mark.parametrize("more, param", [
    ({"presence_penalty": 2.1}, "presence_penalty"), ({"frequency_penalty": "1"}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"), ({"logit_bias": {"100000": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias"), ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"min_tokens": 61}, "min_tokens"), ({"bad_words": [""]}, "bad_words"),
    ({"allowed_token_ids": [100000]}, "allowed_token_ids"), ({"logprobs_mode": "cooked"}, "logprobs_mode")])
def test_bad_values(server, more, param):
    answer = fetch(server.url + "/v1/completions", {**STORY, **more})
    assert answer.status == 400 and answer.json()["error"]["param"] == param, answer.text


def test_bans_that_leave_nothing(server, model):
    token = first_id(server, model)
    word = text_of(server, max_tokens=1)
    answer = fetch(server.url + "/v1/completions", {**STORY, "allowed_token_ids": [token], "bad_words": [word, word * 2]})
    assert answer.status == 400 and "leave no token" in answer.json()["error"]["message"], answer.text

"""Scores over the running server: prompt log-probabilities, echo, token ids of prompts and answers, and what evaluation
harnesses ask for. JSON numbers are compared as f32, digit by digit."""

import base64
import json
import math
import struct
import subprocess

import numpy
import pytest
from safetensors.numpy import load_file

from server_calls import QUESTION, model, server  # noqa: F401
from server_process import BUILD, Server, fetch

STORY = "Once upon a time there was a fox"


def bits(value):
    """Of a number that came as JSON; it has to be an f32's."""
    (word,) = struct.unpack("I", struct.pack("f", value))
    assert struct.unpack("f", struct.pack("f", value))[0] == value, value
    return word


def complete(server, **more):
    answer = fetch(server.url + "/v1/completions", {"prompt": STORY, "temperature": 0, **more})
    assert answer.status == 200, answer.text
    return answer.json()


def talk(server, **more):
    answer = fetch(server.url + "/v1/chat/completions", more)
    assert answer.status == 200, answer.text
    return answer.json()


def refused(server, path="/v1/completions", **more):
    answer = fetch(server.url + path, {"prompt": STORY, **more} if path.endswith("/completions") and "chat" not in path else more)
    assert answer.status == 400, answer.text
    return answer.json()["error"]


def events(server, path, body):
    answer = fetch(server.url + path, {**body, "stream": True})
    assert answer.status == 200, answer.text
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def drawn(choice):
    """[(id, bits)] of a completion's answer."""
    return list(zip(choice["token_ids"], map(bits, choice["logprobs"]["token_logprobs"]), strict=True))


def scored(choice, ids):
    """[bits] of the prompt's tokens, null where there is none."""
    entries = choice["prompt_logprobs"]
    return [entry and bits(entry[str(token)]["logprob"]) for token, entry in zip(ids, entries, strict=True)]


def test_a_text_as_long_as_the_context_is_scored():
    with Server("--max-model-len", "300", "--max-num-batched-tokens", "64") as server:
        ids = [5 + i % 200 for i in range(301)]

        def ask(path, **more):
            return fetch(server.url + path, more)

        whole = ask("/v1/score", prompt=ids[:300])
        assert whole.status == 200, whole.text
        scores = whole.json()["data"][0]["logprobs"]
        assert len(scores) == 299
        assert ask("/v1/score", prompt=ids[:299]).json()["data"][0]["logprobs"] == scores[:298]
        echoed = ask("/v1/completions", prompt=ids[:300], echo=True, logprobs=0, max_tokens=0)
        assert echoed.status == 200, echoed.text
        assert echoed.json()["choices"][0]["logprobs"]["token_logprobs"][1:] == scores
        for path, more in [("/v1/score", {}), ("/v1/completions", {"echo": True, "logprobs": 0, "max_tokens": 0})]:
            longer = ask(path, prompt=ids, **more)
            assert longer.status == 400 and "holds 300 tokens; the prompt has 301" in longer.json()["error"]["message"]
        answered = ask("/v1/completions", prompt=ids[:300], max_tokens=1)
        assert answered.status == 400 and "leaves no room for an answer" in answered.json()["error"]["message"]


@pytest.mark.parametrize("flags", [[], ["--max-num-batched-tokens", "9"], ["--no-enable-prefix-caching", "--threads", "1"]])
def test_an_answer_scored_is_as_it_was_drawn(flags):
    with Server(*flags) as server:
        answers = [complete(server, temperature=1.3, seed=seed, max_tokens=30, logprobs=0, return_token_ids=True,
                            prompt=STORY * (1 + 5 * seed), ignore_eos=True)["choices"][0] for seed in range(4)]
        texts = [answer["prompt_token_ids"] + answer["token_ids"] for answer in answers]
        for round in range(2):
            start = 0 if round == 0 else 20
            both = complete(server, prompt=texts, max_tokens=round, prompt_logprobs=round * 4, prompt_logprobs_start=start)
            for answer, choice, ids in zip(answers, both["choices"], texts, strict=True):
                found = scored(choice, ids)
                assert found[:max(start, 1)] == [None] * max(start, 1)
                behind = len(answer["prompt_token_ids"])
                assert found[max(behind, start):] == [word for _, word in drawn(answer)][max(0, start - behind):]
                assert all(word is not None for word in found[max(start, 1):])
                assert (choice["text"] == "") == (round == 0)


def test_ranks_and_the_best(server):
    choice = complete(server, max_tokens=0, prompt_logprobs=3, return_token_ids=True)["choices"][0]
    assert choice["finish_reason"] == "length" and choice["token_ids"] == []
    for token, entry in zip(choice["prompt_token_ids"][1:], choice["prompt_logprobs"][1:], strict=True):
        ranks = {each["rank"]: each["logprob"] for each in entry.values()}
        assert {1, 2, 3} <= set(ranks) and len(entry) in (3, 4)
        assert sorted(ranks.values(), reverse=True) == [ranks[rank] for rank in sorted(ranks)]
        assert list(entry)[0] == str(token), "its own first"
        assert isinstance(entry[str(token)]["decoded_token"], str)


def test_echo_with_logprobs(server):
    whole = complete(server, echo=True, logprobs=2, max_tokens=6, ignore_eos=True, return_token_ids=True)["choices"][0]
    lists = whole["logprobs"]
    count = len(whole["prompt_token_ids"]) + 6
    assert all(len(lists[name]) == count for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"))
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    assert whole["text"].startswith(STORY) and "prompt_logprobs" not in whole
    alone = complete(server, logprobs=2, max_tokens=6, ignore_eos=True)["choices"][0]
    assert lists["token_logprobs"][-6:] == alone["logprobs"]["token_logprobs"]
    assert lists["top_logprobs"][-6:] == alone["logprobs"]["top_logprobs"]
    # Nothing but the prompt; and several of them, with several choices.
    prompt = complete(server, echo=True, logprobs=2, max_tokens=0)["choices"][0]
    assert prompt["logprobs"]["token_logprobs"] == lists["token_logprobs"][:-6] and prompt["text"] == STORY
    many = complete(server, prompt=[STORY, "The cat"], n=2, echo=True, logprobs=2, max_tokens=6, ignore_eos=True)["choices"]
    assert many[0]["logprobs"] == many[1]["logprobs"] == lists
    assert many[2]["text"] == many[3]["text"] and many[2]["text"].startswith("The cat")
    best = complete(server, n=1, best_of=3, echo=True, logprobs=2, max_tokens=6, ignore_eos=True)["choices"][0]
    assert best["logprobs"] == lists
    # Streamed: the prompt's come with its text, before the answer's.
    chunks = [chunk["choices"][0] for chunk in events(server, "/v1/completions", {
        "prompt": STORY, "temperature": 0, "echo": True, "logprobs": 2, "max_tokens": 6, "ignore_eos": True})]
    assert chunks[0]["text"] == STORY
    assert chunks[0]["logprobs"]["token_logprobs"] == lists["token_logprobs"][:-6]
    joined = [value for chunk in chunks if chunk["logprobs"] for value in chunk["logprobs"]["token_logprobs"]]
    assert joined == lists["token_logprobs"]


def test_token_ids(server):
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 40, "return_token_ids": True}
    whole = talk(server, **body)
    ids, prompt = whole["choices"][0]["token_ids"], whole["prompt_token_ids"]
    assert len(ids) == whole["usage"]["completion_tokens"] and len(prompt) == whole["usage"]["prompt_tokens"]
    chunks = events(server, "/v1/chat/completions", body)
    assert chunks[0]["prompt_token_ids"] == prompt
    assert all("prompt_token_ids" not in chunk for chunk in chunks[1:])
    assert [token for chunk in chunks for choice in chunk["choices"] for token in choice["token_ids"]] == ids
    chunks = events(server, "/v1/completions", {"prompt": [STORY, "The cat"], "max_tokens": 9, "return_token_ids": True, "temperature": 0})
    whole_two = complete(server, prompt=[STORY, "The cat"], max_tokens=9, return_token_ids=True)["choices"]
    for index, choice in enumerate(whole_two):
        of_it = [chunk["choices"][0] for chunk in chunks if chunk["choices"] and chunk["choices"][0]["index"] == index]
        assert of_it[0]["prompt_token_ids"] == choice["prompt_token_ids"]
        assert [token for chunk in of_it for token in chunk["token_ids"]] == choice["token_ids"]
    assert "token_ids" not in complete(server, max_tokens=2)["choices"][0]


def test_a_chat_of_ids(server):
    body = {"temperature": 0, "max_tokens": 60, "return_token_ids": True, "logprobs": True}
    for thinking in (False, True):
        said = talk(server, messages=QUESTION, chat_template_kwargs={"thinking": thinking}, **body)
        ids = talk(server, prompt_token_ids=said["prompt_token_ids"], **body)
        assert ids["choices"] == said["choices"]
        assert ("reasoning_content" in ids["choices"][0]["message"]) == thinking
    assert refused(server, "/v1/chat/completions", prompt_token_ids=[1, 2], messages=QUESTION)["param"] == "prompt_token_ids"
    assert "below" in refused(server, "/v1/chat/completions", prompt_token_ids=[10**6])["message"]
    assert refused(server, "/v1/chat/completions", max_tokens=1)["param"] == "messages"
    # The prompt's own scores.
    scored_chat = talk(server, prompt_token_ids=said["prompt_token_ids"] + said["choices"][0]["token_ids"],
                       prompt_logprobs=0, max_tokens=0)
    drawn_there = [bits(entry["logprob"]) for entry in said["choices"][0]["logprobs"]["content"]]
    ids = said["choices"][0]["token_ids"]
    found = [bits(entry[str(token)]["logprob"]) for token, entry in
             zip(ids, scored_chat["prompt_logprobs"][-len(ids):], strict=True)]
    assert found == drawn_there


def array(export):
    values = numpy.frombuffer(base64.b64decode(export["data"]), dtype=numpy.dtype(export["dtype"]).newbyteorder("<"))
    return values.reshape(export["shape"])


def test_experts_and_indices(server):
    """Of every position but the last token's, the same whatever is cached, streamed or chosen beside."""
    text = STORY * 40
    body = {"prompt": text, "max_tokens": 12, "temperature": 1, "seed": 3, "return_token_ids": True, "ignore_eos": True,
            "return_routed_experts": True, "return_sparse_indices": True}
    first = fetch(server.url + "/v1/completions", body).json()["choices"][0]
    tokens = len(first["prompt_token_ids"]) + len(first["token_ids"])
    experts, indices = array(first["routed_experts"]), array(first["sparse_indices"])
    layers = first["routed_experts"]["layers"]
    assert experts.shape[:2] == (tokens - 1, len(layers)) and layers == sorted(layers)
    assert (numpy.sort(experts, axis=-1)[..., 1:] != numpy.sort(experts, axis=-1)[..., :-1]).all(), "each expert once"
    per = first["sparse_indices"]["tokens_per_entry"]
    for position in (0, per - 1, per, 100, tokens - 2):
        for row in indices[position]:
            chosen = row[row >= 0]
            visible = (position + 1) // per
            assert len(chosen) == min(visible, indices.shape[-1]) and (numpy.diff(chosen) > 0).all()
            assert (chosen < visible).all() and (row[len(chosen):] == -1).all()
    many = fetch(server.url + "/v1/completions", {**body, "n": 3}).json()["choices"]
    assert many[0] == {**first, "index": 0}
    chunks = [chunk["choices"][0] for chunk in events(server, "/v1/completions", body)]
    assert all("routed_experts" not in chunk for chunk in chunks[:-1])
    assert chunks[-1]["routed_experts"] == first["routed_experts"]
    # As a prompt, and where a stop string ends it.
    whole = complete(server, prompt=first["prompt_token_ids"] + first["token_ids"], max_tokens=0, return_routed_experts=True)
    assert whole["choices"][0]["routed_experts"] == first["routed_experts"]
    stopped = fetch(server.url + "/v1/completions", {**body, "stop": first["text"][8:12]}).json()["choices"][0]
    ended = len(stopped["prompt_token_ids"]) + len(stopped["token_ids"]) - 1
    assert stopped["finish_reason"] == "stop" and ended < tokens - 1
    assert (array(stopped["routed_experts"]) == experts[:ended]).all()
    said = talk(server, messages=QUESTION, max_tokens=5, return_routed_experts=True)
    assert said["choices"][0]["routed_experts"]["shape"][0] == said["usage"]["total_tokens"] - 1
    assert "routed_experts" not in complete(server, max_tokens=1)["choices"][0]


def test_the_command_says_the_same(server, tmp_path):
    ids = complete(server, prompt=STORY * 60, max_tokens=0, return_token_ids=True)["choices"][0]["prompt_token_ids"]
    lines = [{"prompt": STORY * 60}, {"prompt": ids[:90], "start": 40}, {"prompt": ids[:1]}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "out.safetensors"
    subprocess.run([BUILD / "sluice", "score", tmp_path / "in.jsonl", out, "--top", "2", "--distributions", "--experts",
                    "--indices"], check=True, capture_output=True)
    found = load_file(out)
    body = {"max_tokens": 0, "prompt_logprobs": 2, "return_routed_experts": True, "return_sparse_indices": True}
    for number, (prompt, start) in enumerate([(ids, 1), (ids[:90], 40), (ids[:1], 1)]):
        choice = complete(server, prompt=prompt, prompt_logprobs_start=start, **body)["choices"][0]
        assert found[f"{number}.token_ids"].tolist() == prompt
        expected = scored(choice, prompt)[start:]
        logprobs = found[f"{number}.logprobs"]
        assert logprobs.view(numpy.uint32).tolist() == expected
        every = found[f"{number}.distributions"]
        assert all(every[i, token] == logprobs[i] for i, token in enumerate(prompt[start:]))
        for i, entry in enumerate(choice["prompt_logprobs"][start:]):
            assert entry[str(prompt[start + i])]["rank"] == found[f"{number}.ranks"][i]
            for token, logprob in zip(found[f"{number}.top_ids"][i], found[f"{number}.top_logprobs"][i], strict=True):
                assert bits(entry[str(token)]["logprob"]) == logprob.view(numpy.uint32) == every[i, token].view(numpy.uint32)
        assert (found[f"{number}.routed_experts"] == array(choice["routed_experts"])).all()
        assert (found[f"{number}.sparse_indices"] == array(choice["sparse_indices"])).all()
    for text, says in (('{"prompt": [-1]}', "line 1"), ('{"text": 1}', "prompt"), ("", "found none")):
        (tmp_path / "in.jsonl").write_text(text)
        failed = subprocess.run([BUILD / "sluice", "score", tmp_path / "in.jsonl", out], capture_output=True, text=True)
        assert failed.returncode == 2 and says in failed.stderr


def judge(server, **more):
    answer = fetch(server.url + "/v1/score", more)
    assert answer.status == 200, answer.text
    return answer.json()


def test_the_endpoint_says_what_the_command_says(server, tmp_path):
    ids = complete(server, prompt=STORY * 60, max_tokens=0, return_token_ids=True)["choices"][0]["prompt_token_ids"]
    lines = [{"prompt": STORY * 2}, {"prompt": ids[:90]}, {"prompt": ids[:1]}]
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({**line, "start": 1}) for line in lines))
    out = tmp_path / "out.safetensors"
    subprocess.run([BUILD / "sluice", "score", tmp_path / "in.jsonl", out, "--top", "2", "--distributions", "--experts",
                    "--indices"], check=True, capture_output=True)
    found = load_file(out)
    answer = judge(server, prompt=[line["prompt"] for line in lines], top=2, distributions=True, return_routed_experts=True,
                   return_sparse_indices=True)
    assert answer["object"] == "score" and answer["weights_version"]
    assert answer["usage"]["prompt_tokens"] == sum(len(entry["token_ids"]) for entry in answer["data"])
    for number, entry in enumerate(answer["data"]):
        assert entry["index"] == number and entry["start"] == 1
        for name in ("token_ids", "ranks"):
            assert entry[name] == found[f"{number}.{name}"].tolist()
        assert [bits(value) for value in entry["logprobs"]] == found[f"{number}.logprobs"].view(numpy.uint32).tolist()
        if entry["logprobs"]:
            assert entry["top_ids"] == found[f"{number}.top_ids"].tolist()
            words = [[bits(value) for value in row] for row in entry["top_logprobs"]]
            assert words == found[f"{number}.top_logprobs"].view(numpy.uint32).tolist()
        assert (array(entry["distributions"]) == found[f"{number}.distributions"]).all()
        assert (array(entry["routed_experts"]) == found[f"{number}.routed_experts"]).all()
        assert (array(entry["sparse_indices"]) == found[f"{number}.sparse_indices"]).all()
    # From a position on, with what lies before from the cache or not, and next to others.
    whole = judge(server, prompt=ids)["data"][0]
    for _ in range(2):
        late = judge(server, prompt=[ids, STORY], start=300)["data"][0]
        assert late["start"] == 300 and late["logprobs"] == whole["logprobs"][299:] and late["ranks"] == whole["ranks"][299:]
    assert judge(server, prompt=ids[:5], start=9)["data"][0]["logprobs"] == []


def test_what_the_endpoint_refuses(server):
    for body, param in (({}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [-1]}, "prompt"), ({"prompt": [10**6]}, "prompt"),
                        ({"prompt": STORY, "top": 21}, "top"), ({"prompt": STORY, "start": -1}, "start"),
                        ({"prompt": STORY, "distributions": 1}, "distributions"), ({"prompt": "a " * 100000}, "prompt"),
                        ({"prompt": STORY * 700, "distributions": True}, "distributions")):
        answer = fetch(server.url + "/v1/score", body)
        assert answer.status == 400 and answer.json()["error"]["param"] == param, (body, answer.text)
    assert fetch(server.url + "/v1/score", {"prompt": STORY, "model": "other"}).status == 404
    ignored = fetch(server.url + "/v1/score", {"prompt": STORY, "stream": True})
    assert ignored.status == 200 and ignored.headers["x-sluice-ignored"] == "stream"


def test_what_is_refused(server):
    assert refused(server, prompt_logprobs=21)["param"] == "prompt_logprobs"
    assert refused(server, prompt_logprobs=-1)["param"] == "prompt_logprobs"
    assert refused(server, prompt_logprobs="1")["param"] == "prompt_logprobs"
    assert refused(server, prompt_logprobs_start=-1)["param"] == "prompt_logprobs_start"
    assert refused(server, prompt_logprobs=1, stream=True)["message"] == "prompt_logprobs: not supported with stream"
    assert refused(server, return_token_ids=1)["param"] == "return_token_ids"


def lists_of(chunks):
    """The logprobs of a streamed completion, joined."""
    of_it = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"] and chunk["choices"][0]["logprobs"]]
    return {name: [value for each in of_it for value in each[name]] for name in ("token_logprobs", "top_logprobs")}


def test_logprobs_of_given_ids_and_processed_ones(server):
    """Whole and streamed, of chats and completions: raw ones are those of any draw, processed ones sum to one over what is kept."""
    ids = [5, 300, 9]
    body = {"prompt": STORY, "temperature": 0.8, "seed": 4, "max_tokens": 12, "ignore_eos": True, "return_token_ids": True}
    plain = complete(server, **body, logprobs=20)["choices"][0]
    asked = complete(server, **body, logprob_token_ids=ids)["choices"][0]
    assert asked["token_ids"] == plain["token_ids"]
    assert asked["logprobs"]["token_logprobs"] == plain["logprobs"]["token_logprobs"]
    assert all(2 <= len(top) <= 4 for top in asked["logprobs"]["top_logprobs"])
    chunks = events(server, "/v1/completions", {**body, "logprob_token_ids": ids})
    assert lists_of(chunks)["top_logprobs"] == asked["logprobs"]["top_logprobs"]
    rules = {"top_k": 5, "frequency_penalty": 1.5, "logprobs_mode": "processed"}
    processed = complete(server, **body, **rules, logprobs=20)["choices"][0]
    raw = complete(server, **body, **{**rules, "logprobs_mode": "raw"}, logprobs=20)["choices"][0]
    assert processed["token_ids"] == raw["token_ids"] and processed["logprobs"] != raw["logprobs"]
    for top, own in zip(processed["logprobs"]["top_logprobs"], processed["logprobs"]["token_logprobs"], strict=True):
        assert len(top) <= 5 and own in top.values()
        assert math.isclose(sum(math.exp(value) for value in top.values()), 1, abs_tol=1e-5) or len(top) < 5
    assert lists_of(events(server, "/v1/completions", {**body, **rules, "logprobs": 20}))["top_logprobs"] == processed["logprobs"]["top_logprobs"]
    # A constraint leaves two tokens or fewer; what cannot be drawn has no probability.
    chat = {"messages": QUESTION, "temperature": 1, "seed": 2, "logprobs": True, "top_logprobs": 3, "logprobs_mode": "processed",
            "logprob_token_ids": ids, "structured_outputs": {"choice": ["yes", "no"]}}
    said = talk(server, **chat)["choices"][0]
    entries = said["logprobs"]["content"]
    for entry in entries:
        best, given = entry["top_logprobs"][:-3], entry["top_logprobs"][-3:]
        assert math.isclose(sum(math.exp(token["logprob"]) for token in best), 1, abs_tol=1e-5)
        assert [token["logprob"] for token in given] == [-9999] * 3
    streamed = [entry for chunk in events(server, "/v1/chat/completions", chat) for choice in chunk["choices"]
                for entry in (choice["logprobs"] or {"content": []})["content"]]
    assert streamed == entries
    greedy = complete(server, max_tokens=3, temperature=0, logprobs=0, logprobs_mode="processed")["choices"][0]
    assert greedy["logprobs"]["token_logprobs"] == complete(server, max_tokens=3, temperature=0, logprobs=0)["choices"][0]["logprobs"]["token_logprobs"]
    assert refused(server, logprobs_mode="raw_logits")["param"] == "logprobs_mode"
    assert refused(server, logprob_token_ids=[10**6])["param"] == "logprob_token_ids"
    assert refused(server, logprob_token_ids=list(range(65)))["param"] == "logprob_token_ids"


def test_the_cache_serves_what_lies_before_the_start(server):
    ids = complete(server, prompt=STORY * 60, max_tokens=0, prompt_logprobs=0, return_token_ids=True)["choices"][0]["prompt_token_ids"]
    assert len(ids) > 300
    first = complete(server, prompt=ids, max_tokens=1, prompt_logprobs=0)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    # The place to resume at is kept once somebody has asked for it.
    for _ in range(2):
        late = complete(server, prompt=ids, max_tokens=1, prompt_logprobs=0, prompt_logprobs_start=300)
    assert late["usage"]["prompt_tokens_details"]["cached_tokens"] == 256
    assert late["choices"][0]["prompt_logprobs"][300:] == first["choices"][0]["prompt_logprobs"][300:]


def test_log_likelihoods_of_an_evaluation_harness(server, tmp_path):
    """lm-eval's `local-completions` with ids: one token is asked for, and the continuation's part is cut out of the echo."""
    pairs = [("The capital of France is", " Paris"), ("17 + 25 =", " 42"), (STORY, " and a bear who sang")]

    def encode(text):
        return complete(server, prompt=text, max_tokens=0, return_token_ids=True)["choices"][0]["prompt_token_ids"]

    requests = [(encode(context), encode(context + continuation)) for context, continuation in pairs]
    body = {"prompt": [ids for _, ids in requests], "model": "sluice-tiny-v4", "max_tokens": 1, "logprobs": 1,
            "seed": 1234, "echo": True, "temperature": 0}
    answer = fetch(server.url + "/v1/completions", body).json()
    for (context, ids), choice in zip(requests, sorted(answer["choices"], key=lambda c: c["index"]), strict=True):
        tokens = choice["logprobs"]["token_logprobs"][len(context):-1]
        greedy = all(math.isclose(value, max(top.values())) for value, top in
                     zip(tokens, choice["logprobs"]["top_logprobs"][len(context):-1], strict=True))
        out = tmp_path / "logits.safetensors"
        subprocess.run([BUILD / "sluice", "logits", "--ids", ",".join(map(str, ids)), "--out", out], check=True,
                       capture_output=True)
        logits = load_file(out)["logits"].astype(numpy.float64)
        rows = logits[len(context) - 1:len(ids) - 1]
        best = rows.max(axis=-1, keepdims=True)
        reference = (rows - best) - numpy.log(numpy.exp(rows - best).sum(axis=-1, keepdims=True))
        expected = [reference[i, token] for i, token in enumerate(ids[len(context):])]
        assert numpy.allclose(tokens, expected, rtol=0, atol=1e-6)
        assert math.isclose(sum(tokens), sum(expected), abs_tol=1e-6)
        assert greedy == all(row.argmax() == token for row, token in zip(rows, ids[len(context):], strict=True))

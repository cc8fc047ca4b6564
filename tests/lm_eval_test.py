"""The evaluation harness itself, `local-completions` with the server's own tokenizer: its log-likelihoods are those of
`sluice logits` and of `sluice score`."""

import json
import subprocess

import numpy
import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from safetensors.numpy import load_file

from server_process import BUILD, Server, fetch

PAIRS = [("The capital of France is", " Paris"), ("17 + 25 =", " 42"), ("Once upon a time there was a fox", " and a bear who sang"),
         ("1 2 3 4", " 5")]


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def client(server, **more):
    return LocalCompletionsAPI(base_url=server.url + "/v1/completions", model="sluice-tiny-v4", tokenizer_backend="remote",
                               num_concurrent=1, max_retries=1, **more)


def instances(kind, arguments):
    return [Instance(request_type=kind, doc={}, arguments=each, idx=i) for i, each in enumerate(arguments)]


@pytest.mark.parametrize("tokenized, batch", [(False, 1), (True, 4)])
def test_log_likelihoods(server, tmp_path, tokenized, batch):
    harness = client(server, tokenized_requests=tokenized, batch_size=batch)
    found = harness.loglikelihood(instances("loglikelihood", PAIRS), disable_tqdm=True)
    for (context, continuation), (likelihood, greedy) in zip(PAIRS, found, strict=True):
        ids = harness.tok_encode(context + continuation)
        before = len(harness.tok_encode(context))
        out = tmp_path / "logits.safetensors"
        subprocess.run([BUILD / "sluice", "logits", "--ids", ",".join(map(str, ids)), "--out", out], check=True, capture_output=True)
        rows = load_file(out)["logits"].astype(numpy.float64)[before - 1:len(ids) - 1]
        best = rows.max(axis=-1, keepdims=True)
        reference = (rows - best) - numpy.log(numpy.exp(rows - best).sum(axis=-1, keepdims=True))
        expected = [reference[i, token] for i, token in enumerate(ids[before:])]
        assert abs(likelihood - sum(expected)) < 1e-5
        assert greedy == all(row.argmax() == token for row, token in zip(rows, ids[before:], strict=True))
        # To the last bit, those of the command and of the endpoint.
        (tmp_path / "in.jsonl").write_text(json.dumps({"prompt": ids, "start": before}))
        scores = tmp_path / "scores.safetensors"
        subprocess.run([BUILD / "sluice", "score", tmp_path / "in.jsonl", scores], check=True, capture_output=True)
        numbers = [float(value) for value in load_file(scores)["0.logprobs"]]
        assert likelihood == sum(numbers)
        assert fetch(server.url + "/v1/score", {"prompt": ids, "start": before}).json()["data"][0]["logprobs"] == numbers


def test_rolling_likelihoods_and_generation(server):
    harness = client(server, tokenized_requests=True)
    text = "Once upon a time there was a fox who lived in a wood."
    (likelihood,) = harness.loglikelihood_rolling(instances("loglikelihood_rolling", [(text,)]), disable_tqdm=True)
    assert likelihood < 0
    (answer,) = harness.generate_until(instances("generate_until", [("Once upon a time", {"until": ["."], "max_gen_toks": 12})]),
                                       disable_tqdm=True)
    plain = fetch(server.url + "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "stop": ["."]})
    assert answer == plain.json()["choices"][0]["text"]

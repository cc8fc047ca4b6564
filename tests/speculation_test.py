"""Speculation as clients see it: answers, log-probabilities and cached tokens are those without it; predictions, usage,
metrics and what cannot be asked for."""

import subprocess

import openai
import pytest

from server_process import BUILD, ROOT, Server, fetch

MESSAGES = [{"role": "system", "content": "You are a helpful assistant. " + "You tell stories of animals and of the sea. " * 40},
            {"role": "user", "content": "Write a story about a dog."}]
TO_ITS_END = {"max_tokens": 200, "extra_body": {}}
LONG = {"max_tokens": 120, "logprobs": True, "top_logprobs": 2, "extra_body": {"ignore_eos": True}}
# Drafts by whom, how many, and whether they adapt.
KINDS = {"off": ["--speculative", "off"],
         "mtp": ["--speculative", "mtp", "--num-speculative-tokens", "3", "--no-speculative-adaptive"],
         "copies": ["--speculative", "ngram", "--num-speculative-tokens", "8", "--no-speculative-adaptive"],
         "auto": []}


@pytest.fixture(scope="module")
def servers():
    running = {name: Server("--log-level", "warning", *flags) for name, flags in KINDS.items()}
    yield running
    for name, server in running.items():
        assert server.process.poll() is None, f"the server with {name} died:\n" + "".join(server.log)
        server.__exit__(None, None, None)


def ask(server, **more):
    arguments = {"model": "sluice-tiny-v4", "messages": MESSAGES, "temperature": 0, **LONG, **more}
    return server.client.chat.completions.create(**arguments)


def of(choice):
    tokens = [(t.token, t.logprob, [(o.token, o.logprob) for o in t.top_logprobs]) for t in choice.logprobs.content]
    return choice.message.content, choice.finish_reason, tokens


@pytest.mark.parametrize("more", [{}, {"temperature": 1, "seed": 5}, {"temperature": 1.5, "top_p": 0.9, "seed": 7, "n": 3},
                                  {"stop": ["line, and"]}, {"max_tokens": 7}, {"stop": ["zzz", "e"], "n": 2, "seed": 1}])
def test_answers_are_those_without_drafts(servers, more):
    expected = [of(choice) for choice in ask(servers["off"], **more).choices]
    for name in ("mtp", "copies", "auto"):
        answer = ask(servers[name], **more)
        assert [of(choice) for choice in answer.choices] == expected, name


def test_a_repeated_prompt_has_the_same_cached_tokens(servers):
    cached = {}
    for name, server in servers.items():
        fetch(server.url + "/debug/cache/reset", b"")
        first = ask(server)
        more = MESSAGES + [{"role": "assistant", "content": first.choices[0].message.content},
                           {"role": "user", "content": "Again."}]
        usages = [ask(server).usage, ask(server, messages=more).usage]
        cached[name] = [usage.prompt_tokens_details.cached_tokens for usage in usages]
    assert cached["off"][0] > 0 and cached["off"][1] > cached["off"][0]
    assert all(numbers == cached["off"] for numbers in cached.values()), cached


def test_a_prediction_changes_the_usage_only(servers):
    plain = ask(servers["off"], **TO_ITS_END)
    text, tokens = plain.choices[0].message.content, plain.usage.completion_tokens
    assert tokens > 12
    server = servers["copies"]
    before = server.metric("sluice_spec_decode_num_accepted_tokens_total")
    for prediction in ({"type": "content", "content": text},
                       {"type": "content", "content": [{"type": "text", "text": text[:40]}, {"type": "text", "text": text[40:]}]}):
        answer = ask(server, prediction=prediction, **TO_ITS_END)
        assert of(answer.choices[0]) == of(plain.choices[0])
        details = answer.usage.completion_tokens_details
        assert details.accepted_prediction_tokens > 0.5 * tokens
        assert details.rejected_prediction_tokens < 0.5 * tokens
    assert server.metric("sluice_spec_decode_num_accepted_tokens_total") > before + tokens
    wrong = ask(server, prediction={"type": "content", "content": "Nothing of this is ever said by anybody here."},
                **TO_ITS_END)
    assert of(wrong.choices[0]) == of(plain.choices[0])
    assert wrong.usage.completion_tokens_details.accepted_prediction_tokens == 0
    assert wrong.usage.completion_tokens_details.rejected_prediction_tokens > 5


@pytest.mark.parametrize("prediction", [{"type": "content"}, {"type": "text", "content": "x"}, {"content": "x"}, "x",
                                        {"type": "content", "content": [1]}, {"type": "content", "content": [{}]}])
def test_a_prediction_of_another_form_is_refused(servers, prediction):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(servers["copies"], prediction=prediction)
    assert caught.value.param == "prediction"


def test_metrics_by_depth(servers):
    server = servers["mtp"]
    ask(server)
    text = server.metrics()

    def by_depth(name):
        return [float(next(line for line in text.splitlines()
                           if line.startswith(f'sluice_spec_decode_num_{name}_per_pos_total{{position="{i}"}}')).split()[1])
                for i in range(8)]

    drafted, accepted = by_depth("draft_tokens"), by_depth("accepted_tokens")
    assert drafted[0] >= drafted[1] >= drafted[2] > drafted[3] == 0
    assert all(a <= d for a, d in zip(accepted, drafted)) and accepted[0] > 0
    assert server.metric("sluice_spec_decode_num_draft_tokens_total") == sum(drafted)
    assert server.metric("sluice_spec_decode_num_accepted_tokens_total") == sum(accepted)
    assert servers["off"].metric("sluice_spec_decode_num_drafts_total") == 0


def test_drafts_are_drawn_with_the_noise_of_the_tokens():
    """Of prose, at temperature 1: the most likely tokens would be right 0.34 of the time, the best possible is 0.45."""
    text = (ROOT / "tests/evals/prose.txt").read_text()
    with Server("--speculative", "mtp", "--num-speculative-tokens", "1", "--no-speculative-adaptive") as server:
        for i in range(20):
            server.client.completions.create(model="sluice-tiny-v4", prompt=text[i * 397:i * 397 + 300], temperature=1, seed=i,
                                             max_tokens=160, extra_body={"ignore_eos": True})
        drafted = server.metric("sluice_spec_decode_num_draft_tokens_total")
        right = server.metric("sluice_spec_decode_num_accepted_tokens_total")
    assert drafted > 2000
    assert right >= 0.38 * drafted, (right, drafted)


@pytest.mark.parametrize("flags, words", [
    (["--speculative", "eagle"], ["--speculative"]),
    (["--num-speculative-tokens", "9"], ["--num-speculative-tokens", "1 to 8", "found 9"]),
    (["--num-speculative-tokens", "0"], ["--num-speculative-tokens", "1 to 8", "found 0"]),
    (["--speculative", "mtp", "--async-scheduling", "on"], ["--speculative mtp", "--async-scheduling on"]),
    ([str(BUILD / "test-data/oracles/llama-like"), "--speculative", "mtp"], ["multi-token prediction"]),
])
def test_what_cannot_be_is_refused(flags, words, tmp_path):
    done = subprocess.run([BUILD / "sluice", "logits", "--ids", "1,2", "--out", tmp_path / "out", *flags], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert all(word in done.stderr for word in words), done.stderr

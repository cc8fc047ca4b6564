"""The prefix cache of the server: what is computed once, who shares it, and what says so."""

from program import SANITIZED
from server_calls import chat, model, of, server  # noqa: F401
from server_process import Server, fetch

BLOCK = 128  # tokens; prompts are cached in whole blocks
NOTES = [{"role": "system", "content": " ".join(f"Note {i}: the number {i} times {i} is {i * i}." for i in range(20 if SANITIZED else 40))},
         {"role": "user", "content": "What is 17 + 25?"}]


def reset(server):
    answer = fetch(server.url + "/debug/cache/reset", b"")
    assert answer.status == 200, answer.text


def ask_notes(server, model, **more):
    """The answer without what is new each time, and its usage."""
    answer = chat(server, model, messages=NOTES, logprobs=True, top_logprobs=3, max_tokens=24, **more)
    return of(answer.choices[0]), answer.usage


def test_a_prompt_is_cached(server, model):
    reset(server)
    (cold, first), (warm, second) = ask_notes(server, model), ask_notes(server, model)
    assert warm == cold, "text and log-probabilities, bit by bit"
    assert first.prompt_tokens_details.cached_tokens == 0
    cached = second.prompt_tokens_details.cached_tokens
    assert 0 < cached < second.prompt_tokens and cached % BLOCK == 0 and cached >= second.prompt_tokens - 2 * BLOCK
    *_, last = chat(server, model, messages=NOTES, max_tokens=4, stream=True, stream_options={"include_usage": True})
    assert last.usage.prompt_tokens_details.cached_tokens == cached
    many = chat(server, model, messages=NOTES, max_tokens=4, n=3)
    assert many.usage.prompt_tokens_details.cached_tokens == cached, "the prompt counts once"
    reset(server)
    again, third = ask_notes(server, model)
    assert again == cold and third.prompt_tokens_details.cached_tokens == 0


def test_the_next_turn_uses_the_last_one(server, model):
    reset(server)
    answer, usage = ask_notes(server, model)
    more = NOTES + [{"role": "assistant", "content": answer[0]}, {"role": "user", "content": "And what is 9 + 4?"}]
    follow = chat(server, model, messages=more, max_tokens=8)
    assert follow.usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - 2 * BLOCK
    other = chat(server, model, messages=[NOTES[0], {"role": "user", "content": "Something else."}], max_tokens=8)
    assert other.usage.prompt_tokens_details.cached_tokens > 0, "the system prompt is shared"


def test_salts_do_not_share(server, model):
    reset(server)

    def cached(salt):
        answer, usage = ask_notes(server, model, **({"extra_body": {"cache_salt": salt}} if salt else {}))
        return answer, usage.prompt_tokens_details.cached_tokens

    plain, first = cached(None)
    red, second = cached("red")
    blue, third = cached("blue")
    assert (first, second, third) == (0, 0, 0) and plain == red == blue
    assert cached("red")[1] > 0 and cached(None)[1] > 0


def test_debug_cache_and_metrics(server, model):
    reset(server)
    before = fetch(server.url + "/debug/cache").json()
    hits = server.metric("sluice_prefix_cache_hits_total")
    usages = [ask_notes(server, model)[1] for _ in range(2)]
    after = fetch(server.url + "/debug/cache").json()
    cached = usages[1].prompt_tokens_details.cached_tokens

    def grown(key):
        return after[key] - before[key]

    assert grown("admissions") == 2 and grown("prompt_tokens") == 2 * usages[0].prompt_tokens
    assert grown("resumed_tokens") == cached and grown("matched_tokens") >= cached
    assert grown("lost_to_retention_tokens") == grown("matched_tokens") - cached
    assert after["pools"]["latent"]["inserted"] > before["pools"]["latent"]["inserted"]
    for pool in after["pools"].values():
        assert pool["pages_total"] == pool["pages_used"] + pool["pages_cached"] + pool["pages_free"]
        assert pool["pages_used"] == 0 and pool["pages_cached"] > 0
    assert server.metric("sluice_prefix_cache_hits_total") == hits + cached
    reset(server)
    assert all(pool["pages_cached"] == 0 for pool in fetch(server.url + "/debug/cache").json()["pools"].values())


def test_without_the_prefix_cache(server, model):
    reset(server)
    expected, _ = ask_notes(server, model)
    with Server("--no-enable-prefix-caching") as other:
        for _ in range(2):
            answer, usage = ask_notes(other, model)
            assert answer == expected and usage.prompt_tokens_details.cached_tokens == 0


def test_debug_endpoints_are_for_this_machine(model):
    with Server("--host", "0.0.0.0") as server:
        assert fetch(server.url + "/metrics").status == 200
        for answer in (fetch(server.url + "/debug/cache"), fetch(server.url + "/debug/cache/reset", b"")):
            assert answer.status == 403 and "--enable-debug-endpoints" in answer.json()["error"]["message"]
    with Server("--host", "0.0.0.0", "--enable-debug-endpoints") as server:
        assert fetch(server.url + "/debug/cache").status == 200


def test_priorities_are_accepted(server, model):
    with Server("--scheduling-policy", "priority") as other:
        expected, _ = ask_notes(server, model)
        for priority in (-3, 0, 1000):
            assert ask_notes(other, model, extra_body={"priority": priority})[0] == expected

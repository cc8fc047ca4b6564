"""Counters that tell the truth: what /metrics says of requests of every fate is what their answers say.

Every counter and histogram of `sluice api --metrics` has a line in `expected()`: a new one needs one, too.
"""

import concurrent.futures
import json
import random
import re
import socket
import time
import types
import urllib.parse

import httpx
import pytest

from program import QUICK_START, sluice
from server_process import PATIENCE, Server, fetch

QUESTION = [{"role": "user", "content": "What is 17 + 25?"}]
CONFIGURATIONS = {
    "default": [],
    "preempted": ["--force-preempt-every", "3", "--metrics-prefix", "vllm:"],
    "swapped": ["--force-preempt-every", "3", "--swap-space", "64MiB"],
}


def ids(count, seed):
    draw = random.Random(seed)
    return [draw.randrange(300, 4000) for _ in range(count)]


class Ledger(types.SimpleNamespace):
    """What the answers said, summed up. `requests`: those that ended by themselves; `answers`: those that had a token."""

    def __init__(self):
        super().__init__(requests=0, answers=0, prompt=0, cached=0, made=0, reasons={}, http={}, errors={}, refused={}, cancelled=0,
                         streams=0)

    def add(self, path, status=200, *, usage=None, reasons=(), stream=False):
        self.http[path, status] = self.http.get((path, status), 0) + 1
        self.streams += stream
        for reason in reasons:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if usage:
            prompt, cached, made = usage
            self.requests += 1
            self.answers += len(reasons)
            self.prompt, self.cached, self.made = self.prompt + prompt, self.cached + cached, self.made + made

    def count(self, what, key):
        what[key] = what.get(key, 0) + 1


def usage_of(path, usage):
    """(prompt, cached, made, reasoned) of an answer's usage, whatever API it is of."""
    if path == "/v1/messages":
        cached = usage["cache_read_input_tokens"]
        return usage["input_tokens"] + cached, cached, usage["output_tokens"], None
    names = ("input", "output") if path == "/v1/responses" else ("prompt", "completion")
    prompt, made = (usage[f"{name}_tokens"] for name in names)
    assert usage["total_tokens"] == prompt + made
    return prompt, usage[f"{names[0]}_tokens_details"]["cached_tokens"], made, usage[f"{names[1]}_tokens_details"]["reasoning_tokens"]


def reasons_of(path, answer):
    if path == "/v1/messages":
        return [{"end_turn": "stop", "max_tokens": "length", "stop_sequence": "stop", "tool_use": "tool_calls"}[answer["stop_reason"]]]
    if path == "/v1/responses":
        return ["length" if answer["status"] == "incomplete" else "stop"]
    return [choice["finish_reason"] for choice in answer["choices"]]


def whole_of(path, events):
    """Of a stream: what of the whole answer the ledger needs."""
    if path == "/v1/responses":
        return events[-1]["response"]
    if path == "/v1/messages":
        delta = next(e for e in events if e["type"] == "message_delta")
        return {"usage": delta["usage"], "stop_reason": delta["delta"]["stop_reason"]}
    choices = [choice for event in events for choice in event["choices"] if choice.get("finish_reason")]
    return {"usage": events[-1]["usage"], "choices": choices}


def ask(server, ledger, path, body):
    if body.get("stream") and path in ("/v1/completions", "/v1/chat/completions"):
        body = {**body, "stream_options": {"include_usage": True}}
    answer = fetch(server.url + path, body)
    assert answer.status == 200, answer.text
    if body.get("stream"):
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        whole = whole_of(path, [json.loads(line) for line in lines])
    else:
        whole = answer.json()
    usage = usage_of(path, whole["usage"])
    return usage, lambda: ledger.add(path, usage=usage[:3], reasons=reasons_of(path, whole), stream=body.get("stream", False))


def samples(server):
    """Counters, and the counts and sums of histograms; without what reading them adds."""
    found, kind = {}, ""
    for line in server.metrics().splitlines():
        if line.startswith("# TYPE"):
            kind = line.split()[3]
        if not line.startswith("#") and kind != "gauge" and "_bucket{" not in line and 'path="/metrics"' not in line:
            sample, value = line.rsplit(" ", 1)
            found[sample.removeprefix("sluice_").removeprefix("vllm:")] = float(value)
    return found


def labelled(name, label, counts):
    return {f'{name}{{{label}="{value}"}}': count for value, count in counts.items()}


def expected(ledger, grown, vllm):
    """By metric: the value of each of its samples, or a condition. Of samples that are not named here the value is 0."""
    e, some, whatever = ledger, (lambda v: v > 0), (lambda v: v >= 0)

    def histogram(name, count, total):
        return {f"{name}_count": count, f"{name}_sum": total}

    # If the requests of a ledger were cut, the histograms of requests say nothing.
    def of_requests(name, total):
        return histogram(name, e.requests, total if e.requests else 0)

    def close(*names):
        parts = sum(grown[f"{name}_sum"] for name in names)
        return lambda v: v == pytest.approx(parts, rel=1e-9)

    def of_depths(name):
        return sum(value for sample, value in grown.items() if sample.startswith(name))

    def by(name, label):
        return {sample: whatever for sample in grown if re.match(rf"{name}{{{label}=", sample)}

    success = {reason: count for reason, count in e.reasons.items() if reason in ("stop", "length", "tool_calls")}
    theirs = {reason: e.reasons.get(reason, 0) for reason in ("abort", "error", "length")}
    theirs["stop"] = e.reasons.get("stop", 0) + e.reasons.get("tool_calls", 0)
    theirs["abort"] += e.reasons.get("deadline", 0)
    later = e.made - e.answers
    between = histogram("inter_token_latency_seconds", later, some if later else 0)
    computed = e.prompt - e.cached
    return {
        "e2e_request_latency_seconds": of_requests(
            "e2e_request_latency_seconds", close("request_queue_time_seconds", "request_inference_time_seconds")),
        "request_queue_time_seconds": of_requests("request_queue_time_seconds", some),
        "request_inference_time_seconds": of_requests(
            "request_inference_time_seconds", close("request_prefill_time_seconds", "request_decode_time_seconds")),
        "request_prefill_time_seconds": of_requests("request_prefill_time_seconds", some),
        "request_decode_time_seconds": of_requests("request_decode_time_seconds", some),
        "request_prompt_tokens": of_requests("request_prompt_tokens", e.prompt),
        "request_generation_tokens": of_requests("request_generation_tokens", e.made),
        "time_to_first_token_seconds": histogram("time_to_first_token_seconds", e.answers, some),
        "inter_token_latency_seconds": between,
        "time_per_output_token_seconds": histogram("time_per_output_token_seconds", later, close("inter_token_latency_seconds")),
        # Half a character is no text to write: one that is cut early may have written nothing.
        "stream_delay_seconds": histogram("stream_delay_seconds", *([some if e.requests else whatever] * 2)) if e.streams else {},
        "request_success_total": labelled("request_success_total", "finished_reason", theirs if vllm else success),
        "request_finished_total": labelled("request_finished_total", "finished_reason", e.reasons),
        "requests_cancelled_total": {"requests_cancelled_total": e.cancelled},
        "requests_refused_total": labelled("requests_refused_total", "reason", e.refused),
        "errors_total": labelled("errors_total", "kind", e.errors),
        "ignored_fields_total": {"ignored_fields_total": 0},
        "prompt_tokens_total": {"prompt_tokens_total": e.prompt if vllm else computed},
        "recomputed_tokens_total": {"recomputed_tokens_total": whatever},
        "generation_tokens_total": {"generation_tokens_total": e.made},
        "prefix_cache_queries_total": {"prefix_cache_queries_total": e.prompt},
        "prefix_cache_matched_tokens_total": {"prefix_cache_matched_tokens_total": lambda v: e.cached <= v <= e.prompt},
        "prefix_cache_hits_total": {"prefix_cache_hits_total": e.cached},
        "prefix_cache_lost_tokens_total": {"prefix_cache_lost_tokens_total": lambda v: v <= computed},
        "prefix_cache_shared_waits_total": {"prefix_cache_shared_waits_total": whatever},
        "prefix_cache_inserted_pages_total": by("prefix_cache_inserted_pages_total", "pool"),
        "prefix_cache_evicted_pages_total": by("prefix_cache_evicted_pages_total", "pool"),
        "num_preemptions_total": by("num_preemptions_total", "kind"),
        "swaps_restored_total": {"swaps_restored_total": lambda v: v <= grown['num_preemptions_total{kind="swap"}']},
        "engine_step_seconds": histogram("engine_step_seconds", grown["iteration_tokens_count"], some),
        # Each token is a row of some step, but for an answer's last one; drafts that were wrong are rows, too.
        "iteration_tokens": histogram("iteration_tokens", some, lambda v: v >= computed + grown["recomputed_tokens_total"] + later),
        "engine_steps_total": {"engine_steps_total": lambda v: 0 < v <= grown["iteration_tokens_count"]},
        "spec_decode_num_drafts_total": {"spec_decode_num_drafts_total": lambda v: v <= grown["spec_decode_num_draft_tokens_total"]},
        "spec_decode_num_draft_tokens_total": {"spec_decode_num_draft_tokens_total": of_depths("spec_decode_num_draft_tokens_per_pos")},
        "spec_decode_num_accepted_tokens_total": {"spec_decode_num_accepted_tokens_total": of_depths("spec_decode_num_accepted_tokens_per_pos")},
        "spec_decode_num_draft_tokens_per_pos_total": by("spec_decode_num_draft_tokens_per_pos_total", "position"),
        "spec_decode_num_accepted_tokens_per_pos_total": by("spec_decode_num_accepted_tokens_per_pos_total", "position"),
        "http_requests_total": {f'http_requests_total{{path="{path}",status="{status}"}}': count for (path, status), count in e.http.items()},
        "http_refused_total": labelled("http_refused_total", "reason", {"connections": 0, "bodies": 0}),
        "http_unread_answers_total": {"http_unread_answers_total": 0},
        "traces_sent_total": {},
        "traces_dropped_total": {},
    }


def compare(server, before, ledger, vllm=False):
    # The last step is counted when all of it is reported.
    server.wait_for(("vllm:" if vllm else "sluice_") + "engine_turn_seconds", lambda seconds: seconds == 0)
    after = samples(server)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    table = expected(ledger, grown, vllm)
    rows = re.findall(r"^\| `(sluice_|vllm:)(\w+)[^`]*` \| (?:counter|histogram) ", sluice("api", "--metrics").stdout, re.M)
    assert {name for _, name in rows} == set(table), "say in expected() what a new metric counts"
    conditions = {sample: condition for of_metric in table.values() for sample, condition in of_metric.items()}
    wrong = []
    for sample in grown.keys() | conditions.keys():
        value, condition = grown.get(sample, 0), conditions.get(sample, 0)
        if not (condition(value) if callable(condition) else value == condition):
            wrong.append((sample, value, "the answers say", condition))
    assert not wrong, wrong
    return grown


def mixed_requests():
    """Whole and streamed, of all APIs: one and several answers, several prompts, a stop string, limits, a call of tools."""
    for i in range(7):
        yield "/v1/completions", {"prompt": ids(140 + 31 * i, i), "max_tokens": 10 + i, "temperature": 0.9, "seed": i, "ignore_eos": True,
                                  "stream": i % 2 == 0, "n": 4 if i in (1, 6) else 1}
    yield "/v1/completions", {"prompt": [ids(50, 20), ids(150, 21), "Once"], "max_tokens": 12, "temperature": 0.5, "seed": 1}
    yield "/v1/completions", {"prompt": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,", "max_tokens": 60, "temperature": 0, "stop": ["1"]}
    yield "/v1/chat/completions", {"messages": QUESTION, "temperature": 0, "max_tokens": 50}
    yield "/v1/responses", {"input": "What is 17 + 25?", "temperature": 0, "stream": True}
    yield "/v1/messages", {"messages": QUESTION, "temperature": 0, "max_tokens": 50, "stream": True}
    yield "/v1/messages", {"messages": QUESTION, "temperature": 0, "max_tokens": 4}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_the_answers_say(name):
    vllm = "vllm:" in CONFIGURATIONS[name]
    with Server(*QUICK_START, "--max-model-len", "2048", *CONFIGURATIONS[name]) as server:
        before, ledger = samples(server), Ledger()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for _, write_down in pool.map(lambda request: ask(server, ledger, *request), mixed_requests()):
                write_down()
        long = {"prompt": ids(400, 77), "max_tokens": 3, "temperature": 0}
        cached = []
        for n in (1, 1, 4):  # the same again is cached
            (_, of_cache, _, _), write_down = ask(server, ledger, "/v1/completions", {**long, "n": n, "temperature": n - 1 and 0.7})
            write_down()
            cached.append(of_cache)
        assert cached == [0, 384, 384]
        if name == "default":
            compare_apis(server, ledger)
            refuse(server, ledger)
        grown = compare(server, before, ledger, vllm)
        preempted = {kind: grown[f'num_preemptions_total{{kind="{kind}"}}'] for kind in ("recompute", "swap")}
        assert (preempted["recompute"] > 0) == (name in ("preempted", "swapped")), preempted
        assert (preempted["swap"] > 0) == (name == "swapped"), preempted
        assert (grown["recomputed_tokens_total"] > 0) == (name != "default")
        if name == "default":
            leave(server)
            run_late(server)


def compare_apis(server, ledger):
    """The same question to three of them, by greedy choice, is the same usage."""
    for thinks in (True, False):
        calls = {
            "/v1/chat/completions": {"messages": QUESTION, "chat_template_kwargs": {"thinking": thinks}, "max_tokens": 300},
            "/v1/responses": {"input": "What is 17 + 25?", "reasoning": {"effort": "high" if thinks else "none"}, "max_output_tokens": 300},
            "/v1/messages": {"messages": QUESTION, "thinking": {"type": "enabled", "budget_tokens": 1024} if thinks else {"type": "disabled"},
                             "max_tokens": 300}}
        usages = {}
        for path, body in calls.items():
            for stream in (False, True):
                usages[path, stream], write_down = ask(server, ledger, path, {**body, "temperature": 0, "stream": stream})
                write_down()
        assert len({(prompt, made) for prompt, _, made, _ in usages.values()}) == 1, usages
        (reasoned,) = {reasoned for *_, reasoned in usages.values() if reasoned is not None}
        made = usages["/v1/messages", False][2]
        assert 0 < reasoned < made if thinks else reasoned == 0


def refuse(server, ledger):
    for body, status in (({"prompt": "Once", "max_tokens": -1}, 400), ({"prompt": "Once", "model": "another"}, 404)):
        assert fetch(server.url + "/v1/completions", body).status == status
        ledger.add("/v1/completions", status)
        ledger.count(ledger.errors, "invalid_request" if status == 400 else "not_found")


def cut(server, before, ledger):
    """Compares, once the engine has given up what was cut; how much was made of it is known to the server alone."""
    server.wait_for("sluice_kv_cache_bytes_used", lambda value: value == 0)
    grown = {name: value - before.get(name, 0) for name, value in samples(server).items()}
    assert grown["generation_tokens_total"] > 0
    ledger.made = grown["generation_tokens_total"]
    ledger.answers = grown["time_to_first_token_seconds_count"]
    compare(server, before, ledger)


def leave(server):
    """Clients that go are no error of the server and no quick requests: they are in no histogram of requests."""
    port = urllib.parse.urlsplit(server.url).port
    for n in (1, 4):
        for stream in (True, False):
            before, ledger, prompt = samples(server), Ledger(), ids(150, 1000 + 10 * n + stream)
            body = json.dumps({"prompt": prompt, "max_tokens": 1500, "ignore_eos": True, "stream": stream, "n": n, "temperature": 1}).encode()
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                server.wait_for("sluice_time_to_first_token_seconds_count", lambda v: v >= before["time_to_first_token_seconds_count"] + n)
            server.wait_for('sluice_errors_total{kind="client_left"}', lambda v: v > before['errors_total{kind="client_left"}'])
            server.logged(f"status={200 if stream else 499} .* finish=abort client_left=true")
            ledger.add("/v1/completions", 200 if stream else 499, reasons=["abort"] * n, stream=stream)
            ledger.count(ledger.errors, "client_left")
            ledger.prompt, ledger.cancelled = len(prompt), 1
            cut(server, before, ledger)


def run_late(server):
    """Their answers say 503, and they are in no histogram of requests either."""
    for n in (1, 4):
        before, ledger, prompt = samples(server), Ledger(), ids(150, 2000 + n)
        answer = httpx.post(server.url + "/v1/completions", timeout=PATIENCE, headers={"X-Request-Timeout": "0.3"}, json={
            "prompt": prompt, "max_tokens": 1500, "ignore_eos": True, "n": n, "temperature": 1})
        assert answer.status_code == 503
        ledger.add("/v1/completions", 503, reasons=["deadline"] * n)
        ledger.count(ledger.errors, "unavailable")
        ledger.count(ledger.refused, "deadline_running")
        ledger.prompt, ledger.cancelled = len(prompt), 1
        cut(server, before, ledger)

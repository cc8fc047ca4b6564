"""What watches the server: its metrics by Prometheus' own parser, the dashboard, the alerts and the manifests."""

import http.server
import json
import re
import threading
import time

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from server_process import PATIENCE, ROOT, Server, fetch

PACKAGING = ROOT / "packaging"


@pytest.fixture(scope="module")
def server():
    with Server("--request-timeout", "60") as running:
        for stream in (False, True):
            body = {"prompt": "Once", "max_tokens": 5, "ignore_eos": True, "stream": stream}
            assert fetch(running.url + "/v1/completions", body).status == 200
        yield running


def samples(server):
    families = list(text_string_to_metric_families(fetch(server.url + "/metrics").text))
    return families, {sample.name: sample for family in families for sample in family.samples}


def test_prometheus_reads_the_metrics(server):
    families, by_name = samples(server)
    assert len(families) > 40 and all(family.documentation for family in families)
    assert {family.type for family in families} <= {"counter", "gauge", "histogram"}
    for family in families:
        for sample in family.samples:
            assert sample.labels["model_name"] == "sluice-tiny-v4"
            if family.type == "counter":
                assert sample.name.endswith("_total")
            elif family.type == "gauge":
                assert not sample.name.endswith("_total")
    assert by_name["sluice_generation_tokens_total"].value == 10
    for phase in ("queue", "prefill", "decode", "inference"):
        assert by_name[f"sluice_request_{phase}_time_seconds_count"].value == 2
    parts = sum(by_name[f"sluice_request_{phase}_time_seconds_sum"].value for phase in ("queue", "prefill", "decode"))
    # The last token ends an answer: the parts are the whole but for rounding.
    assert by_name["sluice_e2e_request_latency_seconds_sum"].value == pytest.approx(parts, rel=1e-12)


def test_dashboard_and_alerts_ask_for_what_there_is(server):
    _, by_name = samples(server)
    dashboard = json.loads((PACKAGING / "monitoring/grafana.json").read_text())
    rules = yaml.safe_load((PACKAGING / "monitoring/alerts.yml").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(queries) > 25
    for query in queries:
        names = re.findall(r"sluice_\w+", query)
        assert names or "up{" in query, query
        for name in names:
            assert name in by_name, f"{name} of {query}"
            for labels in re.findall(name + r"\{([^}]*)\}", query):
                for label in re.findall(r"(\w+)=", labels):
                    assert label in by_name[name].labels, query


def test_manifests_name_paths_and_flags_that_exist(server):
    deployment, service = yaml.safe_load_all((PACKAGING / "kubernetes.yml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert fetch(server.url + container[probe]["httpGet"]["path"]).status == 200
    known = (ROOT / "cli/flags/serve_flags.cc").read_text() + (ROOT / "cli/flags/text_commands_flags.cc").read_text()
    for argument in container["args"]:
        if argument.startswith("--"):
            assert f'"{argument.split("=")[0]}"' in known, argument
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
        for resource in body["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                self.server.spans += scope["spans"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_traces_cover_the_requests():
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    collector.spans = []
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with Server("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}") as running:
        began = time.time_ns()
        for flags in ("01", "00"):  # the second one is not to be traced
            answer = httpx.post(running.url + "/v1/completions", json={"prompt": "Once", "max_tokens": 20, "ignore_eos": True}, timeout=PATIENCE,
                                headers={"traceparent": f"00-{trace}-{parent}-{flags}", "X-Request-Id": "traced"})
            assert answer.status_code == 200
        running.wait_for("sluice_traces_sent_total", lambda value: value == 1)
        ended = time.time_ns()  # now the server has noted the end, too
        line = running.logged("id=traced .*total_s=").string
        logged, first = (float(re.search(rf"{name}_s=(\S+)", line)[1]) for name in ("total", "ttft"))
        collector.shutdown()
        assert fetch(running.url + "/v1/completions", {"prompt": "Once", "max_tokens": 2}).status == 200
        collector.server_close()
        running.wait_for("sluice_traces_dropped_total", lambda value: value == 1)
    request, *phases = collector.spans
    assert request["traceId"] == trace and request["parentSpanId"] == parent and request["kind"] == 2
    assert [span["name"] for span in phases] == ["queue", "prefill", "decode"]
    assert all(span["traceId"] == trace and span["parentSpanId"] == request["spanId"] for span in phases)
    times = [(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) for span in (request, *phases)]
    millisecond = 10**6
    assert began - 50 * millisecond <= times[0][0] <= times[0][1] <= ended + 50 * millisecond, "by readings of two clocks"
    assert abs(times[0][1] - times[0][0] - logged * 1e9) < millisecond
    assert times[1][0] == times[0][0] and times[1][1] == times[2][0] and times[2][1] == times[3][0]
    assert times[3][1] <= times[0][1] + millisecond
    assert abs(times[2][1] - times[0][0] - first * 1e9) < 5 * millisecond, "the first token"
    attributes = {a["key"]: next(iter(a["value"].values())) for a in request["attributes"]}
    assert attributes["sluice.request_id"] == "traced" and attributes["gen_ai.usage.output_tokens"] == "20"


def test_client_log_and_histogram_agree_on_the_first_token(server):
    """The client may be late on a busy machine: once of many times it is not."""
    late, end = 1, time.monotonic() + PATIENCE
    while late >= 0.005 and time.monotonic() < end:
        before, name = samples(server)[1]["sluice_time_to_first_token_seconds_sum"].value, f"agree-{time.monotonic_ns()}"
        with httpx.Client(timeout=PATIENCE) as http:
            assert http.get(server.url + "/version").status_code == 200  # it is connected
            start = time.monotonic()
            with http.stream("POST", server.url + "/v1/completions", headers={"X-Request-Id": name},
                             json={"prompt": "Once " * 400, "max_tokens": 3, "stream": True, "ignore_eos": True}) as answer:
                lines = answer.iter_lines()
                next(line for line in lines if '"text":"' in line)
                seen = time.monotonic() - start
                for _ in lines:
                    pass
        logged = float(re.search(r"ttft_s=(\S+)", server.logged(f"id={name} .*ttft_s=").string)[1])
        counted = samples(server)[1]["sluice_time_to_first_token_seconds_sum"].value - before
        assert abs(counted - logged) < 0.005
        assert logged <= seen
        late = min(late, seen - logged)
    assert late < 0.005

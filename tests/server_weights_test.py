"""Weights are reloaded under load: each answer is one version's alone, and no cached block is used by another's."""

import json
import os
import re
import shutil
import threading

import pytest

from server_process import ROOT, Server, fetch

MODEL = ROOT / "models" / "sluice-tiny-v4"
SWAPS = int(os.environ.get("SLUICE_WEIGHT_SWAPS", "6"))
PROMPT = "Once upon a time there was a fox " * 40


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """The model itself, and one whose first layer's norm is another, so that all that is cached is, too."""
    folders = []
    for name in ("first", "second"):
        folder = tmp_path_factory.mktemp("weights") / name
        shutil.copytree(MODEL, folder)
        folders.append(folder)
    index = json.loads((MODEL / "model.safetensors.index.json").read_text())["weight_map"]
    exchange_halves(folders[1] / index["layers.0.attn_norm.weight"], "layers.0.attn_norm.weight")
    return folders


def exchange_halves(path, name):
    """Of a tensor's values, whatever their type."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:8 + length])[name]["data_offsets"]
    at, half = 8 + length + begin, (end - begin) // 2
    data[at:at + 2 * half] = data[at + half:at + 2 * half] + data[at:at + half]
    path.write_bytes(data)


def complete(server, **more):
    answer = fetch(server.url + "/v1/completions", {"prompt": PROMPT, "max_tokens": 16, "logprobs": 0, "temperature": 1,
                                                    "seed": 1, **more})
    return answer.status, answer.json()


def said(answer):
    choice = answer["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


def reload(server, folder, mode="drain"):
    answer = fetch(server.url + "/v1/weights/reload", {"folder": str(folder), "mode": mode})
    assert answer.status == 200, answer.text
    version = answer.json()["weights_version"]
    assert re.findall(r'^sluice_weights_info{version="([^"]*)"} 1$', server.metrics(), re.M) == [version]
    return version


def test_swaps_under_load(others):
    with Server(str(others[0]), "--audit") as server:
        seeds = range(3)
        expected = {}
        for folder in (others[1], others[0]):
            version = reload(server, folder)
            for seed in seeds:
                status, answer = complete(server, seed=seed)
                assert status == 200 and answer["weights_version"] == version
                expected[version, seed] = said(answer)
        versions = {version for version, _ in expected}
        assert len(versions) == 2
        assert all(expected[min(versions), seed] != expected[max(versions), seed] for seed in seeds)

        stop, wrong, seen = threading.Event(), [], set()

        def ask(seed):
            while not stop.is_set():
                try:
                    status, answer = complete(server, seed=seed)
                except OSError as error:
                    return wrong.append(error)
                if status == 503:  # aborted
                    continue
                seen.add(answer["weights_version"])
                if status != 200 or said(answer) != expected[answer["weights_version"], seed]:
                    wrong.append((status, answer))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for swap in range(SWAPS):
            reload(server, others[(swap + 1) % 2], "abort" if swap % 3 == 2 else "drain")
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert seen <= versions
        # The cached blocks of a version are found again when that comes back, and only then.
        reload(server, others[1])
        cached = [complete(server)[1]["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)]
        assert cached[1] > 0


def test_a_block_of_other_weights_is_not_used(others):
    def cached():
        return complete(server)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]

    with Server(str(others[0])) as server:
        assert cached() == 0 and cached() > 0
        reload(server, others[1])
        assert cached() == 0, "a block of the other version"
        assert cached() > 0
        reload(server, others[0])
        assert cached() > 0, "its own are still there"


def test_what_is_refused_changes_nothing(others, tmp_path):
    with Server(str(others[0])) as server:
        before = complete(server)[1]
        config = json.loads((others[1] / "config.json").read_text())
        wrong = tmp_path / "wrong"
        shutil.copytree(others[1], wrong)
        (wrong / "config.json").write_text(json.dumps({**config, "hidden_size": config["hidden_size"] * 2}))
        for body, status, text in (
            ({"folder": str(wrong)}, 400, '"hidden_size"'),
            ({"folder": str(tmp_path / "none")}, 404, "none"),
            ({}, 400, "folder"),
            ({"folder": str(others[1]), "mode": "now"}, 400, "mode"),
        ):
            answer = fetch(server.url + "/v1/weights/reload", body)
            assert answer.status == status and text in answer.json()["error"]["message"], answer.text
        for path in wrong.glob("*.safetensors"):
            path.write_bytes(path.read_bytes()[:1000])
        (wrong / "config.json").write_text(json.dumps(config))
        assert fetch(server.url + "/v1/weights/reload", {"folder": str(wrong)}).status in (400, 404)
        after = complete(server)[1]
        assert said(after) == said(before) and after["weights_version"] == before["weights_version"]

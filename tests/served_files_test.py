"""Files that change while their model is served, and names of files that are no UTF-8."""

import json
import os
import shutil
import subprocess
import time

import openai
import pytest

from program import BUILD, MODEL, QUICK_START, fails, few
from server_process import PATIENCE, Server, fetch

PROMPT = "Once upon a time there was a fox " * 20  # a block of the cache and more
SHARD = "model-00001-of-00002.safetensors"  # has the embeddings, which are read from the file whatever is packed


def complete(server, **more):
    answer = fetch(server.url + "/v1/completions", {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, **more})
    return answer.status, answer.json()


def overwrite(path, restore_times=False):
    """Its values in the opposite order."""
    before = path.stat()
    with open(path, "r+b") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        file.seek(begin)
        values = file.read()
        file.seek(begin)
        file.write(values[::-1])
    if restore_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def cut_for_a_while(path):
    data = path.read_bytes()
    os.truncate(path, 4096)
    os.truncate(path, len(data))


def replace(path):
    path.with_suffix(".new").write_bytes(b"another file")
    path.with_suffix(".new").rename(path)


# More of both kinds: src/files/served_files_test.cc.
CHANGES = {
    "cut": lambda path: os.truncate(path, 4096),
    "overwritten, times restored": lambda path: overwrite(path, restore_times=True),
    "cut for a while": cut_for_a_while,
    "another shard": lambda path: overwrite(path.with_name("model-00002-of-00002.safetensors")),
}
HARMLESS = {
    "another mode": lambda path: path.chmod(0o400),
    "a link": lambda path: os.link(path, path.with_suffix(".link")),
    "touched": lambda path: path.touch(),
    "older times": lambda path: os.utime(path, (1, 2)),
    "the same bytes": lambda path: path.open("r+b").write(path.read_bytes()),
    "other files": lambda path: [path.with_name(name).write_text("") for name in ("config.json", "tokenizer.json")],
    "renamed": lambda path: path.rename(path.with_suffix(".old")),
    "replaced": replace,
    "removed": lambda path: path.unlink(),
}


@pytest.fixture
def copy(tmp_path):
    """Makes copies of the embedded model."""
    def make(name="model"):
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(MODEL, folder)
    return make


def health(server, path="/health"):
    return fetch(server.url + path)


def noticed(server):
    began = time.monotonic()
    while health(server).status == 200:
        assert time.monotonic() - began < PATIENCE, "never noticed:\n" + "".join(server.log)
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.mark.parametrize("flags, changes", few([([], 4), (["--no-pack"], 2)], 1))
def test_changes(copy, flags, changes):
    sound = copy("sound")
    with Server(sound, *QUICK_START, *flags) as server:
        expected = complete(server)[1]["choices"]
        for name, change in few(list(CHANGES.items())[:changes], 2):
            folder = copy()
            reload = {"folder": str(folder)}
            assert fetch(server.url + "/v1/weights/reload", reload).status == 200
            assert complete(server)[1]["choices"] == expected
            change(folder / SHARD)
            # At once: the step computes all of the prompt and inserts its blocks.
            status, answer = complete(server, cache_salt=name)
            assert status == 503, (name, answer)
            assert "of-00002.safetensors" in answer["error"]["message"] and str(folder) not in answer["error"]["message"]
            assert noticed(server) < 1, name
            for path in ("/health", "/health/ready", "/health/live"):
                assert health(server, path).status == 503
            server.logged(rf"error\s+weights: {folder}/model-0000.-of-00002.safetensors: .*have changed")
            assert server.metric("sluice_engine_failed") == 1
            assert fetch(server.url + "/v1/weights/reload", {"folder": str(sound)}).status == 200
            assert complete(server, cache_salt=name)[1]["choices"] == expected, name
            assert health(server).status == 200 and server.metric("sluice_engine_failed") == 0


def test_changes_that_do_no_harm(copy):
    folder = copy()
    with Server(folder, *QUICK_START) as server:
        expected = complete(server)[1]["choices"]
        for name, change in HARMLESS.items():
            change(folder / SHARD)
            assert health(server).status == 200, name
            assert complete(server)[1]["choices"] == expected, name
        time.sleep(0.6)
        assert health(server).status == 200
        server.logged("no file has this name any more|another file has this name now")
        assert not [line for line in server.log if " error " in line]


def test_noticed_while_nothing_runs(copy):
    folder = copy()
    with Server(folder, *QUICK_START) as server:
        os.truncate(folder / SHARD, 4096)
        assert noticed(server) < 1


def test_a_stream_ends_with_an_error_behind_sound_tokens(copy):
    folder = copy()
    with Server(folder, *QUICK_START) as server:
        expected = complete(server, max_tokens=1000, ignore_eos=True)[1]["choices"][0]["text"]
        text, count = "", 0
        with pytest.raises(openai.APIError) as failure:
            for chunk in server.client.completions.create(model="model", prompt=PROMPT, max_tokens=1000, temperature=0,
                                                          stream=True, extra_body={"ignore_eos": True}):
                text += chunk.choices[0].text
                if (count := count + 1) == 20:
                    overwrite(folder / SHARD)
        assert "safetensors have changed" in str(failure.value)
        assert 0 < len(text) < len(expected) and expected.startswith(text)


def test_a_command_ends_with_a_message(copy, tmp_path):
    folder = copy()
    command = subprocess.Popen([BUILD / "sluice", "logits", folder, "--ids", "5,6,7", "--greedy", "4000", "--threads", "2",
                                "--out", tmp_path / "logits"], stderr=subprocess.PIPE, text=True)
    while "loaded" not in (line := command.stderr.readline()):
        assert line, command.wait()
    os.truncate(folder / SHARD, 4096)
    _, log = command.communicate(timeout=PATIENCE)
    assert command.returncode == 3 and "safetensors have changed" in log, (command.returncode, log)
    assert not (tmp_path / "logits").exists()


def test_a_folder_whose_name_is_no_utf8(copy):
    named = os.path.join(os.fsencode(copy().parent), b"\xff\xfemodel\xe2\x82")
    os.rename(copy(), named)
    shown = "\ufffd\ufffdmodel\ufffd"
    with Server(os.fsdecode(named), *QUICK_START, "--log-format", "json", errors="strict") as server:
        assert fetch(server.url + "/v1/models").json()["data"][0]["id"] == shown
        assert complete(server)[1]["model"] == shown
        assert complete(server, model=shown)[0] == 200, "clients give the name back"
        assert complete(server, model="other")[0] == 404
        for path in ("/server_info", "/v1/models/" + "%FF", "/metrics", "/tokenizer_info"):
            assert health(server, path).text  # decodes
        assert f'model_name="{shown}"' in health(server, "/metrics").text
        os.truncate(os.path.join(named, SHARD.encode()), 0)
        assert noticed(server) < 1
        json.loads(server.logged('.*have changed.*')[0])
    fails("inspect", os.fsdecode(named) + "/none", says="\ufffd\ufffdmodel\ufffd/none")

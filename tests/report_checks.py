"""Checks a case of tests/reports or popular_models.py against sluice: complaints(case, expect, folder) -> list of
texts.

The keys of "expect", of which a case may have several:
    "logits"    rows at stored_forms.POSITIONS of the columns stored_forms.COLUMNS, in units of 1e-4
    "refused"   words that the one-line message of a refusal has to have; "a|b": one of them
    "tokens"    [[text, ids]]: a text in which special tokens are such, and its ids with those that are added
    "prompt"    [messages, text]: a conversation as the model's template writes it
    "cut"       the size to which the weights' file is cut while the model is served: the server lives on
    "answer"    {"to": text, "chat": true, "text", "reason", "tokens", "prompt_tokens"}: `sluice run`
"""

import http.client
import json
import os
import re
import subprocess
import time

import numpy as np

import report_models
import stored_forms
import tiny_checkpoint
from program import BUILD, QUICK_START, SLUICE
from server_process import Server, fetch

UNIT, TOLERANCE = stored_forms.UNIT, 2e-3  # absolute; rows of quantised weights have values up to 30


def check_logits(model, rows):
    found = tiny_checkpoint.sluice_logits(SLUICE, model, stored_forms.IDS)
    right = np.array(rows) * UNIT
    worst = np.abs(found[np.ix_(stored_forms.POSITIONS, stored_forms.COLUMNS)] - right).max()
    return [] if worst < TOLERANCE else [f"logits are up to {worst:.3g} off"]


def check_refused(model, words):
    try:
        tiny_checkpoint.sluice_logits(SLUICE, model, stored_forms.IDS)
    except tiny_checkpoint.Refused as refusal:
        message = str(refusal).lower()
        missing = [w for w in words if not any(choice in message for choice in w.lower().split("|"))]
        return [f"the message lacks {missing}: {refusal}"] if missing else []
    return [f"loaded; the refusal should say {words}"]


def check_tokens(folder, texts):
    asked = b"".join(f"encode a - {len(raw)}\n".encode() + raw + b"\n" for raw in (text.encode() for text, _ in texts))
    done = subprocess.run([BUILD / "tokenize_lines", folder], input=asked, capture_output=True, timeout=60)
    first, *lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    if "error" in first:
        return [first["error"]]
    return [f"{text!r} became {found}, not {ids}"
            for (text, ids), found in zip(texts, lines, strict=True) if found != ids]


def check_prompt(folder, model_type, conversation):
    messages, right = conversation
    request = {"folder": str(folder), "model_type": model_type, "messages": messages, "add_generation_prompt": True}
    done = subprocess.run([BUILD / "chat_lines"], input=json.dumps(request) + "\n", capture_output=True, text=True,
                          timeout=60)
    found = json.loads(done.stdout)
    return [] if found.get("text") == right else [f"the prompt is {found}, not {right!r}"]


def check_answer(model, want):
    chat = [] if want.get("chat") else ["--raw"]
    done = subprocess.run([SLUICE, "run", model, *QUICK_START, "--no-pack-cache", "--max-tokens", "6",
                           "--temperature", "0", "-p", want["to"], *chat],
                          capture_output=True, text=True, errors="replace", timeout=60)
    said = re.search(r"prompt (\d+) tokens,.*; answer (\d+) tokens.*; (\w+)$", done.stderr, re.M)
    if done.returncode != 0 or not said:
        return [f"exit code {done.returncode}: {done.stderr.strip()}"]
    found = {"prompt_tokens": int(said[1]), "tokens": int(said[2]), "reason": said[3],
             "text": done.stdout.removesuffix("\n"), "to": want["to"], "chat": want.get("chat")}
    return [f"{key} is {found[key]!r}, not {value!r}" for key, value in want.items() if found[key] != value]


def check_cut(model, size):
    """A server may answer from what it holds or refuse; it may not end."""
    small = ["--no-pack-cache", "--max-model-len", "256", "--kv-cache-memory", "64MiB"]
    with Server(model, *QUICK_START, *small) as server:
        body = {"model": "model", "prompt": "hello", "max_tokens": 4, "temperature": 0}
        before = fetch(server.url + "/v1/completions", body).json()["choices"][0]["text"]
        os.truncate(model / "model.safetensors", size)
        time.sleep(1.2)  # it has a second to notice
        try:
            after = fetch(server.url + "/v1/completions", body).json()
        except (OSError, http.client.HTTPException) as error:
            after = {"error": repr(error)}
        time.sleep(0.3)  # until an ended process is seen as such
        if server.process.poll() is not None:
            return [f"the server ended with {server.process.returncode}"]
        same = after.get("choices", [{}])[0].get("text") == before
        return [] if same or "error" in after else [f"the answer {before!r} became {after}"]


def complaints(case, expect, folder):
    model, _ = report_models.build(case, folder)
    model_type = case.get("set", {}).get("model_type", case["family"])
    checks = {"logits": lambda rows: check_logits(model, rows), "refused": lambda words: check_refused(model, words),
              "tokens": lambda texts: check_tokens(model, texts), "answer": lambda want: check_answer(model, want),
              "cut": lambda size: check_cut(model, size),
              "prompt": lambda conversation: check_prompt(model, model_type, conversation)}
    out = []
    for key, value in expect.items():
        try:
            out += checks[key](value)
        except tiny_checkpoint.Refused as refusal:
            out.append(f"refused: {refusal}")
        except AssertionError as error:
            out.append(str(error))
    return out

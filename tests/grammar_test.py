"""Constrained answers against others' judgement: the JSON Schema Test Suite, the package `jsonschema`, and the masks of
`llguidance`.

The seed of the random schemas is fresh, or in SLUICE_TEST_SEED; how many, in SLUICE_TEST_SCHEMAS (default 120)."""

import calendar
import json
import lzma
import os
import pathlib
import re
import subprocess
import sys

import llguidance
import pytest
from jsonschema import Draft202012Validator

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import schema_maker  # noqa: E402
from program import BUILD, MODEL  # noqa: E402
from seed import SEED  # noqa: E402

SCHEMAS = int(os.environ.get("SLUICE_TEST_SCHEMAS", "120"))

# Valid instances of the suite that are not written so: by which rule of docs/structured_outputs.md.
KEYS = "keys come in the order of the schema"
INTEGERS = "integers are written without a fraction, constants in their shortest form"
FORMATS = "the formats of the list are enforced"
REJECTED = {
    ("allOf", "allOf", "allOf"): KEYS,
    ("allOf", "allOf with base schema", "valid"): KEYS,
    ("const", "const with object", "same object with different property order is valid"): KEYS,
    ("dependentRequired", "single dependency", "with dependency"): KEYS,
    ("dependentRequired", "multiple dependents required", "with dependencies"): KEYS,
    ("dependentRequired", "dependencies with escaped characters", "quoted quotes"): KEYS,
    ("dependentSchemas", "single dependency", "valid"): KEYS,
}


class Lines:
    def __init__(self, folder=MODEL):
        self.process = subprocess.Popen([BUILD / "grammar_lines", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def ask(self, **line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def lines():
    lines = Lines()
    yield lines
    lines.process.stdin.close()
    assert lines.process.wait() == 0


def suite():
    path = pathlib.Path(__file__).parent / "json_schema_suite.json.xz"
    for file, cases in json.loads(lzma.decompress(path.read_bytes())).items():
        if file not in ("LICENSE", "SOURCE"):
            for case in cases:
                yield file, case


def rule_of(file, case, test):
    if file == "format" and "only an annotation" in test["description"]:
        return FORMATS
    if any(isinstance(x, float) and x.is_integer() for x in (test["data"], *(test["data"] if isinstance(test["data"], list) else ()))):
        return INTEGERS
    return REJECTED.get((file, case["description"], test["description"]))


def test_suite(lines):
    """Nothing invalid is accepted; what is valid is rejected by a rule only."""
    compiled, refused, rejected = 0, [], 0
    for file, case in suite():
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in case["tests"]]
        answer = lines.ask(kind="json_schema", content=case["schema"], texts=texts)
        if "error" in answer:
            assert answer["error"][0] in "/#", answer["error"]  # names the keyword
            refused.append((file, case["description"], answer["error"]))
            continue
        compiled += 1
        for test, accepted, text in zip(case["tests"], answer["accepts"], texts):
            where = f"{file}: {case['description']}: {test['description']}: {text}"
            if accepted:
                assert test["valid"], where
            elif test["valid"]:
                rejected += 1
                assert rule_of(file, case, test), where
    print(compiled, "compiled", len(refused), "refused", rejected, "valid ones rejected")
    assert compiled >= 209, refused


def test_random_answers_are_valid(lines):
    answers = 0
    for seed in range(SEED, SEED + SCHEMAS):
        schema = schema_maker.SchemaMaker(seed).schema()
        made = lines.ask(kind="json_schema", content=schema, random={"seed": seed % 2**32, "count": 3})
        if "error" in made:
            continue
        validator = Draft202012Validator(schema)
        for text in made["answers"]:
            if text is None:
                continue  # did not end in time
            answers += 1
            assert validator.is_valid(json.loads(text)), f"SLUICE_TEST_SEED={seed} {json.dumps(schema)}: {text}"
    assert answers > SCHEMAS


class Vocabulary:
    """The model's, for llguidance."""

    def __init__(self, folder):
        self.inner = llguidance.LLTokenizer(str(folder / "tokenizer.json"))
        self.texts = [self.inner.decode_bytes([i]) for i in range(self.inner.vocab_size)]
        self.special = {i for i in range(self.inner.vocab_size) if self.inner.is_special_token(i)}
        self.end = self.inner.eos_token


def explained(text, token, ours):
    """By which rule of docs/structured_outputs.md a token is allowed by one side only."""
    digits = text.rstrip("0123456789")
    if b"\x7f" in token:
        return "U+007F needs no escape"
    if ours and (b"-" in token or text.rstrip("0.").endswith("-")):
        return "-0 is 0"
    zeros = re.match(rb"[0-9]*", token)[0].strip(b"0") == b"" and (text.endswith("0") or token.startswith(b"0"))
    if ours and zeros and "." in text[len(text.rstrip("0123456789.")):]:
        return "a fraction may end in zeros"
    leap_day = re.search(r"(\d{4})-02-29", text + token.decode(errors="replace"))
    if not ours and leap_day and not calendar.isleap(int(leap_day[1])):
        return "a date is a day of the calendar (llguidance has 29 February in every year)"
    if not ours and '"0000' in text + token.decode(errors="replace"):
        return "there is no year 0"
    escape = re.search(r"(?<!\\)(?:\\\\)*\\(u[0-9a-fA-F]{0,3})?$", text)
    if ours and escape and (escape[1] or token.startswith((b"u", b"/"))):
        return "free strings may use every escape of JSON (llguidance: \\u for control characters only, no \\/)"
    if not ours and (text.endswith("\\") or b"\\u" in token or "\\u" in text[-6:]):
        return "strings with a constraint use \\u for control characters only"
    if not ours and (digits[-1:] in ("e", "E") or digits[-2:-1] in ("e", "E")):
        return "exponents of two digits"
    if not ours and len(text) - len(text.rstrip("0123456789.")) > 14:
        return "at most 15 digits"
    return None


def as_set(hexadecimal):
    out = set()
    for word in range(0, len(hexadecimal), 8):
        bits = int(hexadecimal[word:word + 8], 16)
        out |= {word * 4 + i for i in range(32) if bits >> i & 1}
    return out


def test_masks_are_those_of_llguidance(lines, monkeypatch):
    """Every step of three answers to schemas that both take."""
    monkeypatch.setattr(schema_maker, "FORMATS", ["date", "uuid", "ipv4"])  # others are narrower here
    vocabulary = Vocabulary(MODEL)
    compared = 0
    # Always the same schemas: llguidance 1.9.1 is wrong about some (behind -2.2, of a minimum of -2.25, it allows no end).
    first = int(os.environ.get("SLUICE_TEST_SEED", 1))
    for seed in range(first, first + SCHEMAS // 2):
        schema = schema_maker.SchemaMaker(seed, hard=False).schema()
        if not isinstance(schema, dict):
            continue
        guided = schema | {"x-guidance": {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}}
        grammar = llguidance.LLMatcher.grammar_from_lark(
            '%llguidance {"no_forcing": true}\nstart: %json ' + json.dumps(guided))
        if llguidance.LLMatcher(vocabulary.inner, grammar, log_level=0).is_error():
            continue
        made = lines.ask(kind="json_schema", content=schema, compact=True, random={"seed": seed % 2**32, "count": 3})
        if "error" in made:
            continue
        tokens = [vocabulary.inner.tokenize_str(text)[:60] for text in made["answers"] if text is not None]
        for ids, masks in zip(tokens, lines.ask(kind="json_schema", content=schema, compact=True, tokens=tokens)["masks"]):
            theirs = llguidance.LLMatcher(vocabulary.inner, grammar, log_level=0)
            for step, mask in enumerate(masks):
                bits = int.from_bytes(theirs.compute_bitmask(), "little")
                allowed = {i for i in range(vocabulary.inner.vocab_size) if bits >> i & 1}
                text = b"".join(vocabulary.texts[i] for i in ids[:step]).decode(errors="replace")
                compared += 1
                for token in as_set(mask) ^ allowed:
                    if token in vocabulary.special and token != vocabulary.end:
                        continue
                    ours = token not in allowed
                    assert explained(text, vocabulary.texts[token], ours), (
                        f"SLUICE_TEST_SEED={seed}: {vocabulary.texts[token]} behind {text!r} is allowed by "
                        f"{'us' if ours else 'llguidance'} only; {json.dumps(schema)}")
                if step < len(ids) and ids[step] in vocabulary.special:
                    break  # "<think>" and its like: special there, text here
                if step < len(ids) and not theirs.consume_token(ids[step]):
                    assert explained(text, vocabulary.texts[ids[step]], True), (seed, text, vocabulary.texts[ids[step]])
                    break
    print(compared, "masks")
    assert compared > 10 * SCHEMAS

"""Every form of tokenizer.json that Sluice reads gives the ids and the texts of the `tokenizers` package; what it does not
read is refused by name.

The seed is fresh, or in SLUICE_TEST_SEED; SLUICE_TEST_FORMS is the number of forms (default 300: each kind once and some
random combinations)."""

import json
import os
import pathlib
import sys

import pytest
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from seed import SEED  # noqa: E402
from tokenizer_forms import TEXTS, base_of_bytes, base_of_characters, forms  # noqa: E402
from tokenizer_test import Sluice, first_difference  # noqa: E402

FORMS = int(os.environ.get("SLUICE_TEST_FORMS", "300"))
# The messages for forms that are refused by design.
REFUSED = ["directly behind ByteFallback", "cannot match the empty text", "behind Fuse or ByteLevel", "expected ByteLevel, as the pre-tokenizer is ByteLevel", "look-behind"]


def unless_it_panics(call):
    """None where the package panics, as on texts that a Replace shortens and a Prepend lengthens."""
    try:
        return call()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


def reference_of(text):
    try:
        return unless_it_panics(lambda: tokenizers.Tokenizer.from_str(text))
    except Exception:  # what the package refuses need not be read
        return None


def check(name, form, folder, refused=REFUSED):
    text = json.dumps(form)
    (folder / "tokenizer.json").write_text(text)
    reference = reference_of(text)
    if reference is None:
        return "unreadable"
    told = f"seed {SEED}: {name}: "
    sluice = Sluice(folder)
    if "error" in sluice.hello:
        sluice.process.stdin.close()
        sluice.process.wait()
        assert any(words in sluice.hello["error"] for words in refused), told + sluice.hello["error"]
        return "refused"
    with sluice:
        for mode, adds, as_text in (("- -", False, False), ("a -", True, False), ("- n", False, True)):
            reference.encode_special_tokens = as_text
            theirs = [unless_it_panics(lambda: reference.encode(text, add_special_tokens=adds).ids) for text in TEXTS]
            for words, ours, expected in zip(TEXTS, sluice.ask("encode " + mode, TEXTS), theirs):
                assert ours == expected or expected is None, told + first_difference(words, ours, expected, reference)
            if mode == "- n":
                continue
            theirs = [ids for ids in theirs if ids is not None]
            streams = [" ".join(map(str, ids)) for ids in theirs]
            for flag in "-s":
                decoded = sluice.ask(f"decode {flag} -", streams)
                for ids, answer in zip(theirs, decoded):
                    expected = unless_it_panics(lambda: reference.decode(ids, skip_special_tokens=flag == "s"))
                    assert expected in (None, bytes.fromhex(answer).decode("utf-8", "replace")), f"{told}{ids}"
    return "equal"


def test_every_form(tmp_path):
    outcomes = [check(name, form, tmp_path) for name, form in forms(SEED, FORMS)]
    print({outcome: outcomes.count(outcome) for outcome in set(outcomes)})
    assert outcomes.count("equal") > 0.8 * FORMS


@pytest.mark.parametrize("key, value, says", [
    ("decoder", {"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece"),
    ("decoder", {"type": "BPEDecoder", "suffix": "</w>"}, "BPEDecoder"),
    ("decoder", None, "expected a decoder"),
    ("normalizer", {"type": "Precompiled", "precompiled_charsmap": ""}, "Precompiled"),
    ("pre_tokenizer", {"type": "UnicodeScripts"}, "UnicodeScripts"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": r"(a)\1"}, "behavior": "Isolated", "invert": False}, r'\\1'),
], ids=lambda value: "")
def test_what_is_not_read_is_named(key, value, says, tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(base_of_characters() | {key: value}))
    sluice = Sluice(tmp_path)
    sluice.process.stdin.close()
    assert sluice.process.wait() == 0
    assert f"key '{key}'" in sluice.hello["error"] and says.replace("\\\\", "\\") in sluice.hello["error"]

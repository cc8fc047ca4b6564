"""Forms of config.json against stored logits of transformers: no silent difference, and each refusal names its key.

The forms and values are in config_forms.jsonl.xz; tests/config_form_library.py makes them, and tries thousands of fresh
ones. A form is printed as {"set", "drop"} against the complete config of its family (config_form_bases.py).
"""

import collections
import concurrent.futures
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import stored_forms  # noqa: E402
from program import SANITIZED, SLUICE  # noqa: E402

# The share of the forms that the library computes which sluice may refuse with a word.
MOST_REFUSED = 0.1


def test_forms_of_config():
    forms = stored_forms.read()
    assert len(forms) >= 200 and stored_forms.FILE.stat().st_size <= 200_000
    if SANITIZED:
        forms = forms[::10]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda form: stored_forms.judge(form, SLUICE), forms))
    tally = collections.Counter(verdict for verdict, _ in verdicts)
    faults = [f"form {form.number}: {verdict}: {form.family} {json.dumps(form.form)}: {text}"
              for form, (verdict, text) in zip(forms, verdicts) if verdict in stored_forms.FAULTS]
    assert not faults, "\n".join([str(dict(tally)), *faults])
    assert tally["refused, key named"] <= MOST_REFUSED * len(forms), tally

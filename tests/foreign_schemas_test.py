"""Schemas that other programs generate: which are taken, what of them is named as ignored, and that random answers are
valid by `jsonschema`, and read by the class that a schema of pydantic belongs to."""

import json

import jsonschema
import pytest
from jsonschema import validators

from foreign_schemas import FORMS
from grammar_test import Lines
from pydantic_kinds import KINDS, REFUSED, UNREAD
from seed import SEED

COUNT = 4  # random answers to each


@pytest.fixture(scope="module")
def lines():
    lines = Lines()
    yield lines
    lines.process.stdin.close()
    assert lines.process.wait() == 0


def answers(lines, name, schema):
    """Of a schema that must be taken; and what was remarked."""
    made = lines.ask(kind="json_schema", content=schema, random={"seed": SEED % 2**32, "count": COUNT})
    assert "error" not in made, f"{name}: {made}"
    written = json.dumps(schema)
    default = jsonschema.Draft202012Validator
    if '"items": [' in written or '"exclusiveMinimum": true' in written:
        default = jsonschema.Draft4Validator
    if '"required": true' in written:
        default = jsonschema.Draft3Validator
    validator = validators.validator_for(schema, default=default)(schema)
    texts = [text for text in made["answers"] if text is not None]  # null: it did not end in time
    for text in texts:
        errors = [error.message for error in validator.iter_errors(json.loads(text))]
        assert not errors, f"SLUICE_TEST_SEED={SEED} {name}: {text}: {errors}"
    return texts, made["remarks"]


def test_forms_of_generators(lines):
    ended = 0
    for name, (schema, ignored) in FORMS.items():
        if ignored is None:
            assert lines.ask(kind="json_schema", content=schema)["error"][0] in "/#", name
            continue
        texts, remarks = answers(lines, name, schema)
        assert sorted(remarks) == ignored, name
        ended += len(texts)
    taken = [name for name, (_, ignored) in FORMS.items() if ignored is not None]
    assert len(taken) >= 40 and ended > 2 * len(taken), ended


def test_fields_of_pydantic(lines):
    ended = 0
    for name, model in KINDS.items():
        schema = model.model_json_schema()
        if name in REFUSED:
            assert "uniqueItems" in lines.ask(kind="json_schema", content=schema)["error"], name
            continue
        texts, _ = answers(lines, name, schema)
        for text in texts if name not in UNREAD else ():
            try:
                model.model_validate_json(text)
            except ValueError as error:
                pytest.fail(f"SLUICE_TEST_SEED={SEED} {name}: {text}: {error}")
        ended += len(texts)
    assert len(KINDS) >= 38 and ended > 2 * len(KINDS), ended

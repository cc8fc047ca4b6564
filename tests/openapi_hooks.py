"""For schemathesis: of bodies with dozens of random fields hardly one is good. Most keep a few, and a good prompt."""

import hashlib
import json
import random

import schemathesis

TALK = [{"role": "user", "content": "hi"}]
PROMPTS = {"/v1/chat/completions": {"messages": TALK}, "/v1/chat/completions/render": {"messages": TALK},
           "/v1/completions": {"prompt": "Once upon"}, "/v1/responses": {"input": "hi"},
           "/v1/responses/input_tokens": {"input": "hi"},
           "/v1/messages": {"messages": TALK, "max_tokens": 9}, "/v1/messages/count_tokens": {"messages": TALK},
           "/tokenize": {"prompt": "hi"}, "/v1/score": {"prompt": "hi"}}


@schemathesis.hook
def map_body(context, body):
    prompt = PROMPTS.get(context.operation.path)
    if prompt is None or not isinstance(body, dict):
        return body
    chance = random.Random(hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).digest())
    if chance.random() < 0.3:
        return body
    kept = dict(chance.sample(sorted(body.items()), min(len(body), chance.randrange(4))))
    return {**prompt, **kept} if chance.random() < 0.2 else {**kept, **prompt}

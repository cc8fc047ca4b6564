"""The laws from outside: however a server is set up and loaded, it gives the same answers, digit by digit.

The same requests go to several servers with different flags, one after the other and all at once in random order. What
a server without a prefix cache answers to each request alone is what all others must answer.
"""

import pytest

from schedules import REQUESTS, SERVERS, ask, check
from server_process import Server


@pytest.fixture(scope="module")
def alone():
    with Server("--no-enable-prefix-caching") as server:
        return [ask(server, i) for i in range(len(REQUESTS))]


@pytest.mark.parametrize("name", SERVERS)
def test_same_answers(name, alone):
    flags, seen = SERVERS[name]
    check(name, flags, seen, alone)


@pytest.mark.parametrize("fault", ["skipped-write", "chunk-reduction"])
def test_a_fault_is_seen(fault, alone):
    with Server("--max-num-batched-tokens", "7", "--inject", fault, "--log-level", "warning") as server:
        assert any(ask(server, i) != alone[i] for i in range(6))

"""Quantiles of response times are exact, however many there are and wherever they lie."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Write, analysis_of, attack, encode, standard
from tests.parts import Dividing


def timed(times: Sequence[float], **values: Any) -> list[dict[str, Any]]:
    return [standard(number, response_time=seconds, **values) for number, seconds in enumerate(times)]


def refuse_other_quantiles(latency: Any, times: Sequence[float]) -> None:
    assert latency.n == len(times)
    expected = np.quantile(np.asarray(times), [0.5, 0.95])
    assert [latency.median, latency.p95] == pytest.approx(list(expected), rel=1e-12)


@pytest.mark.parametrize("parts", [0, 3])
def test_quantiles_of_many_times_are_those_of_numpy(write: Write, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    draw = random.Random(5)
    times = [draw.lognormvariate(0, 3) for _ in range(23_000)] + [1e300, 0.0, 0.0]
    of_attacks = [draw.choice([0.25, 0.5, draw.random()]) for _ in range(2_001)]
    attacks = [attack(number, "goat", response_time=seconds) for number, seconds in enumerate(of_attacks)]
    path = write([*timed(times), *attacks])
    Dividing(monkeypatch).into(parts)
    found = {latency.strategy: latency for latency in analysis_of(path, cache=False).latency}
    assert sorted(found) == ["goat", "standard"]
    refuse_other_quantiles(found["standard"], times)
    refuse_other_quantiles(found["goat"], of_attacks)


TIMES = st.one_of(
    st.floats(0, 1e308), st.floats(0, 1e-300), st.sampled_from([0.0, 1.0, 1.0 + 2**-52]), st.floats(0, 10)
)


@settings(max_examples=25)
@given(st.lists(TIMES, min_size=1, max_size=80))
def test_windows_end_at_the_right_times(tmp_path_factory: pytest.TempPathFactory, times: list[float]) -> None:
    path = tmp_path_factory.mktemp("times") / "results_x.jsonl"
    path.write_bytes(encode(timed(times)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("faircount.ledger.tallies._TIMES_AT_ONCE", 3)
        patch.setattr("faircount.ledger.tallies._BUCKETS", 4)
        (latency,) = analysis_of(str(path)).latency
    refuse_other_quantiles(latency, times)

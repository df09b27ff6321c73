"""What the demonstration of the tiers tells a plan of the run that it is checked against."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from demo.run import Places
from demo.tiers.cost import SampleCost


def test_a_sample_costs_what_its_worker_took_beside_the_delays(tmp_path: Path) -> None:
    places = Places(tmp_path)
    np.savez(places.seen("direct"), worker_s=[6.0, 4.0])
    np.savez(places.seen("forebay"), worker_s=[3.0, 0.2])
    none = {"mean_ms": 0.0}
    tier = {
        "read": {"ok": 3000, "delay": {"mean_ms": 1.5}, "queued": {"mean_ms": 0.5}},
        "metadata": {"ok": 1000, "delay": {"mean_ms": 2.0}, "queued": none},
    }
    places.tier("direct").write_text(json.dumps(tier))
    cost = SampleCost.of(places, 100)
    assert cost.reads == 15
    assert cost.direct_ms == pytest.approx(10.0)
    # What is resident in the last epoch.
    assert cost.staged_ms == pytest.approx(2.0)

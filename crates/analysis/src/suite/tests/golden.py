"""Write golden.json: what SciPy and Apache Otava find, for the tests beside this file to compare.

Otava needs an environment of its own (`uv pip install apache-otava==0.8.0 scipy`), so its findings
are kept. Two things are set right on the way:

- Otava divides variances by n, this crate by n - 1: series with a p-value near a limit are left out.
- When Otava drops a point it measures the two points after it anew, and not the one before, whose
  right part has grown too; so it keeps points that are none and drops some that are. Its split and
  its measures are taken as they are, and points are dropped here as its paper says.
"""

import json
import sys
from pathlib import Path

import numpy as np
from otava.analysis import TTestSignificanceTester, split
from scipy.stats import mannwhitneyu

PLACES = 3
LIMIT = 0.001


def rank_tests(random):
    for n1, n2 in [(5, 5), (5, 7), (10, 10), (10, 12), (20, 20), (21, 20), (3, 40), (30, 50)]:
        for shift, digits in [(0.0, 9), (0.08, 9), (0.05, 1)]:
            a = np.round(random.lognormal(0.0, 0.08, n1), digits)
            b = np.round(random.lognormal(shift, 0.08, n2), digits)
            tied = len({*a, *b}) < n1 + n2
            exact = not tied and n1 * n2 <= 400
            found = mannwhitneyu(a, b, method="exact" if exact else "asymptotic")
            yield {
                "a": a.tolist(),
                "b": b.tolist(),
                "u": found.statistic,
                "p": found.pvalue,
                "exact": exact,
            }


def near(point, limit):
    return limit / 5 < point.stats.pvalue < limit * 5


def merged(values, points, effect):
    tester = TTestSignificanceTester(LIMIT)
    while True:
        intervals = tester.get_intervals(points)
        points = [tester.change_point(p.to_candidate(), values, intervals) for p in points]
        weak = [p for p in points if p.stats.pvalue >= LIMIT]
        small = [p for p in points if p.stats.change_magnitude() <= effect]
        if weak:
            points.remove(max(weak, key=lambda p: p.stats.pvalue))
        elif small:
            points.remove(min(small, key=lambda p: p.stats.change_magnitude()))
        else:
            return points


def series(random):
    shapes = [
        [(60, 1.0)],
        [(30, 1.0), (12, 2.3), (18, 1.0)],
        [(40, 1.0), (40, 1.3)],
        [(25, 1.3), (80, 1.0)],
        [(20, 1.0), (20, 1.5), (20, 2.0), (20, 1.0)],
        [(10, 1.0), (10, 1.6)],
        [(150, 1.0), (50, 1.2)],
        [(7, 1.0), (5, 3.0)],
    ]
    for shape in shapes:
        for spread in (0.03, 0.08):
            for _ in range(3):
                parts = [random.lognormal(np.log(m), spread, n) for n, m in shape]
                values = np.round(np.concatenate(parts), PLACES).tolist()
                for effect in (0.0, 0.1):
                    weak = split(values, 50, 10 * LIMIT)
                    points = merged(values, weak, effect)
                    if any(near(p, LIMIT) or near(p, 10 * LIMIT) for p in [*points, *weak]):
                        continue
                    yield {
                        "values": values,
                        "effect": effect,
                        "points": [int(p.index) for p in points],
                    }


if __name__ == "__main__":
    random = np.random.default_rng(7)
    golden = {"rank_tests": list(rank_tests(random)), "series": list(series(random))}
    Path(sys.argv[1]).write_text(json.dumps(golden, separators=(",", ":")) + "\n")

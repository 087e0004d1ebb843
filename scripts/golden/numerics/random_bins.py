"""Writes tests/golden/random/bins.json: the probabilities of bins of distributions, from SciPy.

Each case is [name, parameters, edges, probabilities]: probability k is that of a number in
(edges[k - 1], edges[k]]. The limits are those of chi-square tests, by degrees of freedom, which a
correct generator exceeds with probability 1e-6. Needs: pip install numpy scipy.
"""

import json
import sys

import numpy as np
from scipy import stats

CONTINUOUS = [
    ("exponential", [1], stats.expon()),
    ("exponential", [4], stats.expon(scale=4)),
    ("laplace", [0, 1], stats.laplace()),
    ("laplace", [-2, 3], stats.laplace(-2, 3)),
    ("gumbel", [0, 1], stats.gumbel_r()),
    ("gumbel", [1, 0.5], stats.gumbel_r(1, 0.5)),
    *(("gamma", [a], stats.gamma(a)) for a in (0.1, 0.5, 1, 2.5, 30, 1000)),
    *(("beta", [a, b], stats.beta(a, b)) for a, b in ((0.5, 0.5), (2, 3), (1, 1), (50, 0.7))),
    ("truncatedNormal", [-2, 2, 0, 1], stats.truncnorm(-2, 2)),
    ("truncatedNormal", [1, 3, 0, 1], stats.truncnorm(1, 3)),
    ("truncatedNormal", [-9, -8, 0, 1], stats.truncnorm(-9, -8)),
    ("truncatedNormal", [4, 40, 10, 3], stats.truncnorm(-2, 10, 10, 3)),
]
DISCRETE = [
    *(("poisson", [rate], stats.poisson(rate)) for rate in (0.3, 4, 9.99, 10, 57.5, 1e4)),
    *(
        ("binomial", [n, p], stats.binom(n, p))
        for n, p in ((1, 0.3), (10, 0.5), (20, 0.97), (100, 0.4), (1000, 0.008), (5000, 0.75))
    ),
]
BINS = 40

cases = []
for name, parameters, distribution in CONTINUOUS:
    edges = distribution.ppf(np.arange(1, BINS) / BINS)
    cases.append([name, parameters, [float(f"{x:.17g}") for x in edges], [1 / BINS] * BINS])
for name, parameters, distribution in DISCRETE:
    wanted = distribution.ppf(np.arange(1, BINS) / BINS)
    edges = np.unique(np.concatenate([wanted, [distribution.ppf(0.005), distribution.ppf(0.995)]]))
    below = np.concatenate([[0], distribution.cdf(edges), [1]])
    shares = np.diff(below)
    if shares[-1] == 0:
        edges, shares = edges[:-1], shares[:-1]
    cases.append([name, parameters, edges.tolist(), [float(f"{p:.15g}") for p in shares]])
limits = {str(k): float(f"{stats.chi2.isf(1e-6, k):.6g}") for k in range(1, BINS + 3)}
json.dump({"cases": cases, "limits": limits}, sys.stdout, separators=(",", ":"))
print()

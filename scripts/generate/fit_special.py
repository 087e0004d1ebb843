"""Fits the coefficients of the special functions, and writes them for JavaScript and C:
src/backend/js/special/coefficients.ts and shim/math/special/special_coefficients.h.

    .venv/bin/pip install mpmath
    .venv/bin/python scripts/generate/fit_special.py

Polynomials are interpolated at Chebyshev nodes with 45 digits. Prints the largest relative error of
each one. Run from the repository root.
"""

import re

from mpmath import (
    bernoulli, besseli, chebyfit, digamma, erfc, euler, exp, expm1, factorial, findroot, log,
    loggamma, mp, mpf, nstr, pi, polygamma, polyval, sqrt)

mp.dps = 45
TINY = mpf(10) ** -20


def fit(name, function, low, high, count):
    """The polynomial of `count` coefficients in u in [-1, 1] that `low` to `high` are mapped to."""
    low, high = mpf(low), mpf(high)

    def mapped(u):
        return function((high - low) / 2 * u + (low + high) / 2)

    coefficients = chebyfit(mapped, [-1, 1], count)
    points = [mpf(-1) + mpf(2) * i / 59 for i in range(60)]
    error = max(abs(polyval(coefficients, u) / mapped(u) - 1) for u in points)
    print(name, count, nstr(error, 3), flush=True)
    return [float(x) for x in coefficients[::-1]]


def lgamma_quotient(u):
    if abs(u) < TINY:
        return euler
    if abs(u - 1) < TINY:
        return 1 - euler
    return loggamma(1 + u) / (u * (u - 1))


DIGAMMA_ZERO = findroot(lambda u: digamma(1 + u), 0.46)


def digamma_quotient(u):
    if abs(u - DIGAMMA_ZERO) < mpf(10) ** -15:
        return polygamma(1, 1 + DIGAMMA_ZERO)
    return digamma(1 + u) / (u - DIGAMMA_ZERO)


def erfinv_quotient(w):
    """erfinv(y) / y for w = -log(1 - y^2), by Newton's method on erfc, or on its logarithm."""
    if w < TINY:
        return sqrt(pi) / 2
    y = sqrt(-expm1(-w))
    target = exp(-w) / (1 + y)
    x = sqrt(w) * mpf("0.9") if w > 1 else sqrt(pi) / 2 * y
    for _ in range(80):
        slope = -2 / sqrt(pi) * exp(-x * x)
        if w > 1:
            value = erfc(x)
            step = (log(value) - log(target)) / (slope / value)
        else:
            step = (erfc(x) - target) / slope
            step /= 1 + x * step
        x -= step
        if abs(step) < mpf(10) ** -38 * abs(x):
            break
    return x / y


def bessel_scaled(order):
    """sqrt(x) exp(-x) I(x) in 8 / x; near infinity by the asymptotic series."""

    def function(s):
        if s >= mpf(1) / 4000:
            x = 8 / s
            return sqrt(x) * exp(-x) * besseli(order, x)
        total = term = mpf(1)
        if s > 0:
            for k in range(1, 30):
                term *= -(4 * order * order - (2 * k - 1) ** 2) / (k * 8 * (8 / s))
                total += term
        return total / sqrt(2 * pi)

    return function


# Name, description, coefficients.
TABLES = [
    ("lgamma", "log(Γ(1 + u)) / (u (u - 1)) for u in [0, 1], in 2 u - 1.",
     lambda name: fit(name, lgamma_quotient, 0, 1, 22)),
    ("digamma", "ψ(1 + u) / (u - its zero) for u in [0, 1], in 2 u - 1.",
     lambda name: fit(name, digamma_quotient, 0, 1, 22)),
    ("erfinvA", "erfinv(y) / y for w = -log(1 - y²) in [0, 6.25], in (w - 3.125) / 3.125.",
     lambda name: fit(name, erfinv_quotient, 0, "6.25", 25)),
    ("erfinvB", "The same for s = sqrt(w) in [2.5, 4.25], in (s - 3.375) / 0.875.",
     lambda name: fit(name, lambda s: erfinv_quotient(s * s), "2.5", "4.25", 22)),
    ("erfinvC", "The same, divided by s, for r = 1 / s in [0.1, 1 / 4.25], mapped to [-1, 1].",
     lambda name: fit(name, lambda r: erfinv_quotient(1 / r / r) * r, "0.1", 1 / mpf("4.25"), 20)),
    ("erfinvD", "The same for r in [1 / 28, 0.1].",
     lambda name: fit(name, lambda r: erfinv_quotient(1 / r / r) * r, 1 / mpf(28), "0.1", 20)),
    ("i0", "sqrt(x) exp(-x) I0(x) for x from 8 on, in 16 / x - 1.",
     lambda name: fit(name, bessel_scaled(0), 0, 1, 23)),
    ("i1", "sqrt(x) exp(-x) I1(x) for x from 8 on, in 16 / x - 1.",
     lambda name: fit(name, bessel_scaled(1), 0, 1, 23)),
    ("i0Series", "The power series of I0 in x² / 4.",
     lambda _: [float(1 / factorial(k) ** 2) for k in range(23)]),
    ("i1Series", "The power series of 2 I1(x) / x in x² / 4.",
     lambda _: [float(1 / (factorial(k) * factorial(k + 1))) for k in range(23)]),
    ("stirling", "The series of log(Γ(x)) beyond Stirling's formula, times x, in 1 / x².",
     lambda _: [float(bernoulli(2 * k) / (2 * k * (2 * k - 1))) for k in range(1, 10)]),
    ("digammaTail", "The series of log(x) - 1 / (2 x) - ψ(x), times x², in 1 / x².",
     lambda _: [float(bernoulli(2 * k) / (2 * k)) for k in range(1, 11)]),
    ("zetaTail", "B(2 j) / (2 j)!, the coefficients of the Euler-Maclaurin formula.",
     lambda _: [float(bernoulli(2 * k) / factorial(2 * k)) for k in range(1, 13)]),
]


def upper(name):
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: "_" + letter.group(), name).upper()


def wrap(words, limit=88):
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return " \\\n           ".join(lines)


def write_javascript(tables, zero):
    text = """/**
 * The coefficients of special functions, fitted by scripts/generate/fit_special.py.
 *
 * The lowest comes first.
 *
 * @module
 */
"""
    for name, about, values in tables:
        rows = "".join(f"  {x!r},\n" for x in values)
        text += f"/** {about} */\nexport const {upper(name)}: readonly number[] = [\n{rows}];\n\n"
    text += f"""/** The positive zero of ψ(1 + u), in two parts. */
export const DIGAMMA_ZERO = {zero[0]!r};
export const DIGAMMA_ZERO_LOW = {zero[1]!r};
"""
    with open("src/backend/js/special/coefficients.ts", "w") as file:
        file.write(text)


def write_c(tables, zero):
    text = """/*
 * The coefficients of special functions: those of src/backend/js/special/coefficients.ts. The lowest
 * comes first. Each macro is the polynomial in its argument.
 */
#ifndef ROWMAJOR_SPECIAL_COEFFICIENTS_H
#define ROWMAJOR_SPECIAL_COEFFICIENTS_H

"""
    for n in range(15, 26):
        rest = f"RM_POLY_{n - 1}(T, x, __VA_ARGS__)"
        text += f"#define RM_POLY_{n}(T, x, a, ...) rm_fma_##T({rest}, x, a)\n"
    text += "\n"
    for name, about, values in tables:
        if name == "zetaTail":
            text += "".join(f"#define RM_ZETA_{j} {x!r}\n" for j, x in enumerate(values, 1))
            continue
        for sign, word in [("Γ", "gamma"), ("ψ", "digamma"), ("²", "^2")]:
            about = about.replace(sign, word)
        body = wrap(", ".join(repr(x) for x in values).split(" "))
        text += f"/* {about} */\n#define RM_POLY_OF_{upper(name)}(x) \\\n"
        text += f"  RM_POLY_{len(values)}(f64, x, {body})\n"
    text += f"""/* The zero of digamma(1 + u), in two parts. */
#define RM_DIGAMMA_ZERO {zero[0]!r}
#define RM_DIGAMMA_ZERO_LOW {zero[1]!r}

#endif
"""
    with open("shim/math/special/special_coefficients.h", "w") as file:
        file.write(text)


def main():
    tables = [(name, about, make(name)) for name, about, make in TABLES]
    high = float(DIGAMMA_ZERO)
    zero = (high, float(DIGAMMA_ZERO - mpf(high)))
    write_javascript(tables, zero)
    write_c(tables, zero)


main()

"""Print the polynomials of erf and erfc in src/backend/js/primitives.ts, of philox.ts and gelu.h.

erf(x) = x * N(x * x) on [0, 1], a polynomial through Chebyshev nodes.
erfc(x) = exp(-x * x) / (1 + 2 * x) * P(t) on [0.5, 28], likewise, where t = (x - 4) / (x + 4) spreads
the nodes and 1 + 2 * x makes the rest nearly constant. Needs: pip install mpmath.
"""

from mpmath import chebyfit, cos, erf, erfc, exp, mp, mpf, nstr, pi, sin, sqrt

mp.prec = 400


def horner(name, variable, coefficients):
    *rest, first = [float(c) for c in coefficients]
    print(f"  let {name} = {first!r};")
    for c in reversed(rest):
        print(f"  {name} = {name} * {variable} {'-' if c < 0 else '+'} {abs(c)!r};")


def show(title, error, coefficients):
    """Horner's scheme as TypeScript: even and odd powers apart, as two short chains run at once."""
    print(f"// {title}: error {nstr(error, 3)}")
    horner("even", "tt", coefficients[0::2])
    horner("odd", "tt", coefficients[1::2])


def fit_erf(degree=11):
    def f(t):
        return erf(sqrt(t)) / sqrt(t) if t > 0 else 2 / sqrt(pi)

    p, error = chebyfit(f, [mpf(0), mpf(1)], degree + 1, error=True)
    show("erf(x) / x in t = x * x on [0, 1]", error, p[::-1])


def fit_erfc(degree=20, lo=mpf(1) / 2, hi=mpf(28), k=4):
    def f(t):
        x = k * (1 + t) / (1 - t)
        return exp(x * x) * erfc(x) * (1 + 2 * x)

    p, error = chebyfit(f, [(lo - k) / (lo + k), (hi - k) / (hi + k)], degree + 1, error=True)
    show("exp(x * x) * erfc(x) * (1 + 2 * x) in t, x in [0.5, 28]", error, p[::-1])


def fit_turn(degree):
    """sin(2 pi g) / g and cos(2 pi g) in g * g for g in [-1/8, 1/8], for philox.ts."""
    for name, f in ("sin(2πg) / g", lambda g: sin(2 * pi * g) / g if g else 2 * pi), (
        "cos(2πg)", lambda g: cos(2 * pi * g)):
        p, error = chebyfit(lambda t: f(sqrt(t)), [mpf(0), mpf(1) / 64], degree + 1, error=True)
        print(f"// {name} in t = g * g: error {nstr(error, 3)}")
        horner(name[:3], "t", p[::-1])


def fit_gelu(degree=4, end=mpf("14.4")):
    """What shim/math/gelu.h says of its pieces: 32, eight from one power of 2 to the next of t + 1."""
    def f(t):
        return exp(t * t / 2) * erfc(t / sqrt(2)) / 2

    pieces = [None] * 32
    for power in range(4):
        for part in range(8):
            lo, hi = (2**power * (1 + mpf(part + k) / 8) - 1 for k in (0, 1))
            hi = min(hi, end)
            middle = (lo + hi) / 2
            p = chebyfit(lambda d: f(middle + d) * (2 * (middle + d) if lo >= 0.5 else 1),
                         [lo - middle, hi - middle], degree + 1)
            pieces[(127 + power) * 8 + part & 31] = [middle, *p[::-1]]
    for name, numbers in zip(["middle", *range(degree + 1)], zip(*pieces)):
        print(f"// {name}\n{{{', '.join(nstr(x, 9) + 'f' for x in numbers)}}},")


if __name__ == "__main__":
    fit_erf()
    fit_erfc()
    fit_turn(6)
    fit_gelu()

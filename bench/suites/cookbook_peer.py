"""NumPy's side of the suite "cookbook": the programs of examples/cookbook, by the same algorithms.

`golden` prints the results on small inputs, tests/golden/cookbook/results.json; peer_models.py runs
the programs on large ones.
"""

import io
import json
import math
import re
import sys

import numpy as np
from scipy.special import erf

# ---- the programs ------------------------------------------------------------------------------


def nearest(points, centers):
    return ((centers**2).sum(1) - 2 * (points @ centers.T)).argmin(1)


def k_means(points, k, rounds):
    centers = points[:k].copy()
    labels = nearest(points, centers)
    for _ in range(rounds):
        members = (labels[:, None] == np.arange(k)).astype(np.float32)
        counts = members.sum(0)[:, None]
        centers = np.where(counts > 0, members.T @ points / np.maximum(counts, 1), centers)
        labels = nearest(points, centers)
    return centers, labels


def pca(points, k):
    centered = points - points.mean(0)
    covariance = centered.T @ centered / np.float32(len(points) - 1)
    values, vectors = np.linalg.eigh(covariance)
    components = vectors.T[::-1][:k].copy()
    return np.abs(components), values[::-1][:k], np.abs(centered @ components.T)


def fit(features, y):
    design = np.concatenate([features, np.ones((len(features), 1), np.float32)], 1)
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    residuals = y - design @ coefficients
    1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum()
    return (coefficients,)


def blur_along(image, sigma, axis):
    radius = math.ceil(3 * sigma)
    n = image.shape[axis]
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1, dtype=np.float32) / sigma) ** 2)
    kernel = kernel / kernel.sum()
    widths = [(radius, radius) if a == axis else (0, 0) for a in range(2)]
    padded = np.pad(image, widths, mode="edge")
    total = np.zeros_like(image)
    for k, weight in enumerate(kernel):
        total += (padded[k : k + n] if axis == 0 else padded[:, k : k + n]) * weight
    return total


def blur(image, sigma):
    return (blur_along(blur_along(image, sigma, 0), sigma, 1),)


def normalize(rows):
    return rows / np.sqrt((rows**2).sum(1, keepdims=True))


def search(items, queries, k):
    scores = normalize(queries) @ items.T
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    values = np.take_along_axis(scores, best, 1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(values, order, 1), np.take_along_axis(best, order, 1)


def moving_average(series, width):
    sums = np.concatenate([[0], np.cumsum(series)])
    return ((sums[width:] - sums[:-width]) / width,)


def life(cells, generations):
    for _ in range(generations):
        rows = np.roll(cells, 1, 0) + cells + np.roll(cells, -1, 0)
        neighbors = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1)
        cells = ((neighbors == 3) | ((neighbors == 4) & (cells == 1))).astype(np.uint8)
    return (cells,)


def train(points, labels, classes, steps, rate):
    weights = np.zeros((points.shape[1], classes), np.float32)
    biases = np.zeros(classes, np.float32)
    targets = (labels[:, None] == np.arange(classes)).astype(np.float32)
    for _ in range(steps):
        scores = points @ weights + biases
        powers = np.exp(scores - scores.max(1, keepdims=True))
        gradient = (powers / powers.sum(1, keepdims=True) - targets) / np.float32(len(points))
        weights -= np.float32(rate) * (points.T @ gradient)
        biases -= np.float32(rate) * gradient.sum(0)
    return weights, biases


def one_hot(names):
    categories = sorted(set(names))
    places = {name: i for i, name in enumerate(categories)}
    labels = np.array([places[name] for name in names], np.int32)
    return (np.eye(len(categories), dtype=np.float32)[labels],)


def low_pass(signal, keep):
    spectrum = np.fft.rfft(signal)
    spectrum[keep:] = 0
    return (np.fft.irfft(spectrum, len(signal)),)


def call_price(spot, strike, years, rate, volatility):
    def cdf(x):
        return 0.5 * (1 + erf(x * math.sqrt(0.5)))

    deviation = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + years * (rate + volatility**2 / 2)) / deviation
    return (cdf(d1) * spot - cdf(d1 - deviation) * (np.exp(-rate * years) * strike),)


def similarity(texts):
    lists = [re.findall("[a-z]+", text.lower()) for text in texts]
    words = sorted({word for one in lists for word in one})
    places = {word: i for i, word in enumerate(words)}
    counts = np.zeros((len(texts), len(words)), np.float32)
    for row, one in enumerate(lists):
        for word in one:
            counts[row, places[word]] += 1
    frequency = counts / counts.sum(1, keepdims=True)
    containing = (counts > 0).sum(0).astype(np.float32)
    rarity = np.log((len(texts) + 1) / (containing + 1)) + 1
    weights = frequency * rarity
    weights = weights / np.sqrt((weights**2).sum(1, keepdims=True))
    return (weights @ weights.T,)


def describe(text):
    rows = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2)
    quantiles = np.quantile(rows, [0, 0.25, 0.5, 0.75, 1], axis=0)
    return (np.concatenate([[rows.mean(0), rows.std(0, ddof=1)], quantiles]),)


# ---- the inputs, as examples/cookbook/inputs.ts makes them -------------------------------------


def noise(seed, *shape):
    size = math.prod(shape)
    h = np.arange(size, dtype=np.uint32) * np.uint32(0x9E3779B9)
    h += np.uint32(seed * 0x85EBCA6B & 0xFFFFFFFF)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    return ((h >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)).reshape(shape)


def integers(seed, size, below):
    return np.floor(noise(seed, size).astype(np.float64) * below).astype(np.int32)


def word(i):
    return "".join(chr(97 + int(k)) for k in (i % 26, i // 26 % 26, i // 676))


def texts_of(count, length, vocabulary):
    words = integers(12, count * length, vocabulary).reshape(count, length)
    return [" ".join(word(int(i)) for i in row) for row in words]


def csv_of(rows):
    numbers = integers(13, rows * 4, 1000).reshape(rows, 4) / 8
    return "a,b,c,d\n" + "".join(",".join(f"{x:.17g}" for x in row) + "\n" for row in numbers)


def k_means_input(large):
    return lambda p=noise(1, *((20_000, 8) if large else (60, 2))): k_means(
        p, *((16, 10) if large else (3, 5))
    )


def least_squares_input(large):
    features = noise(3, *((5000, 16) if large else (30, 3)))
    y = features.sum(1) + noise(4, len(features)) * np.float32(0.25)
    return lambda: fit(features, y)


def search_input(large):
    items = normalize(noise(6, *((20_000, 64) if large else (50, 8))) - np.float32(0.5))
    queries = noise(7, *((32, 64) if large else (3, 8))) - np.float32(0.5)
    return lambda: search(items, queries, 10 if large else 4)


def option_input(large):
    n = 200_000 if large else 8
    spot, strike, years = (noise(seed, n).astype(np.float64) for seed in (16, 17, 18))
    spot, strike, years = spot * 50 + 50, strike * 50 + 50, years + 0.1
    return lambda: call_price(spot, strike, years, 0.03, 0.2)


def life_input(large):
    side = 512 if large else 8
    board = (noise(9, side, side) < np.float32(0.4)).astype(np.uint8)
    return lambda: life(board, 20 if large else 4)


def train_input(large):
    n, d, classes, steps = (2000, 64, 10, 50) if large else (30, 4, 3, 20)
    points, labels = noise(10, n, d), integers(11, n, classes)
    return lambda: train(points, labels, classes, steps, 0.5)


def given(program, *arguments):
    return lambda: program(*arguments)


PROGRAMS = {
    "k-means": k_means_input,
    "PCA": lambda large: given(pca, noise(2, *((5000, 32) if large else (40, 5))), 4 if large else 2),
    "least squares": least_squares_input,
    "blur": lambda large: given(blur, noise(5, *((512, 512) if large else (12, 10))), 1 + large),
    "top-k search": search_input,
    "moving average": lambda large: given(
        moving_average, noise(8, 1_000_000 if large else 20).astype(np.float64), 50 if large else 5
    ),
    "game of life": life_input,
    "softmax regression": train_input,
    "one-hot": lambda large: given(
        one_hot, [word(int(i)) for i in integers(14, *((100_000, 32) if large else (10, 4)))]
    ),
    "FFT filter": lambda large: given(low_pass, noise(15, 2**18 if large else 32), 1000 if large else 4),
    "option pricing": option_input,
    "TF-IDF": lambda large: given(similarity, texts_of(*((500, 80, 2000) if large else (4, 12, 20)))),
    "CSV statistics": lambda large: given(describe, csv_of(20_000 if large else 9)),
}


def rounded(array):
    digits = 10 if array.dtype == np.float64 else 7
    flat = array.ravel().tolist()
    return [float(f"{x:.{digits}g}") if isinstance(x, float) else x for x in flat]


def golden():
    results = {}
    for name, make in PROGRAMS.items():
        results[name] = [[list(array.shape), rounded(array)] for array in make(False)()]
    json.dump(results, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    golden()

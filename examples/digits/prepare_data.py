"""Writes data/digits.npz and data/split.json from the copy of the data set in scikit-learn.

    python3 -m venv .venv && .venv/bin/pip install numpy scikit-learn
    .venv/bin/python examples/digits/prepare_data.py

digits.npz holds images (uint8, [1797, 8, 8], values 0 to 16) and labels (uint8, [1797]).
split.json lists the images to train on and those held out: a random quarter of each class, so that
both parts have the classes in the same proportions. See data/SOURCE.md for what the data is.
"""

import base64
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

OUT = Path(__file__).parent / "data"

digits = load_digits()
images = digits.images.astype(np.uint8)
labels = digits.target.astype(np.uint8)
assert images.shape == (1797, 8, 8) and (images == digits.images).all() and images.max() == 16
# A duplicate could land on both sides, and would then be recognised by heart.
assert len(np.unique(images.reshape(1797, 64), axis=0)) == 1797

rng = np.random.default_rng(1998)
held_out = []
for digit in range(10):
    members = rng.permutation(np.flatnonzero(labels == digit))
    held_out.extend(members[: round(len(members) / 4)].tolist())
train = sorted(set(range(1797)) - set(held_out))

OUT.mkdir(exist_ok=True)
np.savez_compressed(OUT / "digits.npz", images=images, labels=labels)
# The program imports the text, so that it is part of executables.
text = base64.b64encode((OUT / "digits.npz").read_bytes()).decode()
(OUT / "digits.npz.base64").write_text(text + "\n")
lists = {"train": train, "heldOut": sorted(held_out)}
lines = [f"  {json.dumps(name)}: {json.dumps(indices)}" for name, indices in lists.items()]
(OUT / "split.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
print(f"{len(train)} images to train on, {len(held_out)} held out")

"""Writes tests/golden/sampling.json: the probabilities of tokens after the logits processors of transformers.

    .venv/bin/pip install transformers torch numpy
    .venv/bin/python scripts/golden/sampling.py

The processors run in the order of `generate`. Logits are multiples of 1/1000 without ties.
"""

import json
from pathlib import Path

import numpy
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

PATH = Path(__file__).parents[2] / "tests/golden/sampling.json"
VOCABULARY = 40
PROMPT = [3, 17, 3, 39, 0, 8]

CASES = [
    {"temperature": 1},
    {"temperature": 0.7, "topK": 5},
    {"temperature": 1.5, "topP": 0.9},
    {"temperature": 1.2, "minP": 0.1},
    {"temperature": 0.8, "topK": 20, "topP": 0.95, "minP": 0.02},
    {"temperature": 1, "repetitionPenalty": 1.3},
    {"temperature": 1.1, "repetitionPenalty": 0.8, "topK": 10},
    {"temperature": 1, "logitBias": {"3": -2.5, "5": 4, "17": 1.25}},
    {
        "temperature": 0.9,
        "topK": 12,
        "topP": 0.8,
        "repetitionPenalty": 1.2,
        "logitBias": {"0": 3, "8": -1, "39": 0.5},
    },
]


def processors(options):
    made = LogitsProcessorList()
    if "logitBias" in options:
        bias = {(int(id),): float(value) for id, value in options["logitBias"].items()}
        made.append(SequenceBiasLogitsProcessor(sequence_bias=bias))
    if "repetitionPenalty" in options:
        made.append(RepetitionPenaltyLogitsProcessor(penalty=options["repetitionPenalty"]))
    made.append(TemperatureLogitsWarper(float(options["temperature"])))
    if "topK" in options:
        made.append(TopKLogitsWarper(top_k=options["topK"]))
    if "topP" in options:
        made.append(TopPLogitsWarper(top_p=options["topP"]))
    if "minP" in options:
        made.append(MinPLogitsWarper(min_p=options["minP"]))
    return made


def main():
    random = numpy.random.default_rng(1)
    cases = []
    for options in CASES:
        values = random.choice(12000, VOCABULARY, replace=False) - 6000
        logits = torch.tensor(values[None] / 1000, dtype=torch.float32)
        scores = processors(options)(torch.tensor([PROMPT]), logits.clone())
        probabilities = scores.softmax(-1)[0].double().tolist()
        cases.append(
            {
                "options": options,
                "thousandths": values.tolist(),
                "probabilities": [float(f"{p:.7g}") for p in probabilities],
            }
        )
    PATH.write_text(json.dumps({"prompt": PROMPT, "cases": cases}) + "\n")


main()

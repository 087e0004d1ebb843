"""Writes tests/golden/models/silero.json: the probabilities of Silero VAD by PyTorch.

    .venv/bin/pip install torch safetensors
    .venv/bin/python scripts/golden/silero.py models/silero/silero_vad_16k.safetensors

The sound is made by `sound` here and in tests/vad/vad_test.ts: a buzz like that of a voice, in
words, and noise between them.
"""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

PATH = Path(__file__).parents[2] / "tests/golden/models/silero.json"
COUNT = 40000


def sound():
    state, samples = 1, []
    for i in range(COUNT):
        state = (state * 1103515245 + 12345) % 2**31
        noise = (state >> 16) % 601 - 300
        word = i // 4000 % 3 < 2
        pitch = 100 + i // 4000 * 7
        buzz = (i % pitch) * 20000 // pitch - 10000 + (i % 23) * 300 if word else 0
        samples.append(max(-32768, min(32767, buzz + noise)))
    return torch.tensor(samples, dtype=torch.float64) / 32768


def main():
    w = {name: x.double() for name, x in load_file(sys.argv[1]).items()}
    x = sound()
    count = -(-len(x) // 512)
    padded = F.pad(x, (64, count * 512 - len(x)))
    h = c = torch.zeros(1, 128, dtype=torch.float64)
    result = []
    for i in range(count):
        y = F.pad(padded[None, None, i * 512 : i * 512 + 576], (0, 64), mode="reflect")
        y = F.conv1d(y, w["stft_conv.weight"], stride=128)
        y = (y[:, :129] ** 2 + y[:, 129:] ** 2).sqrt()
        for k, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
            y = F.conv1d(y, w[f"conv{k}.weight"], w[f"conv{k}.bias"], stride=stride, padding=1).relu()
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        wi, wh, bi, bh = (w[f"lstm_cell.{name}"] for name in names)
        i_, f, g, o = (F.linear(y[..., 0], wi, bi) + F.linear(h, wh, bh)).chunk(4, 1)
        c = f.sigmoid() * c + i_.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        y = F.conv1d(h.relu()[..., None], w["final_conv.weight"], w["final_conv.bias"])
        result.append(y.sigmoid().item())
    PATH.write_text(json.dumps(result) + "\n")


main()

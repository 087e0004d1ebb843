"""Writes models/onnx: inputs of real ONNX models, and the results of ONNX Runtime.

    .venv/bin/pip install numpy onnxruntime==1.32.0 pillow
    deno task models nudenet rapidocr magika silero ddddocr basic_pitch pictures
    .venv/bin/python scripts/golden/onnx_models.py

tests/onnx/models_test.ts compares with it, and `deno task bench onnx` times the same inputs.
models/onnx/index.json has, for each model, its file and its cases: the .npy files of inputs and
outputs by their names. Detectors get pictures, readers pictures of texts, and models of sound a voice
or notes.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"
OUT = MODELS / "onnx"
F32, I64 = np.float32, np.int64


def picture(name, width, height, mode="RGB", crop=None):
    """A picture as [height, width, channels], or [height, width] in gray, in [0, 1]."""
    image = Image.open(MODELS / "pictures" / name).convert(mode)
    if crop is not None:
        image = image.crop(crop)
    return np.asarray(image.resize((width, height), Image.BILINEAR), F32) / 255


def planes(image):
    return np.ascontiguousarray(image.transpose(2, 0, 1)[None])


# Lines of text in page.png, and the size that they get at a height of 48.
LINES = [((0, 6, 206, 38), 309), ((0, 48, 384, 66), 1024), ((0, 116, 174, 136), 418)]


def line(i, height, mode):
    crop, width = LINES[i]
    width = round(width * height / 48)
    return picture("page.png", width, height, mode, crop)


def normalized(image):
    """The pictures of PP-OCR have means of 0 and deviations of 1."""
    return planes((image - np.array([0.485, 0.456, 0.406], F32)) / np.array([0.229, 0.224, 0.225], F32))


def centered(image):
    return planes((image - F32(0.5)) / F32(0.5))


def gray(image):
    return image[None, None]


def sound(count, rate):
    """A buzz like that of a voice, in words, and noise between them."""
    rng = np.random.default_rng(3)
    at = np.arange(count) / rate
    pitch = 110 + 20 * np.sin(2 * np.pi * 2 * at)
    phase = np.cumsum(pitch) / rate
    buzz = sum(np.sin(2 * np.pi * k * phase) / k for k in range(1, 20))
    words = (np.sin(2 * np.pi * 1.5 * at) > -0.3) * 0.2
    return (buzz * words + rng.standard_normal(count) * 0.01).astype(F32)


def notes(count, rate):
    """Three notes of a chord, one after the other, with overtones."""
    at = np.arange(count) / rate
    x = np.zeros(count)
    for begin, pitch in ((0, 220.0), (0.5, 277.18), (1.0, 329.63)):
        age = np.maximum(at - begin, 0)
        tone = sum(np.sin(2 * np.pi * pitch * k * age) / k**2 for k in range(1, 6))
        x += tone * np.exp(-2 * age) * (at >= begin)
    return (x * 0.3).astype(F32)


def first_and_last(data):
    """The bytes that Magika looks at: the first and last 1024, 256 where there are none."""
    data = np.frombuffer(data, np.uint8).astype(np.int32)
    made = np.full(2048, 256, np.int32)
    first, last = data[:1024], data[-1024:]
    made[: first.size] = first
    made[2048 - last.size :] = last
    return made[None]


def voice(windows):
    """Windows of 512 samples, each with the 64 samples before it."""
    x = np.concatenate([np.zeros(64, F32), sound(windows * 512, 16000)])
    return np.stack([x[i * 512 : i * 512 + 576] for i in range(windows)])


def state(batch=1):
    return np.zeros((2, batch, 128), F32)


def silero(**more):
    windows = voice(40)
    return [{"input": windows[20:21], "state": state(), **more}, {"input": windows[8:12], "state": state(4), **more}]


RATE = {"sr": np.array(16000, I64)}
HELD = {"h": np.zeros((1, 1, 128), F32), "c": np.zeros((1, 1, 128), F32)}

# The name of a row of the benchmark, the file, and the cases. The first one is timed.
TABLE = [
    ("nudenet 320 (YOLOv8n)", "nudenet/320n.onnx", lambda: [{"images": planes(picture(p, w, h))} for p, w, h in (("astronaut.png", 320, 320), ("coffee.png", 320, 224))]),
    ("PP-OCRv4 det", "rapidocr/ch_PP-OCRv4_det_infer.onnx", lambda: [{"x": normalized(picture(p, w, h))} for p, w, h in (("page.png", 640, 320), ("page.png", 384, 192))]),
    ("PP-OCRv4 rec", "rapidocr/ch_PP-OCRv4_rec_infer.onnx", lambda: [{"x": centered(line(i, 48, "RGB"))} for i in (0, 2, 1)]),
    ("PP-OCR cls", "rapidocr/ch_ppocr_mobile_v2.0_cls_infer.onnx", lambda: [{"x": centered(picture("page.png", 192, 48, "RGB", LINES[i][0]))} for i in (0, 2)]),
    ("magika", "magika/model.onnx", lambda: [{"bytes": first_and_last((ROOT / p).read_bytes())} for p in ("LICENSE", "models/pictures/page.png")]),
    ("silero v5", "silero/silero_vad.onnx", lambda: silero(**RATE)),
    ("silero ifless", "silero/silero_vad_op18_ifless.onnx", lambda: silero(**RATE)),
    ("silero opset 15", "silero/silero_vad_16k_op15.onnx", lambda: silero(**RATE)),
    ("silero half", "silero/silero_vad_half.onnx", lambda: silero()),
    ("silero openvino", "silero/silero_vad_openvino_16k.onnx", lambda: silero()[:1]),
    ("silero sequence", "silero/silero_vad_16k_sequence.onnx", lambda: [{"input": voice(n), **HELD} for n in (32, 7)]),
    ("ddddocr CRNN", "ddddocr/common.onnx", lambda: [{"input1": gray(line(i, 64, "L"))} for i in (2, 0)]),
    ("ddddocr det (YOLOX)", "ddddocr/common_det.onnx", lambda: [{"images": planes(picture(p, 416, 416) * 255)} for p in ("page.png", "coffee.png")]),
    ("ddddocr old (int8)", "ddddocr/common_old.onnx", lambda: [{"input1": gray(line(i, 64, "L"))} for i in (2, 0)]),
    ("basic-pitch", "basic_pitch/nmp.onnx", lambda: [{"serving_default_input_2:0": notes(43844, 22050)[None, :, None]}]),
]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    index = {}
    for k, (name, file, make) in enumerate(TABLE):
        session = onnxruntime.InferenceSession(MODELS / file, options, ["CPUExecutionProvider"])
        names = [one.name for one in session.get_outputs()]
        cases = []
        for c, feeds in enumerate(make()):
            found = dict(zip(names, session.run(None, feeds)))
            entry = {"inputs": {}, "outputs": {}}
            for side, values in (("inputs", feeds), ("outputs", found)):
                for i, (key, value) in enumerate(values.items()):
                    entry[side][key] = f"{k}_{c}_{side}_{i}.npy"
                    np.save(OUT / entry[side][key], np.asarray(value, order="C"))
            cases.append(entry)
        index[name] = {"file": file, "cases": cases}
        largest = [f"{key} {value.shape} {np.abs(value).max():.3g}" for key, value in found.items()]
        print(name, len(cases), "cases:", ", ".join(largest))
    (OUT / "index.json").write_text(json.dumps({"onnxruntime": onnxruntime.__version__, "models": index}, indent=1))


main()

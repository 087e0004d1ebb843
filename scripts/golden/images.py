"""Writes tests/golden/images/images.json: PNG and JPEG files, and their pixels.

    python3 -m venv .venv && .venv/bin/pip install numpy pillow
    .venv/bin/python scripts/golden/images.py

PNG files of all color types and depths are written here, as Pillow writes few of them: with all
filters, interlaced or not. Pixels are those that were written; Pillow's are compared where it keeps
all bits. JPEG files are written and read by Pillow; "error" is how far other decoders may be off,
as the standard leaves rounding and the interpolation of colors open.
"""

import base64
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

OUT = Path(__file__).parents[2] / "tests" / "golden" / "images"
DEPTHS = {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
NAMES = {0: "grey", 2: "rgb", 3: "palette", 4: "greyalpha", 6: "rgba"}
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
random = np.random.default_rng(7)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed_rows(pixels, depth):
    height = pixels.shape[0]
    flat = pixels.reshape(height, -1)
    if depth == 16:
        return [row.astype(">u2").tobytes() for row in flat]
    if depth == 8:
        return [row.astype(np.uint8).tobytes() for row in flat]
    bits = ((flat[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8)
    return [np.packbits(row).tobytes() for row in bits.reshape(height, -1)]


def paeth(a, b, c):
    p = a + b - c
    distances = [abs(p - a), abs(p - b), abs(p - c)]
    return [a, b, c][distances.index(min(distances))]


def filtered(rows, step):
    out = b""
    before = bytes(len(rows[0]))
    for y, row in enumerate(rows):
        kind = y % 5
        line = bytearray([kind])
        for i, value in enumerate(row):
            left = row[i - step] if i >= step else 0
            above = before[i]
            corner = before[i - step] if i >= step else 0
            guess = [0, left, above, (left + above) // 2, paeth(left, above, corner)][kind]
            line.append((value - guess) % 256)
        out += line
        before = row
    return out


def png(pixels, depth, color_type, interlaced, extra=b""):
    height, width, channels = pixels.shape
    step = max(1, channels * depth // 8)
    parts = []
    for x, y, dx, dy in PASSES if interlaced else [(0, 0, 1, 1)]:
        part = pixels[y::dy, x::dx]
        if part.size:
            parts.append(filtered(packed_rows(part, depth), step))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, interlaced)
    data = zlib.compress(b"".join(parts), 9)
    half = len(data) // 2
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"tEXt", b"Title\0a")
        + chunk(b"IDAT", data[:half]) + chunk(b"IDAT", data[half:]) + chunk(b"IEND", b"")
    )


def alpha_where(pixels, color, opaque):
    alpha = np.where((pixels == color).all(axis=2, keepdims=True), 0, opaque)
    return np.concatenate([pixels, alpha], axis=2)


def pngs():
    for color_type, depths in DEPTHS.items():
        for depth in depths:
            for interlaced in [0, 1]:
                for height, width in [(7, 11), (1, 1), (2, 3)]:
                    for transparent in [False, True] if color_type in (0, 2, 3) and width == 11 else [False]:
                        pixels = random.integers(0, 2**depth, (height, width, CHANNELS[color_type]))
                        extra = b""
                        expected = pixels
                        if color_type == 3:
                            palette = random.integers(0, 256, (2**depth, 3))
                            extra = chunk(b"PLTE", palette.astype(np.uint8).tobytes())
                            if transparent:
                                alphas = random.integers(0, 256, 2 ** depth // 2)
                                extra += chunk(b"tRNS", alphas.astype(np.uint8).tobytes())
                                rest = np.full(2**depth - len(alphas), 255)
                                palette = np.concatenate([palette, np.concatenate([alphas, rest])[:, None]], axis=1)
                            expected = palette[pixels[:, :, 0]]
                        else:
                            opaque = 65535 if depth == 16 else 255
                            if depth < 8:
                                expected = pixels * (255 // (2**depth - 1))
                            if transparent:
                                color = pixels[2, 3]
                                extra = chunk(b"tRNS", color.astype(">u2").tobytes())
                                scale = 255 // (2**depth - 1) if depth < 8 else 1
                                expected = alpha_where(expected, color * scale, opaque)
                        name = f"{NAMES[color_type]}{depth}{'i' * interlaced}{'t' * transparent} {height}x{width}"
                        data = png(pixels, depth, color_type, interlaced, extra)
                        check(name, data, expected, depth)
                        yield name, data, expected.astype(np.uint16 if depth == 16 else np.uint8), 0


def check(name, data, expected, depth):
    """Compares with Pillow, for what it keeps."""
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[expected.shape[2]]
    image = Image.open(io.BytesIO(data))
    # It drops bits of 16, and compares transparent greys of few bits only after scaling them.
    if depth == 16 or (depth in (2, 4) and mode == "LA"):
        return
    found = np.asarray(image.convert("RGBA").convert(mode)).reshape(expected.shape)
    assert (found == expected).all(), name


def jpegs():
    y, x = np.mgrid[0:19, 0:21]
    smooth = np.stack([10 * x + 20, 12 * y + 10, 5 * (x + y) + 30], axis=2).astype(np.uint8)
    noise = random.integers(0, 256, (19, 21, 3)).astype(np.uint8)
    forms = {
        "baseline": (smooth, {"subsampling": 0}, 3),
        "noise": (noise, {"subsampling": 0}, 4),
        "progressive": (smooth, {"subsampling": 0, "progressive": True}, 3),
        "optimized": (smooth, {"subsampling": 0, "optimize": True}, 3),
        "restarts": (noise, {"subsampling": 0, "restart_marker_blocks": 2}, 4),
        "420 progressive": (smooth, {"subsampling": 2, "progressive": True}, 24),
        "422": (smooth, {"subsampling": 1}, 24),
        "grey": (smooth[:, :, 0], {}, 2),
        "grey progressive": (noise[:, :, 1], {"progressive": True}, 2),
    }
    for name, (pixels, options, error) in forms.items():
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "JPEG", quality=90, **options)
        found = np.asarray(Image.open(io.BytesIO(out.getvalue())))
        yield f"jpeg {name}", out.getvalue(), found.reshape(*found.shape[:2], -1), error


def without(data, marker):
    """Drops the segment of a marker."""
    at = data.index(bytes([0xFF, marker]))
    return data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0] :]


def before(data, marker, junk):
    at = data.index(bytes([0xFF, marker]))
    return data[:at] + junk + data[at:]


def with_ids(data, ids):
    """Names the components in the header and in the scan."""
    data = bytearray(data)
    frame = next(i for i in range(len(data)) if data[i] == 0xFF and data[i + 1] in (0xC0, 0xC2))
    scan = data.index(b"\xff\xda")
    for i, one in enumerate(ids):
        data[frame + 10 + 3 * i] = one
        data[scan + 5 + 2 * i] = one
    return bytes(data)


def adobe(data, transform):
    return before(data, 0xDB, b"\xff\xee\0\x0eAdobe\0d\0\0\0\0" + bytes([transform]))


def unusual_jpegs():
    """What components stand for, and what is between segments, as libjpeg takes it."""
    y, x = np.mgrid[0:19, 0:21]
    smooth = np.stack([10 * x + 20, 12 * y + 10, 5 * (x + y) + 30], axis=2).astype(np.uint8)

    def saved(pixels, **options):
        out = io.BytesIO()
        image = Image.fromarray(pixels)
        if "mode" in options:
            image = image.convert(options.pop("mode"))
        image.save(out, "JPEG", quality=95, subsampling=0, **options)
        return out.getvalue()

    ycc = saved(smooth)
    plain = without(ycc, 0xE0)
    rgb = saved(smooth, keep_rgb=True)
    cmyk = saved(smooth, mode="CMYK")
    grey = saved(smooth[:, :, 0])
    large = bytearray(grey)
    large[grey.index(b"\xff\xc0") + 11] = 0x22
    forms = {
        "rgb, Adobe and names": rgb,
        "rgb, Adobe": with_ids(rgb, [1, 2, 3]),
        "rgb, names": without(rgb, 0xEE),
        "rgb, progressive": saved(smooth, keep_rgb=True, progressive=True),
        "names of rgb, but JFIF": with_ids(ycc, b"RGB"),
        "names of rgb, but Adobe 1": adobe(with_ids(plain, b"RGB"), 1),
        "JFIF, but Adobe 0": adobe(ycc, 0),
        "Adobe 0 twice": adobe(adobe(plain, 1), 0),
        "no JFIF": plain,
        "other names": with_ids(plain, [0, 7, 255]),
        "cmyk": cmyk,
        "cmyk, no Adobe": without(cmyk, 0xEE),
        "ycck": cmyk.replace(b"Adobe\0d\0\0\0\0\0", b"Adobe\0d\0\0\0\0\2"),
        "ycck by Adobe 1": cmyk.replace(b"Adobe\0d\0\0\0\0\0", b"Adobe\0d\0\0\0\0\1"),
        "cmyk, progressive": saved(smooth, mode="CMYK", progressive=True),
        "bytes before tables": before(ycc, 0xDB, b"\1\2\3"),
        "bytes before the header": before(ycc, 0xC0, b"\0\0\0\0\0"),
        "bytes before the scan": before(ycc, 0xDA, b"\1\xff\0\2"),
        "fill before the scan": before(ycc, 0xDA, b"\xff\xff\xff"),
        "a restart before tables": before(ycc, 0xDB, b"\xff\xd3"),
        "bytes before the end": ycc[:-2] + b"\1\2\3" + ycc[-2:],
        "fill before the end": ycc[:-2] + b"\xff\xff" + ycc[-2:],
        "bytes after the end": ycc + b"\xff\xd8\0",
        "a number of lines": before(ycc, 0xDB, b"\xff\xdc\0\4\0\1"),
        "a thumbnail": before(ycc, 0xDB, b"\xff\xe1" + struct.pack(">H", len(grey) + 2) + grey),
        "grey with large steps": bytes(large),
        "grey, restarts": saved(smooth[:, :, 0], restart_marker_blocks=2),
        "grey, restarts, progressive": saved(smooth[:, :, 0], restart_marker_blocks=4, progressive=True),
        "progressive restarts": saved(smooth, restart_marker_blocks=4, progressive=True),
    }
    for name, data in forms.items():
        found = np.asarray(Image.open(io.BytesIO(data)).convert("L" if "grey" in name else "RGB"))
        yield f"jpeg {name}", data, found.reshape(*found.shape[:2], -1), 4


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    cases = [
        {
            "name": name,
            "file": base64.b64encode(data).decode(),
            "dtype": pixels.dtype.name,
            "shape": list(pixels.shape),
            "pixels": base64.b64encode(pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()).decode(),
            "error": error,
        }
        for name, data, pixels, error in [*pngs(), *jpegs(), *unusual_jpegs()]
    ]
    colors = random.integers(0, 256, (5, 6, 3)).astype(np.uint8)
    grey = np.asarray(Image.fromarray(colors).convert("L"))
    luma = {"colors": colors.tolist(), "grey": grey.tolist()}
    text = ",\n".join(json.dumps(case) for case in cases)
    (OUT / "images.json").write_text(f'{{"luma": {json.dumps(luma)},\n"cases": [\n{text}\n]}}\n')


main()

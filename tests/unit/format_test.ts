/**
 * The format of tensors: golden texts for every dtype, layout, range and length.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { arange, linspace, random } from "../../mod.ts";
import type { Operand } from "../../src/memory/operand.ts";
import { DTYPE, type DType, DTYPES, type PlainDType, type Scalar } from "../../src/base/dtype.ts";
import { writeElement } from "../../src/memory/element.ts";
import { ArgumentError } from "../../src/base/errors.ts";
import {
  formatHtml,
  type FormatOptions,
  formatTensor,
  inspectTensor,
} from "../../src/tensor/format.ts";
import { Layout } from "../../src/base/layout.ts";
import { allocate } from "../../src/memory/pool.ts";
import { DISPOSED, Storage } from "../../src/memory/storage.ts";

function make(
  dtype: DType,
  shape: number[],
  data: readonly Scalar[] | ((i: number) => Scalar),
): Operand {
  const layout = Layout.contiguous(shape);
  const storage = allocate(dtype, layout.size, false);
  for (let i = 0; i < layout.size; i++) {
    writeElement(storage, i, typeof data === "function" ? data(i) : data[i]);
  }
  return { storage, layout, flags: 0 };
}

function view(x: Operand, f: (layout: Layout) => Layout): Operand {
  return { ...x, layout: f(x.layout) };
}

/** Compares with lines that are listed one below the other in the test. */
function shows(x: Operand, lines: string | string[], options?: FormatOptions): void {
  assertEquals(formatTensor(x, options).split("\n"), [lines].flat());
}

describe("display of each dtype", () => {
  const golden: Record<PlainDType, [Scalar[], string]> = {
    bool: [[true, false], "[true, false]"],
    int8: [[-128, 127], "[-128, 127]"],
    int16: [[-32768, 7], "[-32768, 7]"],
    int32: [[-2147483648, 7], "[-2147483648, 7]"],
    int64: [
      [-9223372036854775808n, 9223372036854775807n],
      "[-9223372036854775808, 9223372036854775807]",
    ],
    uint8: [[0, 255], "[0, 255]"],
    uint16: [[0, 65535], "[0, 65535]"],
    uint32: [[0, 4294967295], "[0, 4294967295]"],
    uint64: [[0n, 18446744073709551615n], "[0, 18446744073709551615]"],
    float16: [[0.1, 1 / 3, 2.5], "[0.1, 0.3333, 2.5]"],
    bfloat16: [[0.1, 1 / 3, 2.5], "[0.1, 0.334, 2.5]"],
    float32: [[0.1, 1 / 3, 2.5], "[0.1, 0.33333, 2.5]"],
    float64: [[0.1, 1 / 3, 2.5], "[0.1, 0.33333, 2.5]"],
  };
  for (const dtype of DTYPES) {
    it(`shows ${dtype} with the digits that it has`, () => {
      const [data, text] = golden[dtype as PlainDType];
      shows(make(dtype, [data.length], data), `tensor(${text}, shape [${data.length}], ${dtype})`);
    });
  }
});

describe("display of each layout", () => {
  const x = make("int32", [2, 3], [1, 2, 3, 4, 5, 60]);

  it("shows rows below each other", () => {
    shows(x, [
      "tensor([[ 1,  2,  3],",
      "        [ 4,  5, 60]], shape [2, 3], int32)",
    ]);
  });

  it("shows a transposed tensor transposed", () => {
    shows(view(x, (l) => l.transpose()), [
      "tensor([[ 1,  4],",
      "        [ 2,  5],",
      "        [ 3, 60]], shape [3, 2], int32)",
    ]);
  });

  it("shows sliced, flipped and broadcast tensors as what they are", () => {
    shows(view(x, (l) => l.selectAxis(0, 1)), "tensor([4, 5, 60], shape [3], int32)");
    shows(
      view(x, (l) => l.selectAxis(1, 1).flip()),
      "tensor([5, 2], shape [2], int32)",
    );
    shows(view(x, (l) => l.sliceAxis(1, 0, 2, 2)), [
      "tensor([[ 1,  3],",
      "        [ 4, 60]], shape [2, 2], int32)",
    ]);
    shows(view(x, (l) => l.selectAxis(0, 0).broadcastTo([2, 3])), [
      "tensor([[1, 2, 3],",
      "        [1, 2, 3]], shape [2, 3], int32)",
    ]);
  });

  it("shows one element, one row and no element", () => {
    shows(make("float32", [], [2.5]), "tensor(2.5, shape [], float32)");
    shows(make("int8", [1, 1, 2], [-1, 10]), "tensor([[[-1, 10]]], shape [1, 1, 2], int8)");
    shows(make("float32", [0], []), "tensor([], shape [0], float32)");
    shows(make("bool", [2, 0], []), "tensor([], shape [2, 0], bool)");
    shows(make("bool", [1e15, 0], []), "tensor([], shape [1000000000000000, 0], bool)");
  });

  it("puts a blank line between matrices, two between stacks of them", () => {
    shows(make("int8", [2, 2, 2, 1], (i) => i), [
      "tensor([[[[0],",
      "          [1]],",
      "",
      "         [[2],",
      "          [3]]],",
      "",
      "",
      "        [[[4],",
      "          [5]],",
      "",
      "         [[6],",
      "          [7]]]], shape [2, 2, 2, 1], int8)",
    ]);
  });

  it("says of a tensor that is gone that it is", () => {
    const gone: Operand = { ...x, storage: DISPOSED };
    shows(gone, "tensor(disposed)");
    assertEquals(inspectTensor(gone), "tensor(disposed)");
    assertEquals(formatHtml(gone), "<div>tensor(disposed)</div>");
  });
});

describe("display of floats", () => {
  it("aligns points, signs, NaN and infinities", () => {
    shows(make("float32", [2, 2], [1, 2.25, -0.125, 30]), [
      "tensor([[ 1,      2.25],",
      "        [-0.125, 30]], shape [2, 2], float32)",
    ]);
    shows(make("float32", [3, 2], [NaN, 1.5, -Infinity, 2, Infinity, 100.25]), [
      "tensor([[      NaN,      1.5],",
      "        [-Infinity,      2],",
      "        [ Infinity,    100.25]], shape [3, 2], float32)",
    ]);
  });

  it("gives the largest element six digits, and the others as many after the point", () => {
    const third = (scale: number) => make("float64", [2], [scale / 3, scale / 30]);
    shows(third(1e-3), "tensor([0.000333333, 0.000033333], shape [2], float64)", {
      scientific: false,
    });
    shows(third(1), "tensor([0.333333, 0.033333], shape [2], float64)");
    shows(third(10), "tensor([3.33333, 0.33333], shape [2], float64)");
    shows(third(1e5), "tensor([33333.3, 3333.3], shape [2], float64)");
    shows(third(1e6), "tensor([3.33333e+05, 3.33333e+04], shape [2], float64)");
    shows(third(1e6), "tensor([333333.3, 33333.3], shape [2], float64)", { scientific: false });
    // Whole numbers hide no fraction.
    shows(make("float64", [2], [333333, 9999999]), "tensor([333333, 9999999], shape [2], float64)");
    shows(third(1), "tensor([0.33333333, 0.03333333], shape [2], float64)", { precision: 8 });
    shows(make("float64", [2], [NaN, 0]), "tensor([NaN, 0], shape [2], float64)");
    shows(make("float64", [1], [1234567.5]), "tensor([1.23457e+06], shape [1], float64)");
    // float32 has seven digits: the last of them is noise.
    shows(make("float32", [2], [0.1 + 0.2, 16.1]), "tensor([0.3, 16.1], shape [2], float32)");
  });

  it("gives no number more than six digits, at any scale", () => {
    for (const scale of [1e-12, 1e-3, 0.1, 1, 10, 1e3, 1e5, 1e7, 1e12]) {
      for (const dtype of ["float32", "float64"] as const) {
        const x = random.uniform(random.key(35), [20], { low: 0.5, dtype }).mul(scale);
        const text = formatTensor(x);
        const numbers = text.slice(0, text.indexOf("shape")).match(/\d[\d.]*(e[-+]\d+)?/g)!;
        assertEquals(numbers.length, 20);
        for (const number of numbers) {
          const digits = number.replace(/e.*/, "").replace(".", "").replace(/^0+/, "");
          assert(digits.length <= 6, `${number} of ${dtype} by ${scale}`);
        }
      }
    }
  });

  it("shows negative zero", () => {
    shows(make("float32", [3], [0, -0, 1]), "tensor([0, -0, 1], shape [3], float32)");
    shows(make("float64", [2], [-0, 1e9]), "tensor([-0e+00, 1e+09], shape [2], float64)");
    shows(make("float64", [2], [-1e-9, 1]), "tensor([-0, 1], shape [2], float64)", {
      scientific: false,
    });
  });

  it("uses one format for all: exponents for a wide range, unless all are whole", () => {
    shows(make("float64", [2, 2], [1e-5, 1.25, -3, NaN]), [
      "tensor([[ 1.00e-05,  1.25e+00],",
      "        [-3.00e+00,       NaN]], shape [2, 2], float64)",
    ]);
    shows(make("float64", [2], [1e-100, 5]), "tensor([1e-100, 5e+000], shape [2], float64)");
    shows(make("float64", [2], [0.5, 500]), "tensor([0.5, 500], shape [2], float64)");
    shows(make("float64", [2], [0.5, 501]), "tensor([5.00e-01, 5.01e+02], shape [2], float64)");
    shows(make("float64", [2], [1, 99999999]), "tensor([1, 99999999], shape [2], float64)");
    shows(make("float64", [2], [0, 1e8]), "tensor([0e+00, 1e+08], shape [2], float64)");
    shows(make("float64", [1], [0.0001]), "tensor([0.0001], shape [1], float64)");
    shows(make("float64", [1], [0.00009]), "tensor([9e-05], shape [1], float64)");
  });

  it("chooses the format in the dtype, where 0.0001 is 0.0001", () => {
    for (const dtype of ["float16", "bfloat16", "float32"] as const) {
      shows(make(dtype, [1], [0.0001]), `tensor([0.0001], shape [1], ${dtype})`);
    }
    shows(make("float32", [2], [0.7, 700]), "tensor([0.7, 700], shape [2], float32)");
  });

  it("shows the limits of each dtype", () => {
    shows(make("float64", [], [5e-324]), "tensor(5e-324, shape [], float64)");
    shows(make("float32", [], [2 ** -149]), "tensor(1e-45, shape [], float32)");
    shows(make("float16", [], [2 ** -24]), "tensor(6e-08, shape [], float16)");
    shows(make("float16", [], [65504]), "tensor(65504, shape [], float16)");
    shows(
      make("bfloat16", [], [Number(DTYPE.bfloat16.max)]),
      "tensor(3.39e+38, shape [], bfloat16)",
    );
    shows(
      make("float32", [], [Number(DTYPE.float32.max)]),
      "tensor(3.4028235e+38, shape [], float32)",
      { precision: 8 },
    );
    shows(
      make("float64", [], [Number.MAX_VALUE]),
      "tensor(1.7976931348623157e+308, shape [], float64)",
      { precision: 17 },
    );
  });

  it("gives every float16 digits that only it has", () => {
    const all = make("float16", [65536], () => 0);
    for (let bits = 0; bits < 65536; bits++) all.storage.array[bits] = bits;
    const text = formatTensor(all, { threshold: Infinity, lineWidth: Infinity, scientific: true });
    const back = make(
      "float16",
      [65536],
      JSON.parse(
        text.slice("tensor(".length, text.indexOf("]") + 1).replace(/-?Infinity|NaN/g, "0"),
      ),
    );
    for (let bits = 0; bits < 65536; bits++) {
      if ((bits & 0x7c00) !== 0x7c00) assertEquals(back.storage.array[bits], bits);
    }
  });

  it("follows precision and scientific", () => {
    const x = make("float64", [3], [Math.PI, 2.5, 1000.96]);
    shows(x, "tensor([3.14, 2.5, 1000.96], shape [3], float64)", { precision: 2 });
    shows(x, "tensor([3, 3, 1001], shape [3], float64)", { precision: 0 });
    shows(x, "tensor([3.142e+00, 2.500e+00, 1.001e+03], shape [3], float64)", {
      precision: 3,
      scientific: true,
    });
    shows(make("float64", [2], [1.5e30, 0.5]), [
      "tensor([1499999999999999889089448902656, 0.5], shape [2], float64)",
    ], { scientific: false });
    shows(make("float64", [2], [1e-5, 1.99996]), "tensor([1e-05, 2e+00], shape [2], float64)", {
      precision: 3,
    });
  });
});

describe("display of long tensors", () => {
  it("breaks lines at the line width and keeps columns", () => {
    shows(make("float32", [2, 7], (i) => i - 0.5), [
      "tensor([[-0.5,  0.5,  1.5,",
      "          2.5,  3.5,  4.5,",
      "          5.5],",
      "        [ 6.5,  7.5,  8.5,",
      "          9.5, 10.5, 11.5,",
      "         12.5]],",
      "       shape [2, 7], float32)",
    ], { lineWidth: 30 });
    for (const lineWidth of [40, 41, 42, 43, 44, 45, 80]) {
      const lines = formatTensor(make("int32", [3, 50], (i) => i), { lineWidth }).split("\n");
      assert(lines.every((line) => line.length <= lineWidth && line === line.trimEnd()));
      assert(Math.max(...lines.map((line) => line.length)) > lineWidth - 6);
    }
    shows(make("int32", [2], [1, 2]), ["tensor([1,", "        2],", "       shape [2], int32)"], {
      lineWidth: 1,
    });
  });

  it("elides tensors of more than 1000 elements", () => {
    assert(!formatTensor(make("int32", [10, 100], (i) => i)).includes("..."));
    shows(make("int32", [1001], (i) => i), [
      "tensor([0, 1, 2, ..., 998, 999, 1000], shape [1001], int32)",
    ]);
    shows(view(make("int32", [100, 100], (i) => i), (l) => l.transpose()), [
      "tensor([[   0,  100,  200, ..., 9700, 9800, 9900],",
      "        [   1,  101,  201, ..., 9701, 9801, 9901],",
      "        [   2,  102,  202, ..., 9702, 9802, 9902],",
      "        ...,",
      "        [  97,  197,  297, ..., 9797, 9897, 9997],",
      "        [  98,  198,  298, ..., 9798, 9898, 9998],",
      "        [  99,  199,  299, ..., 9799, 9899, 9999]], shape [100, 100], int32)",
    ]);
  });

  it("fills lines to their width, with the shape on the last one where it fits", () => {
    for (let lineWidth = 30; lineWidth < 90; lineWidth++) {
      for (const length of [3, 20, 40]) {
        const text = formatTensor(make("int8", [length], () => 1), { lineWidth });
        const lines = text.split("\n");
        for (const line of lines) assert(line.length <= lineWidth, `${lineWidth}: ${line}`);
        const about = `shape [${length}], int8)`;
        assertEquals(lines.at(-1)!.endsWith(about), true);
        const alone = lines.at(-1)!.trim() === about;
        const before = lines.at(alone ? -2 : -1)!.length - (alone ? 0 : about.length + 1);
        assertEquals(alone, before + about.length + 1 > lineWidth, `${lineWidth}: ${text}`);
        if (lines.length < 3) continue;
        const most = Math.floor((lineWidth - "tensor([".length - 2 - 1) / 3) + 1;
        assertEquals(lines[0]!.match(/1/g)!.length, most, `${lineWidth}: ${text}`);
      }
    }
  });

  it("breaks lines before what does not fit, an ellipsis too", () => {
    const options = { threshold: 0, edgeItems: 5 };
    const items = [..."11111", "...", ..."11111"];
    for (let lineWidth = 20; lineWidth < 60; lineWidth++) {
      const lines = [""];
      for (const item of items) {
        const line = lines.at(-1)!;
        if (line !== "" && line.length + item.length > lineWidth - 10) lines.push(`${item}, `);
        else lines[lines.length - 1] = `${line}${item}, `;
      }
      const text = formatTensor(make("int8", [100], () => 1), { ...options, lineWidth });
      const shown = /\[([^\]]*)\]/.exec(text)![1]!.split("\n").map((line) => line.trim());
      if (shown.length === 1) continue;
      assertEquals(shown.join("\n"), lines.map((line) => line.trim()).join("\n").slice(0, -1));
    }
  });

  it("keeps columns after an ellipsis when rows take several lines", () => {
    shows(make("int32", [2, 2000], (i) => i * 1000), [
      "tensor([[      0,    1000,    2000,",
      "             ..., 1997000, 1998000,",
      "         1999000],",
      "        [2000000, 2001000, 2002000,",
      "             ..., 3997000, 3998000,",
      "         3999000]],",
      "       shape [2, 2000], int32)",
    ], { lineWidth: 40 });
  });

  it("puts commas at the same places of all lines, whatever the line width", () => {
    for (const lineWidth of [40, 55, 60, 80]) {
      for (const x of [arange(1000), arange(4e6).reshape([2, 2_000_000]), arange(3e6).neg()]) {
        const text = formatTensor(x, { lineWidth, edgeItems: 5 });
        const lines = text.replace(/\]+,\s+shape[\s\S]*/, "").split("\n").filter((line) =>
          line.includes(",")
        );
        assert(lines.length > 1, text);
        const commas = lines.map((line) =>
          [...line.replace(/\],$/, "]").matchAll(/,/g)].map(({ index }) => index)
        );
        const [longest = []] = [...commas].sort((one, other) => other.length - one.length);
        for (const [i, line] of commas.entries()) {
          assert(line.every((at) => longest.includes(at)), `${lines[i]} in ${text}`);
        }
      }
    }
    shows(linspace(0, 1, 10), [
      "tensor([0,       0.11111, 0.22222,",
      "        0.33333, 0.44444, 0.55556,",
      "        0.66667, 0.77778, 0.88889,",
      "        1], shape [10], float32)",
    ], { lineWidth: 36 });
  });

  it("follows threshold and edgeItems, and elides no axis that is short", () => {
    shows(make("int8", [3, 2, 4], (i) => i), [
      "tensor([[[ 0, ...,  3],",
      "         [ 4, ...,  7]],",
      "",
      "        ...,",
      "",
      "        [[16, ..., 19],",
      "         [20, ..., 23]]], shape [3, 2, 4], int8)",
    ], { threshold: 23, edgeItems: 1 });
    assert(!formatTensor(make("int8", [24], (i) => i), { threshold: 24 }).includes("..."));
    const two = formatTensor(make("int8", [2, 1000], () => 1), { edgeItems: 500, threshold: 0 });
    assertEquals(two.match(/\b1\b/g)!.length, 2000);
    const line = formatTensor(make("int8", [5000], () => 1), { edgeItems: 1100 });
    assertEquals(line.match(/\b1\b/g)!.length, 2200);
    shows(make("int8", [2, 2], [1, 2, 3, 4]), "tensor([[...]], shape [2, 2], int8)", {
      threshold: 0,
      edgeItems: 0,
    });
  });

  it("chooses the format by what is shown", () => {
    const x = make("float32", [2000], (i) => i === 1000 ? 1e-20 : 0.5);
    shows(x, "tensor([0.5, 0.5, 0.5, ..., 0.5, 0.5, 0.5], shape [2000], float32)");
  });

  it("reads only what it shows", () => {
    let reads = 0;
    const array = new Proxy(new Float32Array(1), {
      get(target, key) {
        if (typeof key === "string" && /^\d+$/.test(key)) reads++;
        return key === "length" ? 1e8 : Reflect.get(target, key === "0" ? key : "0", target);
      },
    });
    const storage = new Storage(array, DTYPE.float32, true, false);
    const show = (layout: Layout) => {
      reads = 0;
      return formatTensor({ storage, layout, flags: 0 });
    };
    show(Layout.contiguous([10000, 10000]));
    assertEquals(reads, 36);
    show(Layout.contiguous([1e8]).flip());
    assertEquals(reads, 6);
    // Axes that are too short to be elided, but many: only the first of the outer ones is shown.
    const text = show(Layout.contiguous(new Array(26).fill(2)));
    assertEquals(reads, 1024);
    assert(text.includes("\n" + " ".repeat(8) + "..."));
  });

  it("copes with a great many elements when told to", () => {
    const text = formatTensor(make("float32", [200_000], () => 0.5), { threshold: Infinity });
    assertEquals(text.match(/0\.5/g)?.length, 200_000);
  });
});

describe("display options that are not counts", () => {
  const x = make("float32", [2], [1, 2]);
  for (const name of ["precision", "threshold", "edgeItems", "lineWidth"] as const) {
    it(`refuses a bad ${name}`, () => {
      for (const value of [-1, 1.5, NaN]) {
        assertThrows(
          () => formatTensor(x, { [name]: value }),
          ArgumentError,
          `toString() needs an integer of at least 0 as ${name}, got ${value}`,
        );
      }
    });
  }
});

describe("display inside other objects", () => {
  it("takes one line, with the elements where they fit", () => {
    assertEquals(
      inspectTensor(make("float32", [2], [1, 2.5])),
      "tensor([1, 2.5], shape [2], float32)",
    );
    assertEquals(
      inspectTensor(make("float32", [2, 2], [1, 2, 3, 4])),
      "tensor(shape [2, 2], float32)",
    );
  });
});

describe("display as HTML", () => {
  /** Without attributes, which are looks. */
  const html = (x: Operand) => formatHtml(x).replace(/ (style|scope|tabindex)="[^"]*"/g, "");

  it("is a table with indices, through any layout, captioned by shape, dtype and device", () => {
    const x = make("float32", [2, 2], [1, 2.5, NaN, 4]);
    assertEquals(
      html(view(x, (l) => l.transpose())),
      "<div><table><caption>shape [2, 2], float32, cpu</caption>" +
        "<thead><tr><td></td><th>0</th><th>1</th></tr></thead>" +
        "<tbody><tr><th>0</th><td>1  </td><td>NaN</td></tr>" +
        "<tr><th>1</th><td>2.5</td><td>4  </td></tr></tbody></table></div>",
    );
    assertEquals(
      html(make("bool", [2], [true, false])),
      "<div><table><caption>shape [2], bool, cpu</caption>" +
        "<thead><tr><th>0</th><th>1</th></tr></thead>" +
        "<tbody><tr><td> true</td><td>false</td></tr></tbody></table></div>",
    );
    assertEquals(
      html(make("int64", [], [7n])),
      "<div><table><caption>shape [], int64, cpu</caption>" +
        "<tbody><tr><td>7</td></tr></tbody></table></div>",
    );
    assertEquals(html(make("int8", [0, 3], [])), "<div>shape [0, 3], int8, cpu</div>");
  });

  it("has a table for every matrix, whose caption has its index", () => {
    const table = (index: number, cells: number[]) =>
      `<table><caption>[${index}, :, :]</caption>` +
      "<thead><tr><td></td><th>0</th><th>1</th></tr></thead>" +
      `<tbody><tr><th>0</th>${
        cells.map((cell) => `<td>${cell}</td>`).join("")
      }</tr></tbody></table>`;
    assertEquals(
      html(make("int8", [2, 1, 2], [1, 2, 3, 4])),
      `<div><div>shape [2, 1, 2], int8, cpu</div>${table(0, [1, 2])}${table(1, [3, 4])}</div>`,
    );
  });

  it("stands in a box that scrolls, also with the keyboard", () => {
    const text = formatHtml(make("int8", [2, 2], [1, 2, 3, 4]));
    assert(
      /^<div style="[^"]*max-height:[^"]*overflow:auto[^"]*" tabindex="0"><table>/.test(text),
      text,
    );
    const scopes = [...text.matchAll(/<th scope="(\w+)"/g)].map(([, scope]) => scope);
    assertEquals(scopes, ["col", "col", "row", "row"]);
  });

  it("is elided like text, and names the indices of what it shows", () => {
    const text = html(make("int32", [9, 20, 30], (i) => i));
    assertEquals(text.match(/<table>/g)?.length, 6);
    assertEquals(text.match(/<div>\.\.\.<\/div>/g)?.length, 1);
    assertEquals(text.match(/<td> *\d+<\/td>/g)?.length, 6 * 6 * 6);
    assertEquals(text.match(/<td>\.\.\.<\/td>/g)?.length, 6 * (6 + 7));
    assertEquals(text.match(/<th>\.\.\.<\/th>/g)?.length, 6 * 2);
    assert(text.includes("<th>2</th><th>...</th><th>27</th>") && text.includes("<th>19</th>"));
    assert(text.includes("<caption>[8, :, :]") && !text.includes("<caption>[4, :, :]"));
    assert(text.includes("<td>5399</td></tr></tbody></table></div>"));
  });

  it("is escaped", () => {
    const x = make("int8", [1], [1]);
    const name = `<b title="a'b">&` as DType;
    const storage = new Storage(x.storage.array, { ...DTYPE.int8, name }, true, false);
    assert(
      formatHtml({ ...x, storage }).includes(
        ">shape [1], &#60;b title=&#34;a&#39;b&#34;&#62;&#38;, cpu</caption>",
      ),
    );
  });
});

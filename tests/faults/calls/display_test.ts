/**
 * Faults of what tensors look like: entry 35.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { arange, linspace, random, tensor } from "../../../mod.ts";
import { fault } from "../support.ts";

/** The texts of all numbers in a text. */
function numbers(text: string): string[] {
  return text.slice(0, text.indexOf("shape")).match(/\d[\d.]*(e[-+]\d+)?/g) ?? [];
}

fault({
  entry: 35,
  kind: "digits that drown the reader",
  others: ["console.log of a tensor", "tables in notebooks"],
}, () => {
  const third = tensor([1 / 3, 2 / 3], { dtype: "float64" });
  assertEquals(String(third), "tensor([0.333333, 0.666667], shape [2], float64)");
  for (const scale of [1e-12, 1e-3, 0.1, 1, 10, 1e3, 1e5, 1e7, 1e12]) {
    for (const dtype of ["float32", "float64"] as const) {
      const x = random.uniform(random.key(35), [20], { low: 0.5, dtype }).mul(scale);
      for (const text of numbers(String(x))) {
        const digits = text.replace(/e.*/, "").replace(".", "").replace(/^0+/, "");
        assert(digits.length <= 6, `${text} of ${dtype} by ${scale}`);
      }
    }
  }
  // Asked for, there are more.
  assertEquals(
    third.toString({ precision: 8 }),
    "tensor([0.33333333, 0.66666667], shape [2], float64)",
  );
  // A fraction never looks like a whole number, and whole numbers keep all digits.
  assertMatch(String(tensor([1234567.5], { dtype: "float64" })), /1\.23457e\+06/);
  assertMatch(String(tensor([1234567], { dtype: "float64" })), /\[1234567\]/);
});

fault({
  entry: 35,
  kind: "columns that shift between the lines of a row",
  others: ["rows of matrices with an ellipsis"],
}, () => {
  // Where numbers end, and their commas stand, does not depend on the line.
  for (const lineWidth of [40, 55, 60, 80]) {
    for (const x of [arange(1000), arange(4e6).reshape([2, 2_000_000]), arange(3e6).neg()]) {
      const text = x.toString({ lineWidth, edgeItems: 5 });
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
  assertEquals(
    arange(4e6).reshape([2, 2_000_000]).toString({ lineWidth: 40 }).split("\n").slice(0, 3),
    [
      "tensor([[      0,       1,       2,",
      "             ..., 1999997, 1999998,",
      "         1999999],",
    ],
  );
  assertEquals(linspace(0, 1, 10).toString({ lineWidth: 36 }).split("\n"), [
    "tensor([0,       0.11111, 0.22222,",
    "        0.33333, 0.44444, 0.55556,",
    "        0.66667, 0.77778, 0.88889,",
    "        1], shape [10], float32)",
  ]);
});

fault({
  entry: 35,
  kind: "tables in notebooks without header, indices, box and caption",
  others: ["vectors", "tensors of higher rank"],
}, () => {
  const show = (x: object): string =>
    Reflect.get(x, Symbol.for("Jupyter.display")).call(x)["text/html"];
  for (const x of [arange(4), arange(6).reshape([2, 3]), arange(24).reshape([2, 3, 4])]) {
    const html = show(x);
    const { shape, dtype } = x;
    assertMatch(html, /^<div style="[^"]*max-height:[^"]*overflow:auto[^"]*"/);
    const captions = [...html.matchAll(/<caption[^>]*>([^<]*)</g)].map(([, text]) => text!);
    const [rows, columns] = [x.rank > 1 ? shape.at(-2)! : 0, shape.at(-1)!];
    assertEquals(captions.length, x.rank > 2 ? shape[0] : 1);
    const about = `shape [${shape.join(", ")}], ${dtype}, cpu`;
    if (x.rank <= 2) assertEquals(captions, [about]);
    else {
      assert(html.includes(`><div>${about}</div><table>`), html);
      assertEquals(captions, ["[0, :, :]", "[1, :, :]"]);
    }
    const indices = (scope: string) =>
      [...html.matchAll(new RegExp(`<th scope="${scope}"[^>]*>(\\d+)</th>`, "g"))].map(([, i]) =>
        Number(i)
      );
    const repeated = (n: number) => captions.flatMap(() => Array.from({ length: n }, (_, i) => i));
    assertEquals(indices("col"), repeated(columns));
    assertEquals(indices("row"), repeated(rows));
  }
});

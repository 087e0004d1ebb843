/**
 * The tables of docs/from-*.md: computes our side and compares it with the recorded results of the
 * other library (scripts/golden/peers.py, scripts/golden/tfjs.ts).
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as rowmajor from "../../mod.ts";
import { readText } from "../../scripts/tools.ts";
import * as nn from "../../src/nn/mod.ts";
import { evaluate, PEERS, readGolden, readOperands, readPeerRows } from "./peer_tables.ts";

const { io, Tensor, tensor } = rowmajor;

/** Results in the format of the golden data: tensors as nested arrays, at any depth. */
function plain(value: unknown): unknown {
  if (value instanceof Tensor) return value.isDisposed ? null : value.toArray();
  if (Array.isArray(value)) return value.map(plain);
  if (ArrayBuffer.isView(value)) return [...value as unknown as number[]];
  if (typeof value === "bigint") return Number(value);
  return ["number", "boolean", "string"].includes(typeof value) ? value : null;
}

/** Whether both have the same shape and, unless `loose`, the same values up to rounding. */
function agrees(actual: unknown, expected: unknown, loose: boolean): boolean {
  if (Array.isArray(actual) && Array.isArray(expected)) {
    return actual.length === expected.length &&
      actual.every((item, i) => agrees(item, expected[i], loose));
  }
  if (typeof actual === "number" && typeof expected === "number") {
    return loose || Math.abs(actual - expected) <= 2e-6 * Math.max(1, Math.abs(expected));
  }
  return actual === expected || (loose && typeof actual === typeof expected);
}

async function run(code: string, folder: string): Promise<unknown> {
  const file = join(folder, "x.npy");
  const operands = readOperands((data, dtype) => tensor(data as never, { dtype: dtype as never }));
  writeFileSync(file, io.encodeNpy(operands.x!));
  const bytes = io.encodeSafetensors({ x: operands.x! });
  try {
    return plain(await evaluate(code, { ...rowmajor, nn, ...operands, file, bytes }));
  } catch (error) {
    // Lines about graphics cards: the names exist, the card does not.
    if (error instanceof rowmajor.DeviceError && code.includes('"cuda')) return null;
    if (error instanceof rowmajor.DeviceError && code === "x.cuda()") return null;
    throw error;
  }
}

for (const peer of PEERS) {
  const page = `docs/from-${peer}.md`;
  const rows = readPeerRows(readText(page));
  const golden = readGolden(peer);

  test(`${page} has golden data for what stands on its left side, and no other`, () => {
    const codes = new Set(rows.flatMap(({ there }) => there));
    const script = peer === "tfjs" ? "golden/tfjs.ts" : "golden/peers.py";
    assertEquals([...codes].sort(), Object.keys(golden).sort(), `run scripts/${script}`);
    assert(codes.size > 90, `${codes.size} expressions`);
  });

  test(`${page}: both sides give the same`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-peers-"));
    const wrong: string[] = [];
    let compared = 0;
    try {
      for (const { line, there, here, loose } of rows) {
        assertEquals(here.length, there.length, `${page}:${line}: code without a counterpart`);
        for (const [i, code] of here.entries()) {
          const expected = golden[there[i]!];
          const actual = await run(code, folder).catch((error) => wrong.push(`${line}: ${error}`));
          // A result other than numbers, such as a device, only has to exist.
          if (expected === null || actual === null) continue;
          compared++;
          if (!agrees(actual, expected, loose)) {
            wrong.push(
              `${page}:${line}: ${code} gives ${JSON.stringify(actual)}, ${there[i]} ${
                JSON.stringify(expected)
              }`,
            );
          }
        }
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    assertEquals(wrong, []);
    assert(compared > 0.9 * Object.keys(golden).length, `${compared} compared`);
  });
}

test("the pages for users of other libraries say where results differ", () => {
  // The blocks after these tables show what the library does, and run as tests of the pages.
  const cases: Readonly<Record<string, readonly RegExp[]>> = {
    "docs/from-tfjs.md": [/sum.* of int32/, /argMax/, /sign of NaN/, /oneHot .*range/, /pads/],
    "docs/from-pytorch.md": [/index of another size/, /negative pads/, /squeeze/, /bool/],
    "docs/differences-from-numpy.md": [/`where` with a condition/, /`isclose`/],
  };
  for (const [page, lines] of Object.entries(cases)) {
    const rows = readText(page).split("\n").filter((line) => line.startsWith("|"));
    for (const line of lines) {
      const found = rows.map((row) => row.split("|").slice(1, 4).map((cell) => cell.trim()))
        .some(([name, there, here]) => line.test(name!) && there !== "" && here !== "");
      assert(found, `${page}: ${line}`);
    }
  }
});

test("what is not the same is found", () => {
  assert(agrees([[1, 2], [true]], [[1, 2.000001], [true]], false));
  for (const other of [[[1, 2]], [[1, 3], [true]], [[1, 2], [1]], [[1, 2], true], 1, null]) {
    assert(!agrees([[1, 2], [true]], other, false));
  }
  assert(agrees([1, 2], [3, 4], true) && !agrees([1, 2], [3, 4, 5], true));
  const table =
    "| A | B |\n| --- | --- |\n| `a \\| b`, `c` | `d` | other numbers: |\n| no code | `x` |";
  assertEquals(readPeerRows(table), [
    { line: 3, there: ["a | b", "c"], here: ["d"], loose: true },
  ]);
});

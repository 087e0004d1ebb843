/**
 * Several copies of the library in one process: tensors of one are operands of the others.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { profile } from "../../src/profile/mod.ts";
import { ENTRIES } from "../../scripts/tools.ts";
import { loose } from "../support.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

const root = fileURLToPath(new URL("../../", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "rowmajor-copies-"));
after(() => rmSync(folder, { recursive: true }));

/**
 * Copies the library to a folder of its own, with the same native library; returns the folder's URL.
 */
function copyTo(name: string, change = (text: string): string => text): string {
  const to = join(folder, name);
  cpSync(join(root, "src"), join(to, "src"), { recursive: true });
  cpSync(join(root, "mod.ts"), join(to, "mod.ts"));
  const built = join(root, "zig-out");
  if (existsSync(built)) symlinkSync(built, join(to, "zig-out"), "junction");
  const version = join(to, "src", "base", "version.ts");
  writeFileSync(version, change(readFileSync(version, "utf8")));
  return pathToFileURL(to).href;
}

async function importCopy(url: string): Promise<Any> {
  return {
    ...await import(`${url}/mod.ts`),
    ...await import(`${url}/src/compile/mod.ts`),
    ...await import(`${url}/src/profile/mod.ts`),
  };
}

const ours: Any = { ...rm, compile, profile };
const otherUrl = copyTo("other");
const other = await importCopy(otherUrl);
const newer: Any = await import(`${
  copyTo(
    "newer",
    (text) =>
      text.replace(/VERSION = "[^"]*"/, 'VERSION = "9.9.9"').replace(
        "PROTOCOL = 1;",
        "PROTOCOL = 2;",
      ),
  )
}/mod.ts`);
const backends = ["js", "native"].filter((name) =>
  name === "js" || rm.info().backends.native !== undefined &&
    !rm.attempt(() => rm.setBackend("native")).error
);

/** Calls on two tensors of shape [2, 3] and one of [3]; `lib` is the copy that computes. */
const CALLS: Record<string, (lib: Any, x: Any, y: Any, v: Any) => unknown> = {
  add: (_, x, y) => x.add(y),
  "add of a row": (_, x, __, v) => x.add(v),
  "add in place": (_, x, y) => x.copy().add_(y),
  equal: (_, x, y) => x.equal(y),
  clip: (_, x, y) => x.clip(y, 4),
  where: (lib, x, y) => lib.where(x.greater(2), x, y),
  isclose: (_, x, y) => x.isclose(y),
  allclose: (_, x, y) => x.allclose(y),
  equals: (_, x, y) => [x.equals(y), y.equals(x), x.equals(x)],
  matmul: (_, x, y) => x.matmul(y.T),
  dot: (_, x, __, v) => x.slice(0).copy().dot(v),
  outer: (_, x, __, v) => x.slice(0).copy().outer(v),
  linear: (_, x, y) => x.linear(y, y.slice(":", 0)),
  layerNorm: (_, x, __, v) => x.layerNorm(-1, { weight: v, bias: v }),
  concat: (lib, x, y) => lib.concat([x, y], 1),
  stack: (lib, x, y) => lib.stack([y, x]),
  meshgrid: (lib, _, __, v) => lib.meshgrid([v, v]),
  broadcastTensors: (lib, x, __, v) => lib.broadcastTensors(v, x),
  slice: (_, x, y) => x.slice(y.greater(3)),
  "slice by indices": (_, x, __, v) => x.slice(":", v.astype("int32").sub(1)),
  take: (_, x, __, v) => x.take(v.astype("int32").sub(1), 1),
  takeAlongAxis: (_, x, y) => x.takeAlongAxis(y.mul(0).astype("int32"), 0),
  putAlongAxis_: (_, x, y) => x.copy().putAlongAxis_(y.mul(0).astype("int32"), y, 1),
  set: (_, x, y, v) => x.copy().set([0], v).set([y.greater(3)], v.slice(0)),
  tensor: (lib, _, y) => lib.tensor(y, { dtype: "float64" }),
  zerosLike: (lib, _, y) => lib.zerosLike(y),
  like: (_, x, y) => x.like(y),
  sum: (_, x, y) => x.add(y).sum(),
  profile: (lib, x, y) => {
    const { result, calls } = lib.profile(() => x.add(y));
    return [result, calls[0].shapes];
  },
  image: (lib, _, y) => lib.image(y, { max: 6 }).width,
  "io.encodeNpy": (lib, _, y) => lib.io.encodeNpy(y),
  "io.encodeNpz": (lib, _, y) => lib.io.encodeNpz({ y }),
  "io.encodeSafetensors": (lib, _, y) => lib.io.encodeSafetensors({ y, z: y.T }),
};

function show(made: Any): string {
  if (Array.isArray(made)) return made.map(show).join("; ");
  return String(made);
}

test("tensors of another copy are operands, indices, weights and arguments", () => {
  const operands = (lib: Any): Any[] => [
    lib.tensor([[1, 2, 3], [4, 5, 6]]),
    lib.tensor([1, 2, 3]),
  ];
  for (const backend of backends) {
    for (const lib of [ours, other]) lib.setBackend(backend);
    for (const [lib, from] of [[ours, other], [other, ours]]) {
      const [x, v] = operands(lib);
      for (const how of ["dense", "strided", "copy on write", "read-only"]) {
        const make = (copy: Any): Any => {
          const [y] = operands(copy);
          if (how === "strided") return y.T.copy().T.add(1).T.copy().T;
          return how === "copy on write"
            ? y.add(1).intoCow()
            : how === "read-only"
            ? y.add(1).readonly()
            : y.add(1);
        };
        for (const [name, call] of Object.entries(CALLS)) {
          const wanted = show(call(lib, x, make(lib), v));
          const foreign = make(from);
          const made = call(lib, x, foreign, operands(from)[1]);
          assertEquals(show(made), wanted, `${name}, ${how}, ${backend}`);
          for (const one of [made].flat() as Any[]) {
            if (one?.layout) assert(one instanceof lib.Tensor, `${name} gives its own tensors`);
          }
          assertEquals(foreign.toArray(), [[2, 3, 4], [5, 6, 7]], `${name} changes no operand`);
        }
      }
      for (const dtype of ["bool", "float16", "bfloat16", "int64", "uint8", "float64"]) {
        const y = from.tensor([1, 0, 1], { dtype: "uint8" }).astype(dtype);
        const own = lib.tensor([1, 0, 1], { dtype: "uint8" }).astype(dtype);
        assertEquals(String(lib.tensor(y)), String(own));
        assert(own.equals(y));
      }
      for (const index of [from.Slice.from(1), from.range(2, 0), from.rangeInclusive(0, 1)]) {
        assertEquals([v.slice(index).size, v.sliceAxis(0, index).size], [2, 2]);
        assertEquals(x.slice([0], index).shape, [1, 2]);
        assertEquals(v.copy().set([index], 0).countNonzero().item(), 1);
      }
      const kept = lib.scope(() => ({ y: from.tensor([7]), x: lib.tensor([8]) }));
      assertEquals([kept.y.item(), kept.x.item()], [7, 8]);
      const sum = lib.compile((a: Any, { b }: Any) => a.add(b));
      const [p, q] = [from.tensor([1, 2]), from.tensor([5, 6])];
      assertEquals([sum(p, { b: q }), sum(q, { b: p })].map((z) => z.toArray()), [[6, 8], [6, 8]]);
      p.set([0], 7);
      assertEquals(sum(p, { b: q }).toArray(), [12, 8]);
      assertEquals(sum.explain().length, 1);
    }
  }
});

test("memory of another copy is not reused while a view shows it", () => {
  for (const [lib, from] of [[ours, other], [other, ours]]) {
    const y = from.tensor([1, 2, 3]).mul(1);
    const [view] = lib.broadcastTensors(y);
    const seen = view.toArray();
    y.dispose();
    // What takes memory of that size from a pool.
    for (let i = 0; i < 50; i++) {
      for (const copy of [from, lib]) copy.tensor([9, 9, 9]).mul(1).dispose();
    }
    assertEquals(view.toArray(), seen);
    const z = from.tensor([1, 2, 3]).mul(1);
    const [shown] = lib.broadcastTensors(z);
    const before = [ours, other].map((copy) => copy.memory().bytes);
    shown.dispose();
    assertEquals([ours, other].map((copy) => copy.memory().bytes), before);
    for (let i = 0; i < 50; i++) lib.tensor([9, 9, 9]).mul(1);
    assertEquals(z.toArray(), [1, 2, 3]);
    const snapshot = z.intoCow();
    lib.broadcastTensors(z)[0].set([0], 5);
    assertEquals([z.toArray(), snapshot.toArray()], [[5, 2, 3], [1, 2, 3]]);
  }
});

test("outputs of another copy, and tensors of another protocol, are refused", () => {
  const x = loose(rm.tensor([1, 2]));
  const output = other.zeros([2]);
  const uses = [
    () => x.add(1, { out: output }),
    () => x.sum(0, { out: output }),
    () => ours.sharesBuffer(x, output),
  ];
  for (const call of uses) {
    assertThrows(call, rm.DeviceError, "another copy of rowmajor");
  }
  assertEquals(output.toArray(), [0, 0]);
  const calls: Record<string, (y: Any) => unknown> = {
    add: (y) => x.add(y),
    "make a tensor": (y) => ours.tensor(y),
    concat: (y) => ours.concat([x, y]),
    set: (y) => x.set([0], y.slice(0)),
    take: (y) => x.take(y),
    slice: (y) => x.slice(y),
    encodeNpy: (y) => ours.io.encodeNpy(y),
  };
  for (const [name, call] of Object.entries(calls)) {
    const error = assertThrows(() => call(newer.tensor([1, 2])), rm.DeviceError, undefined, name);
    for (const words of [`Cannot ${name}`, "9.9.9", rm.VERSION, "protocol 2", "protocol 1"]) {
      assertStringIncludes(error.message, words);
    }
  }
  const back = assertThrows(() => newer.tensor([1]).add(x), newer.DeviceError) as Error;
  assertStringIncludes(back.message, `version ${rm.VERSION} from file:`);
  assertThrows(() => x.slice(newer.Slice.from(1)), rm.IndexError, "9.9.9");
  const gone = other.tensor([1, 2]);
  gone.dispose();
  assertThrows(() => x.add(gone), rm.DisposedError, "Cannot add: the tensor was disposed");
  assertEquals(x.toArray(), [1, 2]);
});

/** Runs a program in a process of its own; returns what it prints. */
function output(name: string, text: string): { stdout: string; stderr: string } {
  const script = join(folder, name);
  writeFileSync(script, text);
  const args = "Deno" in globalThis ? ["run", "-A", "--no-check", script] : [script];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  return { stdout, stderr };
}

test("an entry point of another copy works without the copy's mod.ts", () => {
  const here = pathToFileURL(join(root, "mod.ts")).href;
  const program = (entry: string, use: string): string =>
    `import { ones } from ${JSON.stringify(here)};
    import * as entry from ${JSON.stringify(`${otherUrl}/${ENTRIES[`./${entry}`]}`)};
    const x = ones([2, 2]);
    console.log(String((${use}).toArray()));`;
  const uses: [string, string, string][] = [
    ["compile", "entry.compile((y) => y.add(1))(x)", "2,2,2,2"],
    ["fft", "entry.rfft(x).real()", "2,0,2,0"],
    ["linalg", "entry.det(x.mul(2))", "0"],
    ["random", "entry.uniform(entry.key(1), [2]).less(1)", "true,true"],
    ["nn", "entry.gelu(x).mul(0)", "0,0,0,0"],
    ["io", "entry.decodeNpy(entry.encodeNpy(x))", "1,1,1,1"],
    ["profile", "entry.profile(() => x.add(x)).result", "2,2,2,2"],
  ];
  for (const [entry, use, expected] of uses) {
    const { stdout, stderr } = output(`${entry}.ts`, program(entry, use));
    assertEquals(stdout, `${expected}\n`, `${entry}: ${stderr}`);
    // The others use no tensor of the other copy.
    if (!["compile", "fft", "linalg", "nn", "io"].includes(entry)) assertEquals(stderr, "", entry);
    else {
      const version = rm.VERSION.replaceAll(".", "\\.");
      const [line, ...rest] = stderr.split("\n");
      assertMatch(
        line!,
        new RegExp(
          `^rowmajor is loaded twice: version ${version} from ${otherUrl}/.*, and .* from file:`,
        ),
      );
      assertEquals(rest, [""], entry);
    }
  }
});

test("a model that a program keeps over a hot reload still works", {
  skip: "Bun" in globalThis ? false : "only Bun reloads modules in a running process",
}, async () => {
  const script = join(folder, "hot.ts");
  const text = (n: number): string =>
    `import { ones, Tensor } from ${JSON.stringify(`${copyTo(`hot${n}`)}/mod.ts`)};
    const w = globalThis.model ??= ones([2, 2]);
    console.log(${n}, w instanceof Tensor, ones([1, 2]).matmul(w).toArray().join(), w.matmul(ones([2, 1])).toArray().join());
    if (${n} === 2) process.exit(0);`;
  writeFileSync(script, text(1));
  const child = spawn(process.execPath, ["--hot", script], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const limit = setTimeout(() => child.kill("SIGKILL"), 60_000);
  child.stderr.on("data", (bytes) => said += bytes);
  child.stdout.on("data", (bytes) => {
    said += bytes;
    if (said.includes("1 true 2,2 2,2\n") && !said.includes("reloads")) {
      said += "reloads\n";
      writeFileSync(script, text(2));
    }
  });
  await ended;
  clearTimeout(limit);
  assertStringIncludes(said, "2 false 2,2 2,2\n");
});

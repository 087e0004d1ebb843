/**
 * Random programs of views, copies on write, writes, moves, disposals and collections, against a
 * model of plain arrays.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { generator } from "../ops/table/operands.ts";
import { amount } from "../support/amount.ts";
import { collectGarbage } from "../support/garbage.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
const lib: Any = rm;

/** A tensor, and what the model knows of it: which elements of which memory it shows. */
interface Modelled {
  real: Any;
  readonly memory: number[];
  readonly at: readonly number[];
  readonly shape: readonly number[];
  /** Whether it may be written: neither read-only, nor with two indices for one element. */
  readonly writable: boolean;
}

const random = generator(4711);
const below = (n: number): number => Math.floor(random() * n);
const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

const values = (x: Modelled): number[] => x.at.map((place) => x.memory[place]!);
const elements = (x: Any): number[] => x.toArray().flat(9).map(Number);

function check(x: Modelled, what: string): void {
  assertEquals(elements(x.real), values(x), what);
}

/** A tensor of its own memory. */
function fresh(real: Any, content: readonly number[]): Modelled {
  const at = content.map((_, i) => i);
  return { real, memory: content.slice(), at, shape: [...real.shape], writable: true };
}

/** Small ones come from slabs, large ones from the pool, or from the native library. */
function create(): Modelled {
  const rows = below(9) === 0 ? 2000 : 1 + below(5);
  const shape = below(3) === 0 ? [rows] : [rows, 1 + below(4)];
  const start = below(50);
  const dtype = pick(["float32", "int32", "float64", "int64", "uint8"]);
  const content = Array.from({ length: product(shape) }, (_, i) => (start + i) % 100);
  const real = lib.arange(start, start + content.length).remainder(100).astype(dtype);
  return fresh(real.reshape(shape), content);
}

/** A view of `x`, of which the model keeps the elements in row-major order. */
function view(x: Modelled): Modelled {
  const [rows, columns = 1] = x.shape as [number, number?];
  const one = (real: Any, at: readonly number[], writable = x.writable): Modelled => ({
    ...{ real, memory: x.memory, at, shape: [...real.shape] },
    writable,
  });
  const row = (i: number): readonly number[] => x.at.slice(i * columns, (i + 1) * columns);
  const lines = (which: readonly number[]): number[] => which.flatMap(row);
  const all = Array.from({ length: rows }, (_, i) => i);
  switch (below(7)) {
    case 0: {
      const [from, step] = [below(rows), 1 + below(2)];
      const kept = all.filter((i) => i >= from && (i - from) % step === 0);
      return one(x.real.slice(`${from}::${step}`), lines(kept));
    }
    case 1:
      return one(x.real.flip(0), lines(all.toReversed()));
    case 2:
      if (x.shape.length < 2) return one(x.real.view(), x.at);
      return one(
        x.real.T,
        Array.from({ length: columns }, (_, j) => all.map((i) => row(i)[j]!)).flat(),
      );
    case 3: {
      const i = below(rows);
      return x.shape.length < 2 ? one(x.real.view(), x.at) : one(x.real.slice(i), row(i));
    }
    case 4:
      return one(x.real.readonly(), x.at, false);
    case 5: {
      if (rows > 100) return one(x.real.view(), x.at);
      const wide = x.real.expandDims(0).broadcastTo([2, ...x.shape]).slice(below(2));
      return one(wide, x.at, false);
    }
    default:
      return one(x.real.view(), x.at);
  }
}

/** Writes to `x`, from numbers or from another tensor, which may share its memory. */
function write(x: Modelled, live: readonly Modelled[]): void {
  const value = below(100);
  const put = (written: readonly number[]): void =>
    x.at.forEach((place, i) => x.memory[place] = written[i]!);
  const sources = live.filter((y) =>
    String(y.shape) === String(x.shape) && y.real.dtype === x.real.dtype
  );
  switch (below(4)) {
    case 0:
      x.real.fill_(value);
      return put(x.at.map(() => value));
    case 1: {
      const source = pick(sources);
      const written = values(source);
      x.real.set(["..."], source.real);
      return put(written);
    }
    case 2: {
      const source = pick(sources);
      const written = values(source).map((one) => one % 10);
      source.real.remainder(10, { out: x.real });
      return put(written);
    }
    default: {
      const i = below(x.shape[0]!);
      x.real.set([i], value);
      const columns = product(x.shape.slice(1));
      return put(values(x).map((one, k) => Math.floor(k / columns) === i ? value : one));
    }
  }
}

/** The memories that threads may share: tensors on them, and views of those, move without a copy. */
const shared = new WeakSet<number[]>();

/** Moves `x`, or copies it, to a new tensor; `x` is unusable afterwards. */
function move(x: Modelled): Modelled {
  if (below(2) === 0) {
    const moves = shared.has(x.memory) && x.real.isContiguous;
    const real = x.real.intoShared();
    const made = moves ? { ...x, real } : fresh(real, values(x));
    shared.add(made.memory);
    return made;
  }
  const { ownership } = x.real;
  if (shared.has(x.memory)) return fresh(x.real.toOwned(), values(x));
  const real = x.real.intoOwned();
  return ownership === "owned" ? { ...x, real } : fresh(real, values(x));
}

test("tensors show the model's values after any views, writes, moves and collections", async () => {
  const steps = amount(3000, 100_000);
  let live: Modelled[] = [create()];
  // The arrays that `data` gave, which show the memory however long a program holds them.
  const arrays: Modelled[] = [];
  const done: Record<string, number> = {};
  for (let step = 0; step < steps; step++) {
    const what = `step ${step}`;
    const x = pick(live);
    const draw = live.length < 3 ? 0 : below(20);
    const kind = draw < 3
      ? "create"
      : draw < 8
      ? "view"
      : draw < 10
      ? "cow"
      : draw < 15
      ? "write"
      : draw < 16
      ? "move"
      : draw < 17
      ? "expose"
      : draw < 19
      ? "dispose"
      : "drop";
    done[kind] = (done[kind] ?? 0) + 1;
    if (kind === "create") live.push(create());
    else if (kind === "view") live.push(view(x));
    else if (kind === "cow") live.push(fresh(x.real.intoCow(), values(x)));
    else if (kind === "write" && x.writable) {
      write(x, live);
      check(x, what);
    } else if (kind === "move" && x.writable) live[live.indexOf(x)] = move(x);
    else if (kind === "expose" && x.writable && x.real.isContiguous) {
      const { data } = x.real;
      data[0] = x.real.dtype === "int64" ? 5n : 5;
      x.memory[x.at[0]!] = 5;
      arrays.push({ ...x, real: { toArray: () => Array.from(data) } });
      if (arrays.length > 8) arrays.shift();
    } else if (kind === "dispose") {
      const { dtype } = x.real;
      x.real.dispose();
      live = live.filter((one) => one !== x);
      // What takes the memory, if it is given back too early.
      lib.full(x.shape, 77, { dtype }).dispose();
    } else if (kind === "drop") live = live.filter((one) => one !== x);
    if (live.length > 0) check(pick(live), what);
    if (arrays.length > 0) check(pick(arrays), `${what}, the array of data`);
    if (step % 250 === 249) {
      await collectGarbage();
      for (const one of [...live, ...arrays]) check(one, `${what}, after a collection`);
    }
    while (live.length > 24) live.splice(below(live.length), 1)[0]!.real.dispose();
    if (live.length === 0) live.push(create());
  }
  for (const kind of ["create", "view", "cow", "write", "move", "expose", "dispose", "drop"]) {
    assert(done[kind]! > steps / 100, `${kind}: ${done[kind]} of ${steps} steps`);
  }
});

/**
 * Measures the calls of a group by one library, and prints its figures: `fallback_program.mjs GROUP
 * SIDE ROWMAJOR NUMPY_TS`, with the specifiers of both libraries. Plain JavaScript, since Node 20 runs
 * it too.
 *
 * @module
 */
import process from "node:process";

const [, , group, side, rowmajor, numpyTs] = process.argv;
/** Milliseconds of a timing. */
const MS = 200;
const BATCH_MS = 5;

/** Numbers from -0.5 to 0.5, the same for all libraries. */
function numbers(count) {
  const data = new Float64Array(count);
  let state = 12345;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    data[i] = state / 2 ** 32 - 0.5;
  }
  return data;
}

/** Frees what a call returns, as programs that compute much do. */
function dispose(value) {
  if (typeof value !== "object" || value === null) return;
  if (typeof value.dispose === "function") value.dispose();
  else Object.values(value).forEach(dispose);
}

function time(call) {
  const run = () => dispose(call());
  run();
  const first = performance.now();
  run();
  const calls = Math.max(1, Math.floor(BATCH_MS / Math.max(performance.now() - first, 1e-3)));
  for (const end = performance.now() + MS; performance.now() < end;) run();
  const before = process.cpuUsage(), begin = performance.now();
  let count = 0, least = Infinity;
  do {
    const from = performance.now();
    for (let i = 0; i < calls; i++) run();
    least = Math.min(least, (performance.now() - from) / calls);
    count += calls;
  } while (performance.now() - begin < MS);
  const wall = (performance.now() - begin) * 1e6 / count;
  const { user, system } = process.cpuUsage(before);
  return { wall, cpu: (user + system) * 1e3 / count, least: least * 1e6 };
}

/** What both libraries do: `make` arrays, and calls by name on them. */
async function libraryOf() {
  if (side === "numpy-ts") {
    const np = await import(numpyTs);
    const make = (shape, dtype = "float64") => {
      const made = np.zeros(shape, dtype);
      made.data.set(numbers(shape.reduce((a, b) => a * b, 1)));
      return made;
    };
    return {
      make,
      calls: {
        add: np.add,
        exp: np.exp,
        matmul: np.matmul,
        sort: (x) => np.sort(x),
        argsort: (x) => np.argsort(x),
        sum: (x) => np.sum(x),
        sum0: (x) => np.sum(x, 0),
        transposed: (x) => np.add(np.transpose(x), 1),
        rfft: np.fft.rfft,
        ...np.linalg,
      },
    };
  }
  const rm = await import(rowmajor);
  const nn = await import(
    rowmajor.replace(/mod\.(\w+)$/, "src/nn/mod.$1").replace(/tensor$/, "tensor/nn")
  );
  rm.setBackend(side);
  rm.setThreads(1);
  const make = (shape, dtype = "float64") => {
    const data = numbers(shape.reduce((a, b) => a * b, 1));
    const given = dtype === "float32" ? new Float32Array(data) : data;
    return rm.fromBuffer(given).reshape(shape).add(0);
  };
  return {
    make,
    calls: {
      add: (x, y) => x.add(y),
      exp: (x) => x.exp(),
      matmul: (x, y) => x.matmul(y),
      sort: (x) => x.sort(),
      argsort: (x) => x.argsort(),
      sum: (x) => x.sum(),
      sum0: (x) => x.sum(0),
      transposed: (x) => x.T.add(1),
      rfft: rm.fft.rfft,
      solve: rm.linalg.solve,
      svd: (x) => rm.linalg.svd(x),
      inv: rm.linalg.inv,
      softmax: (x) => x.softmax(),
      conv2d: (x, w) => nn.conv2d(x, w, undefined, { padding: 1 }),
    },
  };
}

const { make, calls } = await libraryOf();
const f32 = "float32";

/** The rows of each group: a call's name, and its arrays. */
const GROUPS = {
  elementwise: {
    "add float32 1e6": ["add", [[1e6], f32], [[1e6], f32]],
    "add float64 1e6": ["add", [[1e6]], [[1e6]]],
    "add float64 1e4": ["add", [[1e4]], [[1e4]]],
    "add float64 100": ["add", [[100]], [[100]]],
    "exp float32 1e6": ["exp", [[1e6], f32]],
    "exp float64 1e6": ["exp", [[1e6]]],
    "transposed copy float64 1000 × 1000": ["transposed", [[1000, 1000]]],
  },
  sums: {
    "sum float64 1e6": ["sum", [[1e6]]],
    "sum of axis 0 float64 1000 × 1000": ["sum0", [[1000, 1000]]],
  },
  products: {
    "matmul float32 256": ["matmul", [[256, 256], f32], [[256, 256], f32]],
    "matmul float32 1024": ["matmul", [[1024, 1024], f32], [[1024, 1024], f32]],
    "matmul float64 256": ["matmul", [[256, 256]], [[256, 256]]],
    "matmul float64 1024": ["matmul", [[1024, 1024]], [[1024, 1024]]],
  },
  sorts: {
    "sort float64 1e5": ["sort", [[1e5]]],
    "argsort float64 1e5": ["argsort", [[1e5]]],
  },
  numerics: {
    "rfft float64 65536": ["rfft", [[65536]]],
    "solve float64 100": ["solve", [[100, 100]], [[100, 1]]],
    "svd float64 100": ["svd", [[100, 100]]],
    "inv float64 100": ["inv", [[100, 100]]],
  },
  nn: {
    "softmax float32 1000 × 1000": ["softmax", [[1000, 1000], f32]],
    "conv2d float32 32 channels 56 × 56": ["conv2d", [[1, 32, 56, 56], f32], [[32, 32, 3, 3], f32]],
  },
};

const figures = {};
for (const [name, [call, ...arrays]] of Object.entries(GROUPS[group])) {
  const given = arrays.map(([shape, dtype]) => make(shape, dtype));
  const run = calls[call];
  if (run === undefined) continue;
  figures[name] = time(() => run(...given));
  given.forEach(dispose);
  // Engines run finalizers between tasks.
  await new Promise((resolve) => setTimeout(resolve, 0));
}
const { bun, deno, node } = process.versions;
const version = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`;
console.log(JSON.stringify({ version, figures }));

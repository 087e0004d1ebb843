/**
 * Linear algebra by LAPACK of OpenBLAS: a mock in each form of names, and a real library where the
 * machine has one, or NumPy brings it.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { info } from "../../mod.ts";
import { root, runZig } from "../../scripts/tools.ts";
import { findZig, moduleAt, runApart, when } from "./support.ts";

/** What surrounds the names of C and of Fortran functions, and whether integers have 64 bits. */
const FORMS: readonly [prefix: string, suffix: string, fortran: string, isWide: boolean][] = [
  ["", "", "_", false],
  ["scipy_", "", "_", false],
  ["", "64_", "_64_", true],
  ["scipy_", "64_", "_64_", true],
  ["", "$NEWLAPACK", "$NEWLAPACK", false],
];

const MOCKED = `
  import { eye, info, linalg, LinAlgError, random, tensor } from ${moduleAt("mod.ts")};
  import { openLibrary } from ${moduleAt("tests/native/ffi.ts")};
  const mock: any = openLibrary(process.env.ROWMAJOR_OPENBLAS!, {
    mock_calls: ["i32", "i32"],
    mock_last: ["void", "buffer"],
  });
  const check = (fine: unknown, about: string): void => { if (!fine) throw new Error(about); };
  const expectCalls = (of: number, count: number, about: string): void => {
    const had = mock.mock_calls(of);
    check(had === count, about + ": " + had + " calls");
    mock.mock_calls(-1);
  };
  const hasLapack = process.env.HAS_LAPACK === "1";
  const { lapack, openblas } = info().backends;
  check(openblas.startsWith("OpenBLAS mock"), openblas);
  check(lapack.startsWith("that of openblas") === hasLapack, lapack);
  const used = Number(hasLapack);
  mock.mock_calls(-1);
  const same = (x: any, y: any, about: string): void =>
    check(x.allclose(y, { atol: 1e-4 }), about + " differs");
  for (const dtype of ["float32", "float64"] as const) {
    for (const n of [1, 3, 40]) {
      const a: any = random.normal(random.key(n), [n, n], { dtype });
      const s = a.matmul(a.mT).add(eye(n, { dtype }).mul(n));
      const [expected, product] = [s.toArray(), a.matmul(eye(n, { dtype }))];
      same(product, a, "product");
      for (const upper of [false, true]) {
        mock.mock_calls(-1);
        const about = "cholesky " + dtype + " " + n + " " + upper;
        const triangle = upper ? s.triu() : s.tril();
        const l: any = linalg.cholesky(triangle, { upper });
        expectCalls(7, used, about);
        same(upper ? l.mT.matmul(l) : l.matmul(l.mT), s, about);
        same(upper ? l.tril(-1) : l.triu(1), s.mul(0), about);
        check(JSON.stringify(s.toArray()) === JSON.stringify(expected), about + ": the operand");
      }
      linalg.cholesky(s.expandDims(0).broadcastTo([3, n, n]));
      expectCalls(7, 3 * used, "a batch");
      // It does not converge; that of floats is not called.
      const { u, s: values, vh } = linalg.svd(a) as any;
      expectCalls(8, 2 * used, "svd");
      same(u.mul(values).matmul(vh), a, "svd");
      const { q, r } = linalg.qr(a) as any;
      same(q.matmul(r), a, "qr");
    }
  }
  // The same error as that of own code; NaN and huge numbers do not reach LAPACK.
  for (const upper of [false, true]) {
    try {
      linalg.cholesky(tensor([[[1, 0], [0, 1]], [[1, 2], [2, 1]]]), { upper });
      throw new Error("no error");
    } catch (error) {
      check(error instanceof LinAlgError && error.pivot === 1, String(error));
      check(String(error).includes("matrix 1: it is not positive definite (pivot 1)"), String(error));
    }
    mock.mock_calls(-1);
    for (const bad of [NaN, Infinity, 1e30]) {
      try { linalg.cholesky(tensor([[bad, 0], [0, bad]]), { upper }); } catch { /* of infinity */ }
      expectCalls(7, 0, String(bad));
    }
  }
  console.log("fine");
`;

const REAL = `
  import { Worker, isMainThread, parentPort } from "node:worker_threads";
  import { info, linalg, LinAlgError, ones, setThreads, tensor, zeros } from ${moduleAt("mod.ts")};
  import { adjoint, assertNear, assertOrthonormal, matrices, one } from ${
  moduleAt("tests/linalg/support.ts")
};
  const L: any = linalg;
  const check = (fine: unknown, about: string): void => { if (!fine) throw new Error(about); };
  const layouts: Record<string, (x: any) => any> = {
    dense: (x) => x,
    transposed: (x) => x.mT.copy().mT,
    reversed: (x) => x.flip(-1).copy().flip(-1),
  };
  function compute(dtype: string, n: number, batch: number[]): void {
    const about = dtype + " " + n + " [" + batch + "]";
    const a = matrices([...batch, n, n], dtype), b = matrices([...batch, n, 3], dtype, 2);
    const times = 100 + 20 * n;
    const s = a.matmul(adjoint(a)).add(one(n, dtype).mul(n));
    for (const make of [layouts.dense!, layouts.transposed!, layouts.reversed!]) {
      const [x, definite] = [make(a), make(s)];
      assertNear(definite.matmul(L.solve(definite, make(b))), b, 10 * times * n, about + " solve");
      assertNear(definite.matmul(L.inv(definite)), one(n, dtype).broadcastTo(a.shape), times, about + " inv");
      const l = L.cholesky(definite), upper = L.cholesky(definite, { upper: true });
      assertNear(l.matmul(adjoint(l)), s, times, about + " cholesky");
      assertNear(adjoint(upper).matmul(upper), s, times, about + " cholesky, upper");
      for (const triangle of [false, true]) {
        const half = triangle ? definite.triu() : definite.tril();
        const { eigenvalues: w, eigenvectors: v } = L.eigh(half, { upper: triangle });
        assertOrthonormal(v, times, about + " eigh");
        assertNear(s.matmul(v), v.mul(w.expandDims(-2)), times, about + " eigh");
        assertNear(L.eigvalsh(half, { upper: triangle }), w, times, about + " eigvalsh");
      }
      const { eigenvalues: w, eigenvectors: v } = L.eig(x);
      assertNear(a.astype(v.dtype).matmul(v), v.mul(w.expandDims(-2)), times, about + " eig");
      assertNear(v.abs().pow(2).sum(-2), w.abs().mul(0).add(1), times, about + " eig, norms");
      assertNear(L.eigvals(x).sum(-1).abs(), w.sum(-1).abs(), 10 * times, about + " eigvals");
    }
    for (const [rows, columns] of [[n, n], [n, 2 * n + 1], [2 * n + 1, n]] as const) {
      const dense = matrices([...batch, rows, columns], dtype, 5);
      for (const make of [layouts.dense!, layouts.transposed!]) {
        const x = make(dense), k = Math.min(rows, columns);
        for (const fullMatrices of [false, true]) {
          const { u, s: values, vh } = L.svd(x, { fullMatrices });
          assertOrthonormal(u, times, about + " u");
          assertOrthonormal(adjoint(vh), times, about + " vh");
          const left = u.slice("..., :" + k), right = vh.slice("..., :" + k + ", :");
          assertNear(left.mul(values.expandDims(-2)).matmul(right), dense, times, about + " svd");
          assertNear(L.svdvals(x), values, times, about + " svdvals");
          const { q, r } = L.qr(x, { mode: fullMatrices ? "complete" : "reduced" });
          assertOrthonormal(q, times, about + " q");
          assertNear(q.matmul(r), dense, times, about + " qr");
          check(r.tril(-1).abs().max().item() === 0, about + " r");
        }
      }
    }
  }
  if (isMainThread) {
    check(info().backends.lapack.startsWith("that of openblas"), info().backends.lapack);
    for (const threads of [1, 2]) {
      setThreads(threads);
      for (const dtype of ["float32", "float64", "complex64", "complex128"]) {
        for (const n of [1, 2, 13]) compute(dtype, n, threads === 1 ? [] : [2]);
      }
    }
    // On threads of the library, and from several workers.
    const a = matrices([210, 210], "float64"), g = a.matmul(a.mT);
    const worker = new Worker(new URL(import.meta.url));
    const answer = new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
    for (let i = 0; i < 4; i++) {
      const { eigenvalues: w, eigenvectors: v } = L.eigh(g);
      assertNear(g.matmul(v), v.mul(w.expandDims(-2)), 5000, "eigh of 210");
      assertNear(a.matmul(L.solve(a, g)), g, 1e6, "solve of 210");
    }
    {
      const wide = matrices([660, 660], "float64").add(one(660, "float64").mul(99));
      assertNear(wide.matmul(L.inv(wide)), one(660, "float64"), 1e6, "inv of 660");
    }
    check(await answer === "fine", "the worker");
    await worker.terminate();
    // What has no result has the errors and values of own code.
    for (const [about, call] of [
      ["solve matrix 0: it is singular (pivot 1)", () => L.solve(tensor([[1, 2], [2, 4]]), ones([2]))],
      ["inv matrix 1: it is singular (pivot 0)", () => L.inv(matrices([3, 5, 5], "float64").mul(tensor([1, 0, 1]).reshape([3, 1, 1])))],
      ["cholesky matrix 0: it is not positive definite (pivot 0)", () => L.cholesky(zeros([40, 40]))],
    ] as [string, () => unknown][]) {
      try {
        call();
        throw new Error("no error");
      } catch (error) {
        check(error instanceof LinAlgError && String(error).includes("Cannot " + about), about + ": " + error);
      }
    }
    for (const bad of [NaN, Infinity, 0, 1e300, 1e-300]) {
      const x: any = matrices([20, 20], "float64").mul(bad);
      const isFinite = Number.isFinite(bad);
      for (const [name, made] of [
        ["svd", () => L.svd(x).s], ["svdvals", () => L.svdvals(x)], ["eigvals", () => L.eigvals(x).abs()],
        ["eigh", () => L.eigh(x).eigenvalues], ["eigvalsh", () => L.eigvalsh(x)], ["qr", () => L.qr(x).r.diagonal()],
      ] as [string, () => any][]) {
        const sum = made().sum().item();
        check(Number.isFinite(sum) === isFinite, name + " of " + bad + ": " + sum);
      }
    }
    console.log("fine");
  } else {
    for (let i = 0; i < 4; i++) {
      compute("float64", 30, [4]);
      L.svd(matrices([220, 220], "float64"));
    }
    parentPort!.postMessage("fine");
  }
`;

/** OpenBLAS: that of the machine, or that of NumPy or SciPy in the environment of the benchmarks. */
function findOpenBlas(): string | undefined {
  if (info().backends.lapack.startsWith("that of openblas")) return "";
  const python = process.env.ROWMAJOR_PYTHON ?? join(root, ".venv", "bin", "python");
  if (!existsSync(python)) return undefined;
  const lib = join(dirname(dirname(python)), "lib");
  for (const version of existsSync(lib) ? readdirSync(lib) : []) {
    for (const name of ["numpy.libs", "scipy.libs"]) {
      const folder = join(lib, version, "site-packages", name);
      const file = existsSync(folder) &&
        readdirSync(folder).find((one) => one.includes("scipy_openblas"));
      if (file) return realpathSync(join(folder, file));
    }
  }
  return undefined;
}

test(...when(
  { zig: findZig() !== undefined },
  "LAPACK is called by the names of each build of OpenBLAS, or own code computes",
  (folder) => {
    const extension = process.platform === "win32" ? "dll" : "so";
    const source = fileURLToPath(new URL("c/mock_blas.c", import.meta.url));
    for (const [i, [prefix, suffix, fortran, isWide]] of [...FORMS, FORMS[0]!].entries()) {
      const hasLapack = i < FORMS.length;
      const mock = join(folder, `mock_blas_${i}.${extension}`);
      const options = [...(isWide ? ["-DWIDE"] : []), ...(hasLapack ? ["-DLAPACK"] : [])];
      const names = [`-DPREFIX=${prefix}`, `-DSUFFIX=${suffix}`, `-DFORTRAN_SUFFIX=${fortran}`];
      runZig(["cc", "-shared", "-fPIC", "-O1", ...options, ...names, "-o", mock, source]);
      const env = {
        ROWMAJOR_OPENBLAS: mock,
        ROWMAJOR_BLAS_ALWAYS: "1",
        ROWMAJOR_THREADS: "1",
        HAS_LAPACK: hasLapack ? "1" : "0",
      };
      assertEquals(runApart(MOCKED, env).trim(), "fine", `${prefix}dgesdd${fortran}`);
    }
  },
));

const openBlas = findOpenBlas();

test(...when(
  { "OpenBLAS with LAPACK": openBlas !== undefined },
  "LAPACK of OpenBLAS: every factorization, dtype and layout; errors; workers",
  () => {
    const env = {
      ...(openBlas === "" ? {} : { ROWMAJOR_OPENBLAS: openBlas! }),
      ROWMAJOR_BLAS_ALWAYS: "1",
    };
    assertEquals(runApart(REAL, env, ["-A", `--config=${join(root, "deno.json")}`]).trim(), "fine");
  },
));

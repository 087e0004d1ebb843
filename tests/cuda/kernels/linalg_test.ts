/**
 * Linear algebra on a CUDA device, the emulator's or a real one: against the CPU's results, by what
 * defines them, in every layout, with the CPU's errors, and without cuSOLVER.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  capture,
  DeviceError,
  eye,
  info,
  linalg,
  LinAlgError,
  memory,
  tensor,
  zeros,
} from "../../../mod.ts";
import { tidy } from "../../../src/core/handles.ts";
import { emulatorFolder } from "../../emulator/build.ts";
import { controlEmulator } from "../../emulator/control.ts";
import {
  adjoint,
  assertNear,
  assertOrthonormal,
  matrices,
  one,
  REAL,
} from "../../linalg/support.ts";
import { type Any, asView, loose } from "../../support.ts";
import { onHardware, openCudaForTests, whyNoCuda } from "../support/device.ts";

const L: Any = linalg;
const golden = JSON.parse(
  readFileSync(new URL("../../golden/linalg/cases.json", import.meta.url), "utf8"),
);

/** Bytes of tensors on the device. */
function inUse(): number {
  const { bytes, pooledBytes } = memory("cuda");
  return bytes - pooledBytes;
}

/** Positive definite matrices. */
function definite(shape: readonly number[], dtype: string): Any {
  const x = matrices(shape, dtype);
  return x.matmul(adjoint(x)).div(shape.at(-1)!).add(one(shape.at(-1)!, dtype));
}

/** The steps that the emulator's cuSOLVER and cuBLAS have run; 1 more each time on a device. */
let steps = 0;
function stepsRun(): number {
  return onHardware ? ++steps : controlEmulator(emulatorFolder()).get("factors");
}

/** Runs `body` for matrices in several layouts on the device, and checks that nothing is lost. */
function eachLayout(
  shapes: readonly number[][],
  make: (shape: number[], dtype: string) => Any,
  check: (x: Any, device: Any, about: string) => void,
): void {
  for (const dtype of REAL) {
    for (const shape of shapes) {
      tidy(() => {
        const x = make(shape, dtype);
        const before = inUse();
        const ran = stepsRun();
        const layouts: [string, () => Any][] = [
          ["dense", () => x.cuda()],
          ["view", () => asView(x.cuda())],
          ["transposed", () => loose(x.mT.copy()).cuda().mT],
        ];
        const all = shape.length > 2 || Math.max(...shape) < 33 || dtype === "complex64";
        for (const [name, device] of layouts.slice(0, all ? 3 : 1)) {
          tidy(() => check(x, device(), `${dtype} [${shape}] ${name}`));
        }
        assert(stepsRun() > ran, `${dtype} [${shape}] ran elsewhere`);
        assertEquals(inUse(), before, `${dtype} [${shape}] loses memory`);
      });
    }
  }
}

const SMALL = [[1, 1], [5, 5], [3, 4, 4], [2, 2, 3, 3], [40, 40]];

const reason = whyNoCuda();
if (reason !== undefined) test(`linear algebra on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();

  test("systems, inverses and triangles are solved on CUDA", () => {
    eachLayout(SMALL, definite, (x, device, about) => {
      const n = x.shape.at(-1)!;
      const times = 60 + 10 * n;
      const inverse = L.inv(device);
      assertEquals(inverse.device, "cuda");
      assertNear(inverse.cpu().matmul(x), one(n, x.dtype).broadcastTo(x.shape), times, about);
      for (const k of [1, 3]) {
        const b = matrices([...x.shape.slice(0, -1), k], x.dtype, 2);
        const right = loose(b.mT.copy()).cuda().mT;
        assertNear(x.matmul(L.solve(device, right).cpu()), b, times, `${about}, ${k} columns`);
        for (const upper of [false, true]) {
          const triangle = upper ? x.triu() : x.tril();
          for (const unitDiagonal of [false, true]) {
            const options = { upper, unitDiagonal };
            const y = L.solveTriangular(device, right, options).cpu();
            const whole = unitDiagonal
              ? triangle.sub(L.diagonal(triangle).expandDims(-1).mul(one(n, x.dtype))).add(
                one(n, x.dtype),
              )
              : triangle;
            const error = n > 8 && unitDiagonal ? 1e6 : 4;
            assertNear(whole.matmul(y), b, error * times, `${about}, ${JSON.stringify(options)}`);
          }
        }
      }
      const v = matrices([n], x.dtype, 3);
      const y = L.solve(device, v.cuda()).cpu();
      assertEquals(y.shape, x.shape.slice(0, -1));
      const made = x.matmul(y.expandDims(-1)).squeeze(-1);
      assertNear(made, v.broadcastTo(y.shape), times, `${about}, a vector`);
    });
  });

  test("batches of systems broadcast on CUDA", () => {
    tidy(() => {
      const a = definite([3, 1, 4, 4], "float64"), b = matrices([2, 4, 5], "float64");
      const x = L.solve(a.cuda(), b.cuda()).cpu();
      assertNear(a.matmul(x), b.broadcastTo([3, 2, 4, 5]), 200, "solve");
      const many = loose(eye(2)).mul(2).broadcastTo([50, 2, 2]);
      const y = L.solve(loose(many.copy()).cuda().slice("::2"), loose(tensor([1, 2])).cuda());
      assertNear(y.cpu(), loose(tensor([0.5, 1])).broadcastTo([25, 2]), 2, "solve");
    });
  });

  test("factors are right on CUDA", () => {
    eachLayout(SMALL, definite, (x, device, about) => {
      const n = x.shape.at(-1)!;
      for (const upper of [false, true]) {
        const l = L.cholesky(device, { upper }).cpu();
        assertEquals((upper ? l.triu() : l.tril()).equals(l), true, about);
        const whole = upper ? adjoint(l).matmul(l) : l.matmul(adjoint(l));
        assertNear(whole, x, 40 + n, `${about}, ${upper}`);
        // The other triangle is not read.
        const part = L.cholesky(upper ? device.triu() : device.tril(), { upper }).cpu();
        assertEquals(part.equals(l), true, about);
      }
      const { p, l, u } = L.lu(device);
      const rows = x.takeAlongAxis(p.cpu().expandDims(-1).broadcastTo(x.shape).copy(), -2);
      assertNear(l.cpu().matmul(u.cpu()), rows, 40 + 2 * n, about);
      assertEquals(u.cpu().triu().equals(u.cpu()), true, about);
      assertEquals(l.cpu().tril().equals(l.cpu()), true, about);
    });
    eachLayout([[33, 50], [50, 33], [2, 40, 35]], matrices, (x, device, about) => {
      const [m, n] = x.shape.slice(-2);
      const { p, l, u } = L.lu(device);
      const rows = x.takeAlongAxis(p.cpu().expandDims(-1).broadcastTo(x.shape).copy(), -2);
      assertNear(l.cpu().matmul(u.cpu()), rows, 200, about);
      for (const mode of ["reduced", "complete"]) {
        const found = L.qr(device, { mode });
        const [q, r] = [found.q.cpu(), found.r.cpu()];
        assertEquals(q.shape.at(-1), mode === "complete" ? m : Math.min(m, n));
        assertNear(q.matmul(r), x, 200, about);
        assertOrthonormal(q, 200, about);
        assertEquals(r.triu().equals(r), true, about);
      }
    });
  });

  test("determinants are right on CUDA", () => {
    eachLayout([[5, 5], [3, 4, 4], [2, 2, 3, 3], [33, 33]], matrices, (x, device, about) => {
      const times = 400 + 40 * x.shape.at(-1)!;
      const det = L.det(x), ratio = loose(L.det(device)).cpu().div(det);
      assertNear(ratio, det.mul(0).add(1), times, about);
      const [got, want] = [L.slogdet(device), L.slogdet(x)];
      assertNear(got.sign.cpu(), want.sign, times, about);
      assertNear(got.logabsdet.cpu(), want.logabsdet, times, about);
    });
    for (const [i, { a, det, rank }] of golden.cases.entries()) {
      if (a.data === undefined || det.data?.some((x: unknown) => typeof x === "string")) continue;
      tidy(() => {
        const x = loose(tensor(a.data, { dtype: "float64" })).reshape(a.shape);
        const n = a.shape.at(-1)!;
        const want = loose(tensor(det.data, { dtype: "float64" })).reshape(det.shape);
        assertNear(loose(L.det(x.cuda())).cpu(), want, 40 * n * n, `golden ${i}`);
        assertEquals([L.matrixRank(x.cuda()).toArray()].flat().map(Number), rank.data, `rank ${i}`);
      });
    }
  });

  test("determinants beyond the numbers of the dtype are right on CUDA", () => {
    const rows = tensor([1e200, 1e200, 1e-300, 1e-50, 1, 1], { dtype: "float64" });
    const plain: Any = definite([6, 6], "float64"), want = L.det(plain).item() * 1e50;
    const got: Any = L.det(plain.mul(rows.expandDims(1)).to("cuda")).item();
    assert(Math.abs(got / want - 1) < 1e-12, `${got}, not ${want}`);
  });

  test("eigenvalues and singular values are right on CUDA", () => {
    const hermitian = (shape: number[], dtype: string): Any => {
      const x = matrices(shape, dtype);
      return x.add(adjoint(x));
    };
    eachLayout([[33, 33], [2, 34, 34]], hermitian, (x, device, about) => {
      const found = L.eigh(device);
      const [w, v] = [found.eigenvalues.cpu(), found.eigenvectors.cpu()];
      assertNear(v.mul(w.expandDims(-2)).matmul(adjoint(v)), x, 400, about);
      assertOrthonormal(v, 400, about);
      assertEquals(loose(w).diff().min().item() >= 0, true, about);
      assertNear(w, L.eigvalsh(x), 400, about);
      assertNear(loose(L.eigvalsh(device.triu(), { upper: true })).cpu(), w, 400, about);
      assertNear(loose(L.eigvalsh(device.tril())).cpu(), w, 400, about);
    });
    eachLayout([[33, 33], [33, 40], [40, 33], [2, 36, 33]], matrices, (x, device, about) => {
      const k = Math.min(...x.shape.slice(-2));
      for (const fullMatrices of [false, true]) {
        const found = L.svd(device, { fullMatrices });
        const [u, s, vh] = [found.u.cpu(), found.s.cpu(), found.vh.cpu()];
        const [left, right] = [u.slice("...", `:${k}`), vh.slice("...", `:${k}`, ":")];
        assertNear(left.mul(s.expandDims(-2)).matmul(right), x, 400, about);
        assertOrthonormal(u, 400, about);
        assertOrthonormal(adjoint(vh), 400, about);
        assertNear(loose(L.svdvals(device)).cpu(), s, 100, about);
        assertNear(s, L.svdvals(x), 400, about);
      }
    });
  });

  test("floats have the singular values and eigenvalues of doubles, rounded, on CUDA", () => {
    for (const dtype of ["float32", "complex64"] as const) {
      for (const n of [5, 40]) {
        const a = matrices([2, n, n], dtype), wide = dtype === "float32" ? "float64" : "complex128";
        const x: Any = a.to("cuda"), y = a.astype(wide), before = stepsRun();
        for (const name of ["svdvals", "eigvalsh"]) {
          const [mine, theirs] = [L[name](x).cpu().astype("float64"), L[name](y)];
          assertEquals(L[name](x).dtype, "float32");
          const error = mine.sub(theirs).abs().max().item() / theirs.abs().max().item();
          assert(error <= 2 ** -24, `${dtype} ${name} ${n}: ${error}`);
        }
        if (n === 40) assert(stepsRun() > before, "cuSOLVER computes them");
        const p = L.pinv(y), error = L.pinv(x).cpu().astype(wide).sub(p).abs().max().item();
        assert(error <= 2 ** -23 * p.abs().max().item(), `${dtype} pinv ${n}: ${error}`);
      }
    }
  });

  test("functions of these are right on CUDA", () => {
    tidy(() => {
      const a = matrices([40, 33], "float64"), b = matrices([40, 2], "float64", 2);
      const { x, rank } = L.lstsq(a.cuda(), b.cuda());
      assertNear(x.cpu(), L.lstsq(a, b).x, 1e4, "lstsq");
      assertEquals(Number(rank.item()), 33);
      assertNear(L.pinv(a.cuda()).cpu(), L.pinv(a), 1e4, "pinv");
      assertNear(loose(L.cond(a.cuda())).cpu().div(L.cond(a)), loose(tensor(1)), 1e11, "cond");
      const integers = loose(tensor([[2, 1], [1, 3]], { dtype: "int32" }));
      const inverse = L.inv(integers.cuda());
      assertEquals([inverse.dtype, inverse.device], ["float32", "cuda"]);
      assertNear(inverse.cpu(), L.inv(integers), 4, "integers");
      // The CPU computes what cuSOLVER has no function for, and small ones of others.
      const values = loose(L.eigvals(integers.cuda()));
      assertEquals([values.dtype, values.device], ["complex64", "cuda"]);
      assertEquals(L.svdvals(zeros([2, 0, 3], { device: "cuda" })).shape, [2, 0]);
    });
  });

  test("matrices without a result have the CPU's errors on CUDA", () => {
    const errorOf = (body: () => unknown): LinAlgError =>
      assertThrows(body, LinAlgError) as LinAlgError;
    for (const dtype of REAL) {
      tidy(() => {
        const large = matrices([2, 40, 40], dtype);
        large.set([1], 0);
        const b = matrices([40], dtype);
        const before = inUse();
        const calls: [string, Any, (x: Any) => unknown][] = [
          ["inv", tensor([[[2, 0], [0, 1]], [[1, 2], [2, 4]]], { dtype }), L.inv],
          ["solve", large, (x) => L.solve(x, x.device === "cuda" ? b.cuda() : b)],
          ["cholesky", matrices([3, 5, 5], dtype), L.cholesky],
          ["cholesky", matrices([33, 33], dtype), (x) => L.cholesky(x, { upper: true })],
          ["solveTriangular", large, (x) => L.solveTriangular(x, x)],
        ];
        for (const [name, x, call] of calls) {
          const [want, got] = [x, x.cuda()].map((y) => errorOf(() => tidy(() => call(y) as Any)));
          const about = `${name} of ${dtype}`;
          const told = ({ op, matrix, pivot, message }: LinAlgError): unknown[] => [
            ...[op, matrix, pivot, message],
          ];
          assertEquals(told(got!), told(want!), about);
          assertEquals([got!.op, got!.code], [name, "RM_LINALG"]);
        }
        assertEquals(loose(L.det(tensor([[1, 2], [2, 4]], { dtype }).cuda())).abs().item(), 0);
        const { sign, logabsdet } = L.slogdet(zeros([2, 2], { dtype, device: "cuda" }));
        assertEquals([loose(sign).abs().item(), logabsdet.item()], [0, -Infinity]);
        assertEquals(inUse() - before < 1e6, true);
      });
    }
  });

  test("numbers that are not finite have the CPU's results on CUDA", () => {
    for (const dtype of REAL) {
      tidy(() => {
        for (const bad of [NaN, Infinity]) {
          const b = loose(eye(40, { dtype })).broadcastTo([2, 40, 40]).copy();
          b.set([0, 1, 0], bad);
          for (const x of [L.svdvals, L.eigvalsh, (y: Any) => L.eigh(y).eigenvectors]) {
            const got = x(b.cuda()).cpu();
            const isNaN = got.notEqual(got);
            assertEquals(isNaN.slice(0).all().item(), true);
            assertEquals(isNaN.slice(1).any().item(), false);
          }
        }
        const nan = loose(eye(40, { dtype })).mul(NaN).cuda();
        for (const x of [L.inv(nan), L.det(nan), L.cholesky(nan), L.qr(nan).r]) {
          const got = x.cpu();
          assertEquals(got.notEqual(got).any().item(), true);
        }
      });
    }
  });

  test("ranks of singular matrices, and their vectors, are right on CUDA", () => {
    tidy(() => {
      const low = matrices([40, 3], "complex128").matmul(matrices([3, 40], "complex128", 5));
      const found = L.svd(low.cuda());
      assertOrthonormal(found.u.cpu(), 500, "rank 3");
      assertOrthonormal(adjoint(found.vh.cpu()), 500, "rank 3");
      assertEquals(Number(L.matrixRank(low.cuda()).item()), 3);
      const nothing = L.svd(zeros([40, 40], { device: "cuda" }));
      assertOrthonormal(nothing.u.cpu(), 20, "zeros");
    });
  });

  test("linear algebra cannot be captured", () => {
    tidy(() => {
      const x = definite([3, 3], "float32").cuda();
      L.inv(x);
      assertThrows(
        () => capture("cuda", () => void L.inv(x)),
        DeviceError,
        "cannot run linear algebra while a graph is being captured: do it before",
      );
      assertNear(L.inv(x).cpu(), L.inv(x.cpu()), 60, "afterwards");
    });
  });

  test("info() tells which cuSOLVER serves", () => {
    L.inv(loose(eye(2)).cuda());
    const told = info().backends.cusolver;
    assert(/^1\d\.\d+, \//.test(told), told);
  });

  if (!onHardware) {
    test("a call of cuSOLVER that fails is an error, loses nothing, and the next one is right", () => {
      const tools = controlEmulator(emulatorFolder());
      const x = definite([40, 40], "complex64"), many = definite([3, 4, 4], "float32");
      const y = x.cuda(), z = many.cuda();
      const calls: [string, () => Any][] = [
        ["solve", () => L.solve(y, y)],
        ["inv", () => L.inv(z)],
        ["cholesky", () => L.cholesky(z)],
        ["solveTriangular", () => L.solveTriangular(z, z)],
        ["solveTriangular", () => L.solveTriangular(y, y)],
        ["qr", () => L.qr(y).q],
        ["eigh", () => L.eigh(y).eigenvectors],
        ["svd", () => L.svd(y).u],
      ];
      for (const [name, call] of calls) {
        const before = inUse();
        let failures = 0;
        for (let n = 1; n < 9; n++) {
          tools.set("failSolver", n);
          const error = tidy(() => {
            try {
              call();
            } catch (thrown) {
              return thrown as never;
            }
          }) as Error | undefined;
          const left = tools.get("failSolver");
          tools.set("failSolver", 0);
          assertEquals(inUse(), before, `${name}, call ${n}`);
          if (error === undefined) {
            assert(left > 0, `${name}: failure ${n} is not seen`);
            break;
          }
          assert(error instanceof DeviceError, `${name}: ${error}`);
          failures++;
        }
        assert(failures > 0, `${name} cannot fail`);
      }
      assertNear(L.inv(y).cpu(), L.inv(x), 400, "the next");
      for (const each of [x, many, y, z]) each.dispose();
    });

    test("where the device has no memory for a workspace the CPU computes", () => {
      const tools = controlEmulator(emulatorFolder());
      const x = definite([40, 40], "float64"), y = x.cuda();
      const before = inUse();
      for (let n = 1; n < 20; n++) {
        tools.set("failMalloc", n);
        tidy(() => {
          try {
            assertNear(L.inv(y).cpu(), L.inv(x), 400, "inv");
          } catch (error) {
            assertEquals((error as Error).name, "OutOfMemoryError");
          }
        });
        tools.set("failMalloc", 0);
        assertEquals(inUse(), before);
      }
      for (const each of [x, y]) each.dispose();
    });
  }
}

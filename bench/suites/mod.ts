/**
 * The suites by name. Each is loaded when it runs: some open a library of their own.
 *
 * @module
 */
import type { Suite } from "../harness/suite.ts";

const LOADERS: Readonly<Record<string, () => Promise<{ readonly suite: Suite }>>> = {
  primitives: () => import("./primitives.ts"),
  numerics: () => import("./numerics.ts"),
  programs: () => import("./programs.ts"),
  generation: () => import("./generation.ts"),
  texts: () => import("./texts.ts"),
  distributed: () => import("./distributed.ts"),
  cookbook: () => import("./cookbook.ts"),
  kernels: () => import("./kernels.ts"),
  improvements: () => import("./improvements.ts"),
  large: () => import("./large.ts"),
  gemm: () => import("./gemm.ts"),
  start: () => import("./start.ts"),
  engine: () => import("./engine.ts"),
  server: () => import("./server.ts"),
  serve: () => import("./serve.ts"),
  fallback: () => import("./fallback.ts"),
  onnx: () => import("./onnx.ts"),
  training: () => import("./training.ts"),
};

/** The names of all suites. */
export const SUITES: readonly string[] = Object.keys(LOADERS);

/** The suites that run if none is named. */
export const USUAL: readonly string[] = SUITES.slice(0, 6);

/** Loads a suite. */
export async function loadSuite(name: string): Promise<Suite> {
  return (await LOADERS[name]!()).suite;
}

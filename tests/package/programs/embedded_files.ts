/**
 * Opens files by all functions that take a path, and prints how many bytes each has read from inside
 * the executable. The files are imported by the program that calls this.
 *
 * @module
 */
import { io } from "../../../mod.ts";
import * as llm from "../../../src/llm/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import * as onnx from "../../../src/onnx/mod.ts";

interface Blobs {
  readonly prototype: { bytes(this: { readonly size: number }): Promise<Uint8Array> };
}

/** Runs all openers on the files at the paths of the formats. */
export async function openAll(paths: Readonly<Record<string, string>>): Promise<void> {
  let bytes = 0;
  const { prototype } = (globalThis as unknown as { Blob: Blobs }).Blob;
  const { bytes: read } = prototype;
  prototype.bytes = function () {
    bytes += this.size;
    return read.call(this);
  };
  const { safetensors = "", gguf = "", npy = "", npz = "", model = "" } = paths;
  const all = async (weights: Promise<nn.Weights>): Promise<void> => {
    using opened = await weights;
    for (const name of opened.names()) opened.tensor(name);
  };
  const openers: Readonly<Record<string, () => Promise<unknown>>> = {
    "safetensors io.mapSafetensors": async () => {
      const file = await io.mapSafetensors(safetensors);
      for (const name of file.names) file.get(name);
    },
    "safetensors io.openSafetensors": async () => {
      await using file = await io.openSafetensors(safetensors);
      for (const name of file.names) await file.get(name);
    },
    "safetensors nn.open": () => all(nn.open(safetensors)),
    "gguf nn.open": () => all(nn.open(gguf)),
    "gguf llm.open": async () => void (await llm.open(gguf)).dispose(),
    "npy io.readNpy": () => io.readNpy(npy),
    "npy io.mapNpy": () => io.mapNpy(npy),
    "npz io.readNpz": () => io.readNpz(npz),
    "npz nn.open": () => all(nn.open(npz)),
    "model onnx.open": async () => (await onnx.open(model)).dispose(),
  };
  const counts: Record<string, number> = {};
  for (const [name, open] of Object.entries(openers)) {
    bytes = 0;
    await open();
    counts[name] = bytes;
  }
  console.log(JSON.stringify(counts));
}

/**
 * The small models of models.ts as files, for servers that are processes.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { chatFiles, embedderFiles, rerankerFiles } from "./models.ts";

/** The paths of the models. */
export interface ModelPaths {
  readonly chat: string;
  readonly embeddings: string;
  readonly rerank: string;
}

/** The most tokens of a chat with its answer. */
const CONTEXT = 8192;

/** Writes the models to a folder that is removed after the tests of this process. */
export function writeModels(): ModelPaths {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-serve-"));
  after(() => rmSync(folder, { recursive: true }));
  const write = (name: string, files: Readonly<Record<string, Uint8Array | string>>): string => {
    const path = join(folder, name);
    mkdirSync(path);
    for (const [file, bytes] of Object.entries(files)) writeFileSync(join(path, file), bytes);
    return path;
  };
  return {
    chat: join(write("chat", chatFiles("hermes", CONTEXT)), "model.gguf"),
    embeddings: write("embeddings", embedderFiles()),
    rerank: write("rerank", rerankerFiles()),
  };
}

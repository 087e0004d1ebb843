/**
 * The examples of docs/devices.md, if there is a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";
import { readBlocks, root, runBlock } from "../docs/blocks.ts";

const FILE = "docs/devices.md";
const reason = whyNoCuda();
if (reason !== undefined) test(`examples on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const block of readBlocks(FILE, readFileSync(new URL(FILE, root), "utf8"))) {
    if (block.language !== "ts") continue;
    const skip = block.mode !== "run";
    test(`example on CUDA at ${block.file}:${block.line}`, { skip }, () => runBlock(block));
  }
}

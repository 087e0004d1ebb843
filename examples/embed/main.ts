/**
 * The command `rowmajor embed` as a program of its own, which may have a model inside.
 *
 *     bun examples/embed/main.ts MODEL "a text" "another"
 *     deno run -A examples/embed/main.ts MODEL --search=FILE "what to look for"
 *
 * @module
 */
import process from "node:process";
import { main } from "../../src/command/command.ts";
import { readText } from "../shared/model_files.ts";

/** The model inside an executable, or next to this module. */
const own = new URL("model/", import.meta.url);
const model = readText("config.json", own) === undefined ? [] : [own.href];
process.exitCode = await main(["embed", ...model, ...process.argv.slice(2)]);

/**
 * The parameters of the public interface that take lists, as the type checker finds them: each has a
 * call in calls.ts, so that a new function cannot be forgotten. The type checker reads all of src, in
 * `npm run test:all` alone; holes_test.ts calls every function in `npm test`.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { RUNS_ALL } from "../support/amount.ts";
import { root } from "../../scripts/tools.ts";
import { CALLS, LEFT_OUT, UNTYPED } from "./calls.ts";
import { findListParameters, keyOf } from "./find.ts";

const EVERY = "every parameter that takes a list has a call here, and each call its parameter";
if (RUNS_ALL) {
  test(EVERY, () => {
    const parameters = findListParameters();
    const found = new Set(parameters.keys());
    const known = new Set([...Object.keys(CALLS), ...LEFT_OUT.keys()]);
    for (const key of UNTYPED) found.add(key);
    assertEquals([...found].filter((key) => !known.has(key)), [], "without a call");
    assertEquals([...known].filter((key) => !found.has(key)), [], "of no parameter");
    assert(found.size > 280, `${found.size} parameters`);
    for (const parameter of parameters.values()) assert(keyOf(parameter).includes(" "));
  });
}

/**
 * Where src asks whether a value is an array, except in `listIn` and what else `src/base` has: lists
 * that the library has made or copied, of files, or to tell one kind of argument from another.
 */
const ARRAYS: Readonly<Record<string, number>> = {
  "src/compile/same.ts": 3,
  "src/compile/signature.ts": 2,
  "src/compile/trace.ts": 2,
  "src/constraints/lengths.ts": 2,
  "src/constraints/schema.ts": 6,
  "src/constraints/values.ts": 12,
  "src/core/dispatch.ts": 3,
  "src/distributed/files.ts": 1,
  "src/grad/mod.ts": 1,
  "src/grad/rules/indexes.ts": 2,
  "src/grad/trees.ts": 1,
  "src/hub/requests.ts": 2,
  "src/io/arrow.ts": 1,
  "src/io/metadata.ts": 4,
  "src/io/model_folder.ts": 1,
  "src/llm/config/reader.ts": 1,
  "src/llm/gguf_config.ts": 3,
  "src/llm/json_config.ts": 2,
  "src/llm/model.ts": 2,
  "src/optim/optimizer.ts": 1,
  "src/table/infer.ts": 2,
  "src/table/views.ts": 3,
  "src/models/calls.ts": 3,
  "src/models/chat_format.ts": 1,
  "src/models/embedder.ts": 2,
  "src/ops/create/from_data.ts": 3,
  "src/ops/index/op.ts": 2,
  "src/ops/index/put.ts": 1,
  "src/ops/join/op.ts": 1,
  "src/ops/manipulate/op.ts": 6,
  "src/ops/einsum/op.ts": 2,
  "src/ops/index/selection.ts": 5,
  "src/ops/softmax_norm/op.ts": 1,
  "src/tensor/tensor.ts": 2,
  "src/train/checkpoint.ts": 2,
  "src/tokenizers/jinja/values.ts": 1,
  "src/tokenizers/json.ts": 9,
  "src/onnx/graph/values.ts": 1,
  "src/onnx/session.ts": 1,
  // Values of a file.
  "src/onnx/cache.ts": 1,
  "src/onnx/graph/coding.ts": 3,
  // Values of the files of models, and of a file of settings.
  "src/command/info.ts": 3,
  "src/command/kinds.ts": 1,
  "src/command/settings.ts": 3,
  "src/serve/http/service.ts": 1,
  "src/serve/inference.ts": 1,
  "src/serve/inference/datatypes.ts": 4,
  "src/serve/inference/messages.ts": 3,
  "src/serve/inference/model.ts": 1,
  "src/serve/openai/fields.ts": 2,
  "src/serve/openai/inputs.ts": 2,
  "src/serve/openai/messages.ts": 2,
};

test("arrays of the caller are recognized by listIn, which copies them", () => {
  const found: Record<string, number> = {};
  const folder = join(root, "src");
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts") || /^(base|types)[\\/]/.test(name)) continue;
    const text = readFileSync(join(folder, name), "utf8");
    const count = text.split(/\bArray\.isArray\b/).length - 1;
    if (count > 0) found[`src/${name.replaceAll("\\", "/")}`] = count;
  }
  assertEquals(found, ARRAYS, "use listIn, or note here why the array is not the caller's");
});

/**
 * Models of each architecture against transformers: logits of all tokens, and the tokens that follow.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { collect, distance, floatsOf, golden, modelFolder } from "./models.ts";

for (const [name, { prompt, logits, tokens }] of Object.entries(golden.models)) {
  testOnBackends(`${name} as transformers`, async () => {
    using model = await llm.open(modelFolder(name), { cache: "float32" });
    using session = model.session();
    const made = await session.logits(prompt, { all: true });
    assert(
      distance(made, floatsOf(logits)) < 1e-4,
      `logits are ${distance(made, floatsOf(logits))} off`,
    );
    const { all, end } = await collect(model.generate(prompt, { maxTokens: tokens.length }));
    assertEquals([all, end], [[...tokens], "maxTokens"]);
  });
}

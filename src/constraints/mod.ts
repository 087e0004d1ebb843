/**
 * Constraints of generated text: one of some texts, JSON of a schema, or a grammar. A token that a
 * constraint does not allow cannot come.
 *
 * `choices` needs no package. The others need `@mlc-ai/web-xgrammar`, which a program installs itself;
 * it is imported when it is needed for the first time.
 *
 * @example
 * ```ts
 * import * as constraints from "@rowmajor/tensor/constraints";
 * import * as llm from "@rowmajor/tensor/llm";
 * import * as tokenizers from "@rowmajor/tensor/tokenizers";
 *
 * const file = "SmolLM2-135M-Instruct.Q4_1.gguf";
 * const tokenizer = await tokenizers.open(file);
 * using engine = await llm.engine(file, { tokenizer });
 * const constraint = await constraints.choices([" yes", " no"], tokenizer);
 * for await (const { text } of engine.generate("Is water wet?", { constraint })) console.log(text);
 * ```
 *
 * @module
 */
export { choices } from "./choices.ts";
export {
  grammar,
  GrammarConstraint,
  json,
  type JsonOptions,
  jsonSchema,
  type JsonSchemaOptions,
} from "./grammar.ts";
export type { TokenBytes } from "./vocabulary.ts";
export type { JsonSchema } from "./values.ts";
export type { Constraint, ConstraintContext, ConstraintState } from "../llm/batch/generation.ts";

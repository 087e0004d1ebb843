/**
 * ONNX: opens any `.onnx` file, and runs it as compiled programs.
 *
 * @module
 */
export {
  type AsyncOptions,
  Model,
  type OpCall,
  open,
  type OpenOptions,
  type OpFunction,
  readOptional,
  readSequence,
  readTensor,
  type RunOptions,
} from "./model.ts";
export type { ValueInfo } from "./graph/graph.ts";
export { type ModelPart, ModelReport } from "./report.ts";
export { Strings, type Value } from "./graph/values.ts";

/**
 * The commands by their names, their errors and exit codes.
 *
 * @module
 */
import "../tensor/tensor.ts";
import { VERSION } from "../base/version.ts";
import { say, UsageError } from "./arguments.ts";
import { chat } from "./chat.ts";
import { embed } from "./embed.ts";
import { info } from "./info.ts";
import { serve } from "./serve.ts";

const USAGE = `usage: rowmajor COMMAND [options]

  serve MODEL ...         serves models over HTTP, as OpenAI's API and the Open Inference Protocol
  chat MODEL [QUESTION]   talks with a language model
  embed MODEL TEXT ...    turns texts into vectors, or ranks the lines of a file
  info [MODEL]            tells what computes here, and what a model is

  -h, --help              prints this, or after a command its options
  --version               prints the version

A MODEL is a GGUF file, a folder with safetensors, an ONNX file, or the name of a model in the cache
of the Hugging Face hub. Exit codes: 0, 1 for a failure, 2 for wrong arguments, 130 after Ctrl-C.`;

const COMMANDS: Readonly<Record<string, (args: readonly string[]) => Promise<number>>> = {
  serve,
  chat,
  embed,
  info,
};

/**
 * Runs the command.
 *
 * @param args Its arguments, such as `["chat", "model.gguf"]`.
 * @returns The exit code: 0, 1 for a failure, 2 for wrong arguments, or 130 after Ctrl-C. Errors are
 *   printed, a line each, and not thrown.
 */
export async function main(args: readonly string[]): Promise<number> {
  const [first = "", second = ""] = args;
  // As in `rowmajor help serve`.
  const [name, rest] = first === "help" && Object.hasOwn(COMMANDS, second)
    ? [second, ["--help"]]
    : [first, args.slice(1)];
  if (/^(-h|--help|help)$/.test(name)) return console.log(USAGE), 0;
  if (name === "--version") return console.log(VERSION), 0;
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  const label = command === undefined ? "rowmajor" : `rowmajor ${name}`;
  try {
    if (command !== undefined) return await command(rest);
    const problem = name === ""
      ? "there is no COMMAND"
      : name.startsWith("-")
      ? `Unknown option '${name}'`
      : `there is no command ${name}`;
    throw new UsageError(problem);
  } catch (error) {
    const isUsage = error instanceof UsageError;
    const text = lineOf(error);
    say(`${label}: ${text}${isUsage ? `; see ${label} --help` : ""}`);
    return isUsage ? 2 : 1;
  }
}

/** An error in one line. */
function lineOf(error: unknown): string {
  const { message, name } = error instanceof Error ? error : new Error(String(error));
  return (message || name).replace(/([:;,]?)\s*\n\s*/g, (_, mark: string) => `${mark || ";"} `);
}

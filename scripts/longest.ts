/**
 * Prints the ten longest files and functions of src/ and shim/.
 *
 * It checks nothing: subjects decide where code lives, not sizes.
 *
 * @module
 */
import ts from "typescript";
import { parse, readFolder } from "./shim_source.ts";

interface Length {
  readonly lines: number;
  readonly what: string;
}

/** The functions of a TypeScript source. */
function functionsOf(path: string, text: string): Length[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  const lineAt = (place: number): number => source.getLineAndCharacterOfPosition(place).line + 1;
  const found: Length[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && "body" in node && node.body !== undefined) {
      const [first, last] = [lineAt(node.getStart()), lineAt(node.getEnd())];
      const name = node.name?.getText() ?? "a function without a name";
      found.push({ lines: last - first + 1, what: `${path}:${first} ${name}` });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}

function print(title: string, lengths: readonly Length[]): void {
  console.log(title);
  for (const { lines, what } of lengths.toSorted((a, b) => b.lines - a.lines).slice(0, 10)) {
    console.log(`${String(lines).padStart(6)}  ${what}`);
  }
}

const sources = readFolder("src");
const shim = readFolder("shim");
const files = [...sources, ...shim].map(([what, text]) => ({ lines: countLines(text), what }));
const functions = [...sources].flatMap(([path, text]) => functionsOf(path, text));
for (const [path, text] of shim) {
  for (const { name, line, lines } of parse(text).functions) {
    functions.push({ lines, what: `${path}:${line} ${name}` });
  }
}
print("Longest files, in lines:", files);
print("Longest functions, in lines:", functions);

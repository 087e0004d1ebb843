/**
 * The columns of a CSV file, and their statistics.
 *
 * @module
 */
import { fromBuffer, scope, stack, type Tensor } from "../../mod.ts";

/** The numbers of a CSV text with a line of names: float64 [rows, columns]. */
export function readCsv(text: string): { names: string[]; rows: Tensor<"float64"> } {
  const [header, ...lines] = text.trim().split("\n");
  const names = header!.split(",").map((name) => name.trim());
  const numbers = new Float64Array(lines.length * names.length);
  let at = 0;
  for (const line of lines) for (const cell of line.split(",")) numbers[at++] = Number(cell);
  return { names, rows: fromBuffer(numbers, { shape: [lines.length, names.length] }) };
}

/** The rows of {@link describe}. */
export const STATISTICS = ["mean", "std", "min", "25%", "50%", "75%", "max"] as const;

/** Statistics of each column: float64 [7, columns]. */
export function describe(rows: Tensor<"float64">): Tensor<"float64"> {
  return scope(() => {
    const sorted = rows.T.sort();
    const quantile = (share: number): Tensor => {
      const place = share * (rows.shape[0]! - 1);
      const [low, high] = [Math.floor(place), Math.ceil(place)];
      const from = sorted.slice(":", low);
      return from.add(sorted.slice(":", high).sub(from).mul(place - low)) as never;
    };
    const [mean, std] = [rows.mean(0), rows.std(0, { correction: 1 })];
    const parts = [0, 0.25, 0.5, 0.75, 1].map(quantile);
    return stack([mean, std, ...parts] as never) as never;
  });
}

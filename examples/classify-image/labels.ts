/**
 * Names of classes.
 *
 * @module
 */

/**
 * Reads names: one a line, a JSON array, or a JSON object by numbers, as `{"0": "tench"}`, the
 * `id2label` of a config.json, or `{"0": ["n01440764", "tench"]}`. The result gives the name of a
 * class, if there is one.
 */
export function readLabels(text: string): (index: number) => string | undefined {
  if (!/^\s*[[{]/.test(text)) {
    const lines = text.replace(/\s+$/, "").split(/\r?\n/);
    return (index) => lines[index]?.trim() || undefined;
  }
  const json: unknown = JSON.parse(text);
  const { id2label = json } = json as { id2label?: unknown };
  const names = id2label as Record<number, unknown>;
  return (index) => {
    const name = names[index];
    const last = Array.isArray(name) ? name.at(-1) : name;
    return typeof last === "string" ? last : undefined;
  };
}

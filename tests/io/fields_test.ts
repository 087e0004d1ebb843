/**
 * Fields of metadata and of JSON: no number without limits, and errors that name the field.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { FormatError } from "../../src/base/errors.ts";
import { Fields, Metadata, type MetadataValue } from "../../src/io/metadata.ts";

function refuse(run: () => unknown, text: string): void {
  const error = assertThrows(run, FormatError, text);
  assertEquals((error as FormatError).file, "a.json");
}

test("fields: numbers are finite, of their kind, and from least to most", () => {
  const json = JSON.parse(
    '{"a":3,"b":1.5,"c":1e9,"d":-1,"e":"3","f":null,"g":[1,2],"h":[1,1e9],"i":1e400,"o":{"p":7}}',
  );
  const fields = Fields.ofJson(json, "a.json");
  const limits = { least: 1, most: 100 };
  assertEquals(fields.integer("a", limits), 3);
  assertEquals(fields.number("b", limits), 1.5);
  assertEquals(fields.number("x", { most: 1, otherwise: 0.5 }), 0.5);
  assertEquals(fields.integer("f", { most: 9, otherwise: 4 }), 4);
  assertEquals(fields.within("o").integer("p", limits), 7);
  assertEquals([fields.has("a"), fields.has("f"), fields.has("toString")], [true, false, false]);
  refuse(() => fields.integer("b", limits), "b is 1.5, and must be an integer from 1 to 100");
  refuse(() => fields.integer("c", limits), "c is 1000000000, and must be an integer from 1 to");
  refuse(() => fields.number("i", limits), "i is Infinity, and must be a number from 1 to 100");
  refuse(() => fields.integer("d", { most: 9 }), "d is -1, and must be an integer from 0 to 9");
  refuse(() => fields.integer("e", limits), 'e is "3", and must be');
  refuse(() => fields.integer("x", limits), "x is undefined, and must be");
  refuse(() => fields.within("o").integer("p", { most: 6 }), "o.p is 7, and must be");
  refuse(() => fields.within("a"), "a is 3, and must be an object");
  // A number that is computed from others is limited too.
  refuse(
    () => fields.integer("x", { most: 9, otherwise: 10 }),
    "x is missing, and 10 in its place",
  );
  refuse(() => fields.integer("x", { most: 9, otherwise: 2.5 }), "2.5 in its place");
});

test("fields: lists have at most so many numbers, each within the limits", () => {
  const fields = Fields.ofJson({ a: [1, 2], b: 3, c: ["1"], d: [0.5] }, "a.json");
  const limits = { most: 100, length: 2 };
  assertEquals(fields.integers("a", limits), [1, 2]);
  assertEquals(fields.integers("b", limits), [3]);
  assertEquals(fields.numbers("d", limits), [0.5]);
  assertEquals(fields.numbers("x", limits), undefined);
  refuse(() => fields.integers("a", { ...limits, length: 1 }), "at most 1 integers from 0 to 100");
  refuse(() => fields.integers("a", { ...limits, most: 1 }), "from 0 to 1");
  refuse(() => fields.integers("c", limits), "c is an array");
  refuse(() => fields.integers("d", limits), "integers");
});

test("fields: texts and flags", () => {
  const fields = Fields.ofJson({ a: "x", b: true, c: ["x", "y"], d: [1] }, "a.json");
  assertEquals([fields.text("a"), fields.flag("b"), fields.texts("c")], ["x", true, ["x", "y"]]);
  assertEquals([fields.text("z"), fields.flag("z"), fields.texts("z")], [
    undefined,
    undefined,
    undefined,
  ]);
  refuse(() => fields.text("b"), "b is true, and must be a text");
  refuse(() => fields.flag("a"), 'a is "x", and must be true or false');
  refuse(() => fields.texts("d"), "a list of texts");
  refuse(() => fields.reject("a", "y"), 'a is "x", and must be y');
});

test("fields: integers of metadata beyond 2^53 are above every limit", () => {
  const values: [string, MetadataValue][] = [["a", 2n ** 60n], ["b", 5]];
  const metadata = new Metadata(new Map(values.map(([key, value]) => [key, () => value])));
  const fields = Fields.of(metadata, "a.json");
  assertEquals(fields.integer("b", { most: 5 }), 5);
  refuse(() => fields.integer("a", { most: Number.MAX_SAFE_INTEGER }), "a is 1152921504606846976n");
  assertEquals(Fields.ofJson(null, "a.json").has("a"), false);
});

/**
 * Text of tokens as they come: characters of several tokens, stop texts, and what is held back.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { test } from "node:test";
import { ArgumentError } from "../../mod.ts";
import { TextStream } from "../../src/llm/mod.ts";
import { stopTexts } from "../../src/tokenizers/text_stream.ts";

/** Tokens that are bytes. */
const bytesToText = (ids: number[]): string => new TextDecoder().decode(Uint8Array.from(ids));
const bytesOf = (text: string): number[] => [...new TextEncoder().encode(text)];

/** Tokens that are texts. */
const pieces = (texts: readonly string[]) => (ids: number[]): string =>
  ids.map((id) => texts[id]).join("");

/** All pieces of tokens up to a stop text, and the rest at the end. */
function run(
  decode: (ids: number[]) => string,
  ids: readonly number[],
  stop: readonly string[] = [],
): { texts: string[]; rest: string; done: boolean; taken: number } {
  const stream = new TextStream(decode, stop);
  const texts: string[] = [];
  let done = false, taken = 0;
  for (const id of ids) {
    const piece = stream.push(id);
    texts.push(piece.text);
    taken++;
    if (piece.done) {
      done = true;
      break;
    }
  }
  return { texts, rest: stream.flush(), done, taken };
}

test("characters come whole", () => {
  const { texts, rest } = run(bytesToText, bytesOf("aé€😀b"));
  assertEquals(texts, ["a", "", "é", "", "", "€", "", "", "", "😀", "b"]);
  assertEquals(rest, "");
});

test("bytes that become no character are told at the end, or before the next character", () => {
  assertEquals(run(bytesToText, [97, 0xe2, 0x82]), {
    ...{ texts: ["a", "", ""], rest: "\ufffd", done: false, taken: 3 },
  });
  const { texts } = run(bytesToText, [0xff, 98, 0xe2, 99]);
  assertEquals(texts.join(""), "\ufffdb\ufffdc");
});

test("tokens without text add none", () => {
  const decode = pieces(["", "a", "b"]);
  const { texts, rest } = run(decode, [0, 1, 0, 0, 2, 0]);
  assertEquals([texts.join(""), rest], ["ab", ""]);
});

test("text that depends on the tokens before it is that of all tokens", () => {
  // As SentencePiece: a space before each word, but none before the first.
  const decode = (ids: number[]): string => ids.map((id) => ` w${id}`).join("").slice(1);
  const { texts, rest } = run(decode, [1, 2, 3, 4]);
  assertEquals([texts, rest], [["w1", " w2", " w3", " w4"], ""]);
});

test("the first token is decoded after those before the text", () => {
  const decode = (ids: number[]): string => ids.map((id) => ` w${id}`).join("").slice(1);
  const stream = new TextStream(decode, ["w5"], [1, 2, 3, 4, 5, 6]);
  assertEquals([7, 8].map((id) => stream.push(id).text), [" w7", " w8"]);
  assertEquals(stream.push(5), { text: " ", done: true });
  // A text may begin in the middle of a character.
  const [first, second, third] = bytesOf("€");
  const middle = new TextStream(bytesToText, [], [97, first!, second!]);
  const made = [third!, ...bytesOf("bé")].map((id) => middle.push(id).text).join("");
  assertEquals(made + middle.flush(), "€bé");
});

test("a prompt may be no more than the begin of a character", () => {
  const emoji = bytesOf("🦙🦊!");
  // As some tokenizers: all bytes in a row are characters, or none is.
  const all = (ids: number[]): string => {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(ids));
    } catch {
      return bytesToText(ids.filter((id) => id < 128)) +
        "\ufffd".repeat(ids.filter((id) => id >= 128).length);
    }
  };
  for (const decode of [bytesToText, all]) {
    for (const before of ["", "a", "a longer prompt "]) {
      for (let cut = 1; cut < 4; cut++) {
        const stream = new TextStream(decode, [], [...bytesOf(before), ...emoji.slice(0, cut)]);
        const texts = emoji.slice(cut).map((id) => stream.push(id).text);
        assertEquals(texts, [...Array(3 - cut).fill(""), "🦙", "", "", "", "🦊", "!"]);
        assertEquals(stream.flush(), "");
      }
    }
  }
});

test("what of a prompt is no character is not told again", () => {
  for (const before of [bytesOf("a\ufffd"), bytesOf("\ufffd"), [0xf0, 0x9f], [97, 0xff, 0xff]]) {
    const stream = new TextStream(bytesToText, [], before);
    assertEquals(stream.push(98), { text: "b", done: false });
    assertEquals([stream.push(0xe2).text, stream.flush()], ["", "\ufffd"]);
    assertEquals(new TextStream(bytesToText, [], before).flush(), "");
  }
});

test("a decoder is never asked for the text of no tokens", () => {
  const stream = new TextStream((ids) => {
    assert(ids.length > 0);
    return bytesToText(ids);
  });
  assertEquals([stream.push(97).text, stream.flush(), stream.flush()], ["a", "", ""]);
});

test("bytes that are no characters come in time, and are those of all tokens", () => {
  const byte = fc.constantFrom(
    0xff,
    0x80,
    0xc3,
    0xa9,
    0xe2,
    0x82,
    0xac,
    0xf0,
    0x9f,
    0x98,
    0x80,
    97,
  );
  const check = (ids: number[]): void => {
    let most = 0;
    const stream = new TextStream((some) => {
      most = Math.max(most, some.length);
      return bytesToText(some);
    });
    const made = ids.map((id) => stream.push(id).text).join("") + stream.flush();
    assertEquals(made, bytesToText(ids));
    assert(most <= 40, `${most} tokens at once`);
  };
  for (const bytes of [[0xff], [0x80], [0xf0, 0x9f, 0x98], [0xe2, 0x82], [0xff, 0xc3]]) {
    check(new Array<number[]>(100).fill(bytes).flat());
  }
  fc.assert(fc.property(fc.array(byte, { maxLength: 200 }), check), { numRuns: 1000, seed: 3 });
});

test("only the last tokens are decoded", () => {
  let most = 0;
  const stream = new TextStream((ids) => {
    most = Math.max(most, ids.length);
    return bytesToText(ids);
  }, []);
  for (const id of bytesOf("a longer text with € and 😀 ".repeat(20))) stream.push(id);
  assert(most <= 8, `${most} tokens at once`);
});

test("text ends before a stop text, which may come in parts", () => {
  const decode = pieces(["Hello", " wor", "ld", "<", "end", ">", "<e", "nd> more"]);
  assertEquals(run(decode, [0, 1, 2, 3, 4, 5, 0], ["<end>"]), {
    ...{ texts: ["Hello", " wor", "ld", "", "", ""], rest: "", done: true, taken: 6 },
  });
  assertEquals(run(decode, [0, 6, 7, 1], ["<end>"]).texts, ["Hello", "", ""]);
  // What looked like one is told after all.
  assertEquals(run(decode, [3, 4, 0, 1], ["<end>"]).texts, ["", "", "<endHello", " wor"]);
  assertEquals(run(decode, [0, 3, 4], ["<end>"]), {
    ...{ texts: ["Hello", "", ""], rest: "<end", done: false, taken: 3 },
  });
  assertEquals(run(decode, [3, 3, 4, 5], ["<end>"]).texts, ["", "<", "", ""]);
});

test("the first of several stop texts counts", () => {
  const decode = pieces(["abcd", "a", "b", "c"]);
  assertEquals(run(decode, [0], ["cd", "bc"]).texts, ["a"]);
  assertEquals(run(decode, [1, 2, 3], ["abcd", "b"]), {
    ...{ texts: ["", "a"], rest: "", done: true, taken: 2 },
  });
  assertEquals(run(decode, [0, 1], ["abcd"]), {
    ...{ texts: [""], rest: "", done: true, taken: 1 },
  });
});

test("after a stop text there is no more", () => {
  const stream = new TextStream(bytesToText, ["b"]);
  assertEquals(stream.push(97), { text: "a", done: false });
  assertEquals(stream.push(98), { text: "", done: true });
  assertEquals(stream.push(99), { text: "", done: true });
  assertEquals([stream.flush(), stream.flush()], ["", ""]);
});

test("a stop text in the last characters is not told", () => {
  const stream = new TextStream(bytesToText, ["x\ufffd"]);
  assertEquals([...bytesOf("ax"), 0xe2].map((id) => stream.push(id).text), ["a", "", ""]);
  assertEquals(stream.flush(), "");
});

test("pieces are the text of all tokens, up to the first stop text", () => {
  const letter = fc.constantFrom(..."aab<|>é€😀 ");
  const text = fc.array(letter, { maxLength: 40 }).map((all) => all.join(""));
  const bytes = text.map(bytesOf);
  const noise = fc.array(fc.oneof(fc.nat(255), fc.constantFrom(...bytesOf("a€😀<"))), {
    maxLength: 30,
  });
  const stop = fc.array(
    fc.array(letter, { minLength: 1, maxLength: 3 }).map((all) => all.join("")),
    { maxLength: 3 },
  );
  const property = fc.property(fc.oneof(bytes, noise), stop, (ids, stop) => {
    const { texts, rest, done, taken } = run(bytesToText, ids, stop);
    const made = texts.join("") + rest;
    const whole = bytesToText(ids.slice(0, taken));
    const ends = stop.map((one) => whole.indexOf(one)).filter((at) => at >= 0);
    assertEquals(made, ends.length > 0 ? whole.slice(0, Math.min(...ends)) : whole);
    if (done) assert(ends.length > 0);
    // It ends with the token that completes a stop text.
    const before = bytesToText(ids.slice(0, taken - 1)).replace(/\ufffd+$/, "");
    if (done) assert(stop.every((one) => !before.includes(one)), before);
    assert(texts.every((one) => one.isWellFormed()));
  });
  fc.assert(property, { numRuns: 1000, seed: 1 });
});

test("pieces of random tokens are the text of all of them", () => {
  const texts = ["", "a", "ab", "b<", "<e", "end", ">", "<end>", " ", "d><e"];
  const property = fc.property(
    fc.array(fc.nat(texts.length - 1), { maxLength: 20 }),
    fc.subarray(["<end>", "ab", "><", "nd"]),
    (ids, stop) => {
      const { texts: made, rest, taken } = run(pieces(texts), ids, stop);
      const whole = pieces(texts)(ids.slice(0, taken));
      const ends = stop.map((one) => whole.indexOf(one)).filter((at) => at >= 0);
      assertEquals(made.join("") + rest, whole.slice(0, Math.min(whole.length, ...ends)));
    },
  );
  fc.assert(property, { numRuns: 1000, seed: 2 });
});

test("stop texts are one or more texts", () => {
  assertEquals(stopTexts(undefined), []);
  assertEquals(stopTexts("a"), ["a"]);
  assertEquals(stopTexts(["a", "bc"]), ["a", "bc"]);
  for (const stop of ["", [""], ["a", ""], [1], 1, null, { 0: "a" }]) {
    assertThrows(() => stopTexts(stop), ArgumentError, "stop");
  }
});

test("a stop text that the held tokens complete is found at the end", () => {
  const stream = new TextStream(bytesToText, ["\ufffd"]);
  assertEquals(stream.push(0x61), { text: "a", done: false });
  assertEquals(stream.push(0xe2), { text: "", done: false });
  assertEquals([stream.flush(), stream.done], ["", true]);
});

/**
 * What a hub may send: other origins, nothing, too much, and lists that are none. Requests are
 * counted, and what other servers get is looked at.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { ArgumentError, FormatError } from "../../mod.ts";
import { download } from "../../src/hub/mod.ts";
import { type Any, loose } from "../support.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { blobOf, COMMIT, folderOf, type Hub, sha256, WEIGHTS, withHub } from "./support.ts";

const TREE = `/api/models/org/m/tree/${COMMIT}`;
const FILE = `/org/m/resolve/${COMMIT}/model.safetensors`;
const WEIGHTS_ONLY = { files: ["*.safetensors"] };

function sendJson(response: ServerResponse, value: unknown, status = 200): true {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(typeof value === "string" ? value : JSON.stringify(value));
  return true;
}

/** Runs `body` with another server, and the authorizations that it gets. */
async function withOther(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  body: (address: string, seen: (string | undefined)[]) => Promise<void>,
): Promise<void> {
  const seen: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers.authorization);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await body(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const entry = {
  ...{ type: "file", path: "model.safetensors", size: WEIGHTS.length, oid: "a".repeat(40) },
  lfs: { oid: sha256(WEIGHTS), size: WEIGHTS.length },
};

test("a token is sent to the hub only: not where pages, lists and files are elsewhere", async () => {
  await withOther((request, response) => {
    if (request.url!.startsWith("/page")) return sendJson(response, [entry]);
    if (request.url!.startsWith("/info")) return sendJson(response, { id: "org/m", sha: COMMIT });
    response.end(WEIGHTS);
  }, (address, seen) =>
    withHub(async (hub) => {
      const options = { ...hub.options, ...WEIGHTS_ONLY, token: "hf_secret" };
      hub.token = "hf_secret";
      const lead = (from: string, to: string, status: number): void => {
        hub.answer = (path, request, response) => {
          if (!path.startsWith(from) || request.headers.authorization !== "Bearer hf_secret") {
            return false;
          }
          response.writeHead(status, { location: to }).end();
          return true;
        };
      };
      for (const status of [301, 302, 303, 307, 308]) {
        lead("/api/models/org/m/revision/", `${address}/info`, status);
        await download("org/m", { ...options, files: ["config.json"] });
      }
      lead(TREE, `${address}/page`, 302);
      lead(FILE, `${address}/file`, 302);
      await download("org/m", options);
      // Within the hub it stays.
      lead("/api/models/org/m/revision/v2", "/api/models/org/m/revision/main", 307);
      await download("org/m", { ...options, revision: "v2" });

      hub.answer = (path, _, response) => {
        if (path !== TREE) return false;
        response.setHeader("link", `<${address}/page>; rel="next"`);
        return sendJson(response, []);
      };
      const folder = await download("org/m", options);
      assertEquals(sha256(readFileSync(join(folder, "model.safetensors"))), sha256(WEIGHTS));
      assertEquals(seen, Array(7).fill(undefined));

      for (const to of ["file:///etc/passwd", "data:text/plain,x", "http://"]) {
        lead("/api/models/org/m/revision/", to, 302);
        await assertRejects(() => download("org/m", options), FormatError, "the hub leads to");
      }
      lead("/api/models/org/m/revision/", "/api/models/org/m/revision/main", 302);
      await assertRejects(() => download("org/m", options), FormatError, "leads on and on");
    }));
});

/** What a server that stops does not send: an answer, the rest of a list, of an error, of a file. */
const STALLS: Record<string, (path: string, response: ServerResponse) => boolean> = {
  "an answer": (path) => path.startsWith("/api/"),
  "the rest of a list": (path, response) => path === TREE && response.write("["),
  "the rest of an error": (path, response) =>
    path === TREE && response.writeHead(500) && response.write("["),
  "the answer of a file": (path) => path === FILE,
  "the rest of a file": (path, response) => path === FILE && response.write(WEIGHTS.subarray(0, 9)),
};

for (const [what, stall] of Object.entries(STALLS)) {
  test(`a server that does not send ${what} is left after a while`, () =>
    withHub(async (hub) => {
      hub.answer = (path, _, response) => {
        if (!stall(path, response)) return false;
        response.flushHeaders();
        return true;
      };
      const options = { ...hub.options, ...WEIGHTS_ONLY };
      await assertRejects(
        () => download("org/m", { ...options, timeout: 100 }),
        FormatError,
        "the server sent nothing for 100 ms",
      );
      // A signal ends the wait too.
      const stop = new AbortController();
      setTimeout(() => stop.abort(new RangeError("enough")), 100);
      await assertRejects(
        () => download("org/m", { ...options, timeout: Infinity, signal: stop.signal }),
        RangeError,
        "enough",
      );
      delete hub.answer;
      await download("org/m", options);
      assertEquals(sha256(readFileSync(blobOf(hub))), sha256(WEIGHTS));
    }));
}

/** Rejects with a FormatError of `message`, after at most `requests` requests for lists. */
async function refused(
  hub: Hub,
  send: (response: ServerResponse, page: number) => true,
  message: string,
  requests = 1,
): Promise<void> {
  let pages = 0;
  hub.answer = (path, _, response) => path === TREE && send(response, pages++);
  await assertRejects(
    () => download("org/m", { ...hub.options, files: ["*"] }),
    FormatError,
    message,
  );
  assertEquals(pages, requests);
  assertEquals(hub.seen, []);
}

test("lists without an end are refused", () =>
  withHub(async (hub) => {
    const address = hub.options.hubUrl;
    await refused(
      hub,
      (response, page) => {
        response.setHeader("link", `<${address}${TREE}?page=${page}>; rel="next"`);
        return sendJson(response, page % 2 === 0 ? [] : [{ type: "directory", path: "x" }]);
      },
      "the list has more than 1000 pages",
      1000,
    );
    const endless = (response: ServerResponse): true => {
      const piece = " ".repeat(1 << 20);
      const more = (): void => {
        while (!response.destroyed && response.write(piece));
      };
      response.on("drain", more);
      more();
      return true;
    };
    await refused(hub, endless, `the answer has more than ${2 ** 26} bytes`);
    // Of all pages together.
    if (RUNS_ALL) {
      await refused(
        hub,
        (response, page) => {
          response.setHeader("link", `<${address}${TREE}?page=${page}>; rel="next"`);
          return sendJson(response, `[${" ".repeat(2 ** 24)}]`);
        },
        "the answer has more than",
        4,
      );
    }
    await refused(
      hub,
      (response) => endless(response.writeHead(500)),
      `the answer has more than ${2 ** 20} bytes`,
    );
  }));

test("lists that are none, and lists of what no files are, are refused", () =>
  withHub(async (hub) => {
    for (
      const text of [
        "",
        "null",
        "{}",
        "5",
        "[null]",
        "[[]]",
        '["x"]',
        "[",
        "<html>",
        "[".repeat(1e5),
      ]
    ) {
      await refused(hub, (response) => sendJson(response, text), "not a list of objects in JSON");
    }
    const bad: Any[] = [
      ...[{ path: undefined }, { path: null }, { path: 5 }, { path: ["x"] }, { path: "" }],
      ...[{ path: "a".repeat(256) }, { path: `${"é".repeat(128)}/x` }],
      ...[{ size: "5", lfs: null }, { size: -1, lfs: null }, { size: 1.5, lfs: null }],
      ...[{ size: 2 ** 53, lfs: null }, { size: null, lfs: null }, { oid: null, lfs: null }],
      ...[{ lfs: { oid: 5 } }, { lfs: { oid: "x" } }, { lfs: { size: -1 } }],
    ];
    for (const change of bad) {
      const list = [{ ...entry, ...change }];
      await refused(hub, (response) => sendJson(response, list), "the hub lists the file");
    }
    await refused(hub, (response) => sendJson(response, [entry, entry]), "twice");
    const nested = [{ ...entry, path: "a" }, { ...entry, path: "b" }, { ...entry, path: "a/b/c" }];
    for (const list of [nested, nested.toReversed()]) {
      await refused(hub, (response) => sendJson(response, list), '"a" as a file and as a folder');
    }
    assert(!existsSync(folderOf(hub)));
  }));

test("models that are none, errors that are none, and wrong options", () =>
  withHub(async (hub) => {
    const options = { ...hub.options, ...WEIGHTS_ONLY };
    let answer: (response: ServerResponse) => true;
    hub.answer = (path, _, response) => path.startsWith("/api/models/org/m/") && answer(response);
    for (const text of ["", "null", "[]", "5", "{"]) {
      answer = (response) => sendJson(response, text);
      await assertRejects(() => download("org/m", options), FormatError, "not an object in JSON");
    }
    for (const sha of [undefined, null, 5, "main", ["c"], "../x"]) {
      answer = (response) => sendJson(response, { sha });
      await assertRejects(() => download("org/m", options), FormatError, "the commit");
    }
    for (const text of ["", "null", "[]", "{", "not now"]) {
      answer = (response) => sendJson(response, text, 503);
      const error = await assertRejects(() => download("org/m", options), Error, "503");
      assertStringIncludes((error as Any).url, "/api/models/org/m/");
    }
    hub.answer = (path, _, response) =>
      path === FILE && Boolean(response.writeHead(403).end("signed for another"));
    await assertRejects(
      () => download("org/m", options),
      FormatError,
      "model.safetensors at byte 0: the hub answers with the status 403",
    );
    delete hub.answer;
    for (const timeout of [0, -1, NaN, "5", null]) {
      await assertRejects(
        () => download("org/m", { ...options, timeout: loose(timeout) }),
        ArgumentError,
        "timeout",
      );
    }
    for (const hubUrl of ["", "x", "file:///", "http://", 5]) {
      await assertRejects(
        () => download("org/m", { ...options, hubUrl: loose(hubUrl) }),
        ArgumentError,
        "Cannot download from",
      );
    }
  }));

test("a connection that fails is a FormatError, at the byte that was reached", async () => {
  await withHub(async (hub) => {
    const options = { ...hub.options, ...WEIGHTS_ONLY };
    hub.answer = (path, _, response) => {
      if (path !== FILE) return false;
      response.writeHead(200, { "content-length": WEIGHTS.length });
      response.write(WEIGHTS.subarray(0, 100), () => response.destroy());
      return true;
    };
    const error = await assertRejects(() => download("org/m", options), FormatError);
    assertStringIncludes(error.message, "the connection failed: ");
    hub.answer = undefined;
    // An address with a slash at its end is the same hub.
    await download("org/m", { ...options, hubUrl: `${hub.options.hubUrl}/` });
  });
  await assertRejects(
    () => download("org/m", { hubUrl: "http://127.0.0.1:9" }),
    FormatError,
    "the connection failed: ",
  );
});

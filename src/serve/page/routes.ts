/**
 * The page at / of a server: chats, a search of pasted text, and drawn digits, on the paths of its
 * APIs. The page is one document; it loads nothing else, and asks no other server.
 *
 * @module
 */
/// <reference path="./text.d.ts" />
import { createHash } from "node:crypto";
import { json, type Route } from "../http/service.ts";
import style from "./page.css" with { type: "text" };
import frame from "./page.html" with { type: "text" };
import program from "./page.js" with { type: "text" };

/** The models that the page offers, by name. */
export interface PageModels {
  /** Those of `/v1/chat/completions`. */
  readonly chat: readonly string[];
  /** Those of `/v1/embeddings`. */
  readonly embeddings: readonly string[];
  /**
   * The one of `/v2/models/NAME/infer` that reads digits: 64 numbers from 0, paper, to 1, ink, for
   * 8 x 8 pixels, give the probability or the score of each digit.
   */
  readonly digits?: string | undefined;
}

/** A text without comments and indentation, which clients need not load. */
function shorten(text: string): string {
  return text.replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, "").replace(/^\s+/gm, "");
}

/** The source of a content security policy that allows only this text. */
function onlyThis(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** The same in fewer lines, for styles and programs without texts of several lines. */
const join = (text: string): string => shorten(text).replace(/([{;,])\n/g, "$1");

const css = join(style), js = join(program);

/** The page. */
const PAGE = shorten(frame)
  .replace(/(?<=<style>)[^]*(?=<\/style>)/, () => css)
  .replace(/(?<=<script>)[^]*(?=<\/script>)/, () => js);

/** Nothing but what is in the page runs, and it shows texts of models only as text. */
const POLICY = [
  "default-src 'none'",
  "connect-src 'self'",
  "img-src data:",
  `style-src ${onlyThis(css)}`,
  `script-src ${onlyThis(js)}`,
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};

/**
 * The routes of the page: `/`, which needs no key, and `/page.json`, the names of its models, which
 * needs one as the APIs do. The page shows a screen for each kind of model that there is.
 */
export function pageRoutes({ chat, embeddings, digits }: PageModels): Route[] {
  return [
    {
      method: "GET",
      path: "/",
      isOpen: true,
      answer: () => new Response(PAGE, { headers: HEADERS }),
    },
    { method: "GET", path: "/page.json", answer: () => json({ chat, embeddings, digits }) },
  ];
}

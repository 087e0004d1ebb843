/**
 * The progress of loading, on stderr: one line that changes on a terminal, plain lines elsewhere.
 *
 * @module
 */
import process from "node:process";
import { bytesText } from "./arguments.ts";

/** What is loaded of a model or of a file. */
export interface Loaded {
  readonly loaded: number;
  readonly total: number;
}

/** Shows the progress of something. */
export interface Progress {
  /** Shows how far it is. */
  readonly show: (loaded: Loaded) => void;
  /** Removes the line of a terminal. */
  end(): void;
}

/** What takes less time shows nothing, in milliseconds. */
const SHORT = 500;
/** The time between two texts, in milliseconds. */
const [EVERY_ON_TERMINAL, EVERY_ELSEWHERE] = [100, 3000];

/** Where progress is shown. */
export interface Screen {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Shows the progress of `what`, such as `loading a.gguf`. */
export function progressOf(what: string, screen: Screen = process.stderr): Progress {
  const isTerminal = screen.isTTY === true;
  let next = performance.now() + SHORT, isShown = false;
  return {
    show({ loaded, total }) {
      const now = performance.now();
      if (now < next) return;
      next = now + (isTerminal ? EVERY_ON_TERMINAL : EVERY_ELSEWHERE);
      const percent = total > 0 ? Math.floor(100 * loaded / total) : 0;
      const text = `${what}: ${percent}% of ${bytesText(total)}`;
      screen.write(isTerminal ? `\r\x1b[K${text}` : `${text}\n`);
      isShown = true;
    },
    end() {
      if (isTerminal && isShown) screen.write("\r\x1b[K");
      isShown = false;
    },
  };
}

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

/** What takes less time shows nothing, and the time between two texts, in milliseconds. */
const ON_TERMINAL = { first: 500, next: 100 };
const ELSEWHERE = { first: 2000, next: 3000 };

/** Where progress is shown. */
export interface Screen {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Shows the progress of `what`, such as `loading a.gguf`. */
export function progressOf(
  what: string,
  screen: Screen = process.stderr,
  now: () => number = () => performance.now(),
): Progress {
  const isTerminal = screen.isTTY === true;
  const times = isTerminal ? ON_TERMINAL : ELSEWHERE;
  let next = now() + times.first, isShown = false;
  return {
    show({ loaded, total }) {
      const time = now();
      if (time < next) return;
      next = time + times.next;
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

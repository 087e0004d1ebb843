/**
 * Grammars of numbers in JSON.
 *
 * @module
 */
import { anyOf, times } from "./ebnf.ts";

/** The most digits of an integer: these are exact in float64. */
const DIGITS = 15;
const MOST = 10n ** BigInt(DIGITS) - 1n;

/** Integers and numbers without limits. */
export const INTEGER = `"-"? ("0" | [1-9] [0-9]{0,${DIGITS - 1}})`;
export const NUMBER = `${INTEGER} ("." [0-9]{1,${DIGITS}})? ([eE] [-+]? [0-9]{1,2})?`;

/** A limit: the number, and whether it is allowed itself. */
export interface Limit {
  readonly value: number;
  readonly isIncluded: boolean;
}

/** How digits compare with those of a limit at the same places: below, the same, above. */
type Order = -1 | 0 | 1;

function orderOf(digit: number, of: string | undefined): Order {
  const other = Number(of ?? digit);
  return digit < other ? -1 : digit > other ? 1 : 0;
}

/** Digits with the same orders to two limits. */
interface Group {
  readonly from: number;
  to: number;
  readonly low: Order;
  readonly high: Order;
}

/** The next digits by their orders, which those before decide if they differ from the limits. */
function groupsOf(
  least: number,
  [low, lowDigit]: readonly [Order, string | undefined],
  [high, highDigit]: readonly [Order, string | undefined],
): Group[] {
  const groups: Group[] = [];
  for (let d = least; d <= 9; d++) {
    const own = {
      low: low === 0 ? orderOf(d, lowDigit) : low,
      high: high === 0 ? orderOf(d, highDigit) : high,
    };
    const last = groups.at(-1);
    if (last?.low === own.low && last.high === own.high) last.to = d;
    else groups.push({ from: d, to: d, ...own });
  }
  return groups;
}

function digits(from: number, to: number): string {
  return from === to ? `"${from}"` : `[${from}-${to}]`;
}

/** What follows an integer, by whether it is the first and the last one. */
type Suffix = (isFirst: boolean, isLast: boolean) => string;

/**
 * The integers from `first` to `last`, neither negative, each with what follows it; undefined if there
 * are none. No two parts begin alike: the package takes more than the grammar where many do.
 */
function natural(first: bigint, last: bigint, suffix: Suffix): string | undefined {
  if (first > last) return undefined;
  const parts: string[] = [];
  if (first === 0n) parts.push(`"0" ${suffix(true, last === 0n)}`);
  const a = String(first === 0n ? 1n : first), b = String(last);
  const isFirst = (order: Order, length: number): boolean =>
    first !== 0n && order === 0 && length === a.length;
  const rest = (length: number, low: Order, high: Order): string | undefined => {
    const isLong = length > a.length || length === a.length && low >= 0;
    const canEnd = length > 0 && isLong && (length < b.length || high <= 0);
    const isDecided = (low !== 0 || length > a.length) && high !== 0;
    if (isDecided) {
      const least = Math.max(0, (low < 0 ? a.length + 1 : a.length) - length);
      const most = (high > 0 ? b.length - 1 : b.length) - length;
      return most < least ? undefined : `${times("[0-9]", least, most)} ${suffix(false, false)}`;
    }
    const end = canEnd
      ? suffix(isFirst(low, length), high === 0 && length === b.length)
      : undefined;
    if (length === b.length) return end;
    const groups = groupsOf(length === 0 ? 1 : 0, [low, a[length]], [high, b[length]]);
    const all = groups.flatMap(({ from, to, low, high }) => {
      const next = rest(length + 1, low, high);
      return next === undefined ? [] : [`${digits(from, to)} ${next}`];
    });
    if (end !== undefined) all.push(end.trim() === "" ? '""' : end);
    return all.length === 0 ? undefined : anyOf(all);
  };
  const positive = last === 0n ? undefined : rest(0, 0, 0);
  if (positive !== undefined) parts.push(positive);
  return parts.length === 0 ? undefined : anyOf(parts);
}

/** One digit or more whose fraction is from `low` to `high`, texts of as many digits. */
function fraction(low: string, high: string): string {
  const rest = (length: number, a: Order, b: Order): string => {
    const left = low.length - length;
    if (a !== 0 && b !== 0) return times("[0-9]", length === 0 ? 1 : 0, left);
    const all = left === 0
      ? []
      : groupsOf(0, [a, low[length]], [b, high[length]]).flatMap((group) =>
        group.low < 0 || group.high > 0
          ? []
          : [`${digits(group.from, group.to)} ${rest(length + 1, group.low, group.high)}`]
      );
    const canEnd = length > 0 && (a !== 0 || /^0*$/.test(low.slice(length)));
    if (canEnd) all.push('""');
    return anyOf(all);
  };
  return rest(0, 0, 0);
}

/** A number as an integer times a power of ten. */
function decimalOf(value: number): [integer: bigint, decimals: number] {
  const [mantissa = "", exponent = "0"] = String(value).split("e");
  const [whole = "", part = ""] = mantissa.split(".");
  const decimals = part.length - Number(exponent);
  const integer = BigInt(whole + part);
  return decimals >= 0 ? [integer, decimals] : [integer * 10n ** BigInt(-decimals), 0];
}

/** An interval of integers, and the number of their decimals. */
interface Interval {
  readonly low: bigint;
  readonly high: bigint;
  readonly decimals: number;
}

/** The interval between limits, of numbers with one decimal more than they have. */
function intervalOf(low: Limit | undefined, high: Limit | undefined, least: number): Interval {
  const [a, aDecimals] = low === undefined ? [-MOST, 0] : decimalOf(low.value);
  const [b, bDecimals] = high === undefined ? [MOST, 0] : decimalOf(high.value);
  const decimals = least === 0 ? Math.max(aDecimals, bDecimals) : least +
    Math.max(aDecimals, bDecimals);
  const from = a * 10n ** BigInt(decimals - aDecimals);
  const to = b * 10n ** BigInt(decimals - bDecimals);
  const [limit, one] = [MOST * 10n ** BigInt(decimals), 1n];
  const first = low?.isIncluded === false ? from + one : from;
  const last = high?.isIncluded === false ? to - one : to;
  return { low: first < -limit ? -limit : first, high: last > limit ? limit : last, decimals };
}

/** Numbers of an interval that is not negative; undefined if there are none. */
function positive({ low, high, decimals }: Interval): string | undefined {
  if (low > high) return undefined;
  const unit = 10n ** BigInt(decimals);
  const suffix: Suffix = (isFirst, isLast) => {
    const from = isFirst ? low % unit : 0n, to = isLast ? high % unit : unit - 1n;
    const [a, b] = [from, to].map((part) => String(part).padStart(decimals, "0"));
    const part = `"." ${isFirst || isLast ? fraction(a!, b!) : `[0-9]{1,${DIGITS}}`}`;
    return from === 0n ? times(part, 0, 1) : part;
  };
  return natural(low / unit, high / unit, suffix);
}

/** Numbers and negative ones. */
function both(plus: string | undefined, minus: string | undefined): string | undefined {
  if (minus === undefined) return plus;
  return plus === undefined ? `"-" ${minus}` : anyOf([plus, `"-" ${minus}`]);
}

/** Integers between limits; undefined if there are none. */
export function integers(low: Limit | undefined, high: Limit | undefined): string | undefined {
  if (low === undefined && high === undefined) return INTEGER;
  const { low: from, high: to, decimals } = intervalOf(low, high, 0);
  const unit = 10n ** BigInt(decimals);
  // Division truncates.
  const first = from > 0n ? (from + unit - 1n) / unit : from / unit;
  const last = to < 0n ? (to - unit + 1n) / unit : to / unit;
  const none: Suffix = () => "";
  return both(
    natural(first > 0n ? first : 0n, last, none),
    natural(last < 0n ? -last : 1n, -first, none),
  );
}

/** Numbers between limits; undefined if there are none. */
export function numbers(low: Limit | undefined, high: Limit | undefined): string | undefined {
  if (low === undefined && high === undefined) return NUMBER;
  const { low: from, high: to, decimals } = intervalOf(low, high, 1);
  return both(
    positive({ low: from > 0n ? from : 0n, high: to, decimals }),
    positive({ low: to < 0n ? -to : 1n, high: -from, decimals }),
  );
}

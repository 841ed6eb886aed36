// Formats numbers, times and sizes.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const nothing = "–";

/** Axis steps with exact labels: half of 5 would be rounded to 3. */
export const axisSteps = Array.from({ length: 18 }, (_, power) => power - 3).flatMap((power) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${power}`)),
);

export function count(value: number): string {
  return whole.format(value);
}

/** For places where a large number must stay short: 1.2M. */
export function compact(value: number): string {
  return value < 10_000 ? whole.format(value) : short.format(value);
}

export function rate(perMinute: number | null | undefined): string {
  if (perMinute === null || perMinute === undefined) return nothing;
  return perMinute >= 10 || perMinute === 0 ? compact(perMinute) : tenth.format(perMinute);
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return nothing;
  if (share > 0 && share < 0.001) return "<0.1 %";
  return tenth.format(share * 100) + " %";
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return nothing;
  if (value < 1) return value === 0 ? "0 ms" : "<1 ms";
  return value < 1000 ? `${whole.format(value)} ms` : duration(value / 1000);
}

/** At most two units: 3 min 20 s, 2 d 4 h. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return nothing;
  const value = Math.max(0, seconds);
  if (value < 1) return value === 0 ? "0 s" : "<1 s";
  if (value < 10) return `${tenth.format(Math.floor(value * 10) / 10)} s`;
  if (value < 60) return `${Math.floor(value)} s`;
  if (value < 3600) return pair(value, 60, "min", 1, "s");
  if (value < 86_400) return pair(value, 3600, "h", 60, "min");
  return pair(value, 86_400, "d", 3600, "h");
}

function pair(value: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((value % large) / small);
  return `${Math.floor(value / large)} ${largeName}` + (rest > 0 ? ` ${rest} ${smallName}` : "");
}

const units = ["B", "KB", "MB", "GB"];

export function bytes(size: number): string {
  let value = size;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 ? whole.format(value) : tenth.format(value)} ${units[unit]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export function clockTime(at: Date): string {
  return clock.format(at);
}

/** Local time in sortable form: 2026-11-15 23:41:07. */
export function localTime(at: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// The first and last time that the daemon writes: years have four digits.
const earliest = Date.parse("0000-01-01T00:00:00Z");
const latest = Date.parse("9999-12-31T23:59:59.999Z");

/** The word for a time outside the calendar; null for all others. */
export function endOfTime(at: Date): "never" | "always" | null {
  if (at.getTime() >= latest) return "never";
  return at.getTime() <= earliest ? "always" : null;
}

/** 5 min ago, in 3 s; only the larger unit, because it updates every second. */
export function relative(at: Date, now: Date): string {
  const end = endOfTime(at);
  if (end) return end;
  const seconds = (now.getTime() - at.getTime()) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const text = duration(Math.floor(Math.abs(seconds))).replace(/^(\d+ \S+) .*/, "$1");
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

export function plural(number: number, one: string, many = one + "s"): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// Formats the payload of a message for display.

/** Indented JSON, or null if the text is not JSON. Numbers keep every digit because the text is not parsed. */
export function prettyJson(text: string): string | null {
  const trimmed = text.trim();
  if (!/^[[{]/.test(trimmed)) return null;
  try {
    JSON.parse(trimmed);
  } catch {
    return null;
  }
  return layOut(trimmed);
}

function layOut(json: string): string {
  let out = "";
  let depth = 0;
  let inText = false;
  const line = () => "\n" + "  ".repeat(depth);
  for (let i = 0; i < json.length; ++i) {
    const character = json[i]!;
    if (inText) {
      out += character;
      if (character === "\\") out += json[++i] ?? "";
      else if (character === '"') inText = false;
    } else if (character === '"') {
      inText = true;
      out += character;
    } else if (character === "{" || character === "[") {
      const close = character === "{" ? "}" : "]";
      const next = /\S/.exec(json.slice(i + 1, i + 200))?.[0];
      if (next === close) {
        out += character + close;
        i = json.indexOf(close, i);
      } else {
        ++depth;
        out += character + line();
      }
    } else if (character === "}" || character === "]") {
      --depth;
      out += line() + character;
    } else if (character === ",") {
      out += character + line();
    } else if (character === ":") {
      out += ": ";
    } else if (!/\s/.test(character)) {
      out += character;
    }
  }
  return out;
}

/** JSON without the whitespace added for display. */
export function compactJson(text: string): string {
  return layOut(text.trim()).replace(/("(?:\\.|[^"\\])*")|\s+/g, "$1");
}

export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** Sixteen bytes per line: offset, bytes, printable ASCII. */
export function hexDump(data: Uint8Array): string {
  const lines: string[] = [];
  for (let from = 0; from < data.length; from += 16) {
    const part = Array.from(data.subarray(from, from + 16));
    const digits = part.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    const right = digits.slice(8).join(" ").padEnd(23);
    const ascii = part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${from.toString(16).padStart(8, "0")}  ${left}  ${right}  ${ascii}`);
  }
  return lines.join("\n");
}

/** Parses stored headers, a JSON object of strings; null for anything else. */
export function parseHeaders(text: string): [string, string][] | null {
  try {
    const parsed = JSON.parse(text) as unknown;
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return null;
    return Object.entries(parsed).map(([name, value]) => [
      name,
      typeof value === "string" ? value : JSON.stringify(value),
    ]);
  } catch {
    return null;
  }
}

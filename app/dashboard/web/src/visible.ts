// Makes invisible and direction-changing characters of untrusted text visible.

export type Piece = { text: string } | { mark: string };

/** Marks that change direction, and characters of no width. Joiners that scripts and emoji need may stay. */
const hidden = new Set([
  0x00ad, 0x061c, 0x180e, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060,
  0x2066, 0x2067, 0x2068, 0x2069, 0xfeff,
]);

function isHidden(code: number): boolean {
  if (code === 0x0a || code === 0x09) return false;
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000) || hidden.has(code);
}

function markOf(code: number): string {
  return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

/** The text in pieces: printable parts, and marks for the other characters. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let plain = "";
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (!isHidden(code)) {
      plain += character;
      continue;
    }
    if (plain) found.push({ text: plain });
    plain = "";
    found.push({ mark: markOf(code) });
  }
  if (plain) found.push({ text: plain });
  return found;
}

/** The beginning of a text, never half a character. */
export function head(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}

/** The same as one string, for attributes. */
export function visibleText(text: string): string {
  return pieces(text)
    .map((piece) => ("text" in piece ? piece.text : `⟨${piece.mark}⟩`))
    .join("");
}

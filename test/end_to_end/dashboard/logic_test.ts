import { expect, test } from "@playwright/test";
import { compactJson, hexDump, parseHeaders, prettyJson } from "./web/content";
import { diff } from "./web/diff";
import * as format from "./web/format";
import { head, pieces, visibleText } from "./web/visible";

test("JSON is laid out without being changed", () => {
  expect(prettyJson('{"a":1.0,"b":[],"c":{ },"d":[1,{"e":"x, {y}: \\"z\\""}]}')).toBe(
    '{\n  "a": 1.0,\n  "b": [],\n  "c": {},\n  "d": [\n    1,\n    {\n      "e": "x, {y}: \\"z\\""\n    }\n  ]\n}',
  );
  expect(prettyJson("12345678901234567890")).toBeNull();
  expect(prettyJson('{"a":12345678901234567890}')).toContain("12345678901234567890");
  expect(prettyJson('{"a":')).toBeNull();
  const compact = '{"a":[1,{"b c":"  d : e "}],"f":"\\\\"}';
  expect(compactJson(prettyJson(compact)!)).toBe(compact);
});

test("bytes are shown sixteen to a line", () => {
  const lines = hexDump(new Uint8Array(Array.from({ length: 18 }, (_, index) => index + 60))).split("\n");
  expect(lines).toEqual([
    "00000000  3c 3d 3e 3f 40 41 42 43  44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK",
    "00000010  4c 4d                                             LM",
  ]);
});

test("headers that are no object of texts are shown as they are", () => {
  expect(parseHeaders('{"a":"b","n":1}')).toEqual([
    ["a", "b"],
    ["n", "1"],
  ]);
  expect(parseHeaders("[1]")).toBeNull();
  expect(parseHeaders("a: b")).toBeNull();
});

test("no label of an axis is rounded", () => {
  for (const step of format.axisSteps.filter((step) => step >= 1 && step < 1000)) {
    for (let at = 0; at <= 5 * step; at += step) {
      expect(format.compact(at).replace(",", "")).toBe(String(at));
      if (at < 1000) expect(format.milliseconds(at)).toBe(`${at} ms`);
    }
  }
  expect(format.axisSteps.filter((step) => step < 1).map(format.percent).slice(3)).toEqual([
    "1 %",
    "2 %",
    "5 %",
    "10 %",
    "20 %",
    "50 %",
  ]);
});

test("a difference keeps what is common", () => {
  const kinds = diff("a\nb\nc\nd", "a\nc\nx\nd").map((line) => line.kind[0] + line.text);
  expect(kinds).toEqual(["sa", "rb", "sc", "ax", "sd"]);
  expect(diff("", "").map((line) => line.kind)).toEqual(["same"]);
  const long = (mark: string) => Array.from({ length: 3000 }, (_, index) => mark + index).join("\n");
  expect(diff(long("a"), long("b"))).toHaveLength(6000);
});

test("nothing that hides or turns around stays invisible", () => {
  expect(visibleText("a\u202eb\u0000c\u007f\u00a0\ud800")).toBe("a⟨U+202E⟩b⟨U+0000⟩c⟨U+007F⟩\u00a0⟨U+D800⟩");
  expect(pieces("line\nbreak\tand 👩‍🚀 שלום")).toEqual([{ text: "line\nbreak\tand 👩‍🚀 שלום" }]);
  expect(head("ab👩", 3)).toBe("ab");
  expect(head("ab", 3)).toBe("ab");
});

test("numbers, times and sizes as people read them", () => {
  expect(format.compact(9999)).toBe("9,999");
  expect(format.compact(1_250_000)).toBe("1.3M");
  expect(format.rate(null)).toBe("–");
  expect(format.rate(0.25)).toBe("0.3");
  expect(format.percent(0.0002)).toBe("<0.1 %");
  expect(format.percent(0.125)).toBe("12.5 %");
  expect(format.duration(0.2)).toBe("<1 s");
  expect(format.duration(200)).toBe("3 min 20 s");
  expect(format.duration(7200)).toBe("2 h");
  expect(format.duration(187_200)).toBe("2 d 4 h");
  expect(format.milliseconds(0.4)).toBe("<1 ms");
  expect(format.milliseconds(1500)).toBe("1.5 s");
  expect(format.bytes(1536)).toBe("1.5 KB");
  const now = new Date("2026-01-01T00:10:00Z");
  expect(format.relative(new Date("2026-01-01T00:05:30Z"), now)).toBe("4 min ago");
  expect(format.relative(new Date("2026-01-01T01:10:00Z"), now)).toBe("in 1 h");
  expect(format.relative(new Date("9999-12-31T23:59:59.999999Z"), now)).toBe("never");
  expect(format.relative(new Date("0000-01-01T00:00:00Z"), now)).toBe("always");
  expect(format.endOfTime(now)).toBeNull();
  expect(format.plural(1, "delivery", "deliveries")).toBe("1 delivery");
});

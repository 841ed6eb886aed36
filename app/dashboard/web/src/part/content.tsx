// The payload and the headers of a message.
import { useMemo, useState } from "preact/hooks";
import { get } from "../api/client";
import type { MessageDetail } from "../api/types";
import { fromBase64, hexDump, parseHeaders, prettyJson } from "../content";
import { bytes } from "../format";
import type { Target } from "../operation";
import { Choice } from "./choice";
import { Name, Long } from "./text";

type Form = "pretty" | "raw" | "hex";

/** The largest part of a payload that the daemon returns. */
export const largest = 1 << 20;

export function Content({ message, target }: { message: MessageDetail; target: Target }) {
  const [whole, setWhole] = useState<MessageDetail | null>(null);
  const [wanted, setWanted] = useState<Form | null>(null);
  const shown = whole && whole.content_version === message.content_version ? whole : message;
  const binary = shown.payload_encoding === "base64";
  const pretty = useMemo(() => (binary ? null : prettyJson(shown.payload)), [shown.payload]);
  const form: Form = binary ? "hex" : (wanted ?? (pretty ? "pretty" : "raw"));
  const text = useMemo(() => textOf(shown, form, pretty), [shown.payload, form]);

  const loadMore = async () => {
    const path = `v1/messages/${encodeURIComponent(message.id)}`;
    setWhole(await get<MessageDetail>(path, { ...target, source: message.source, payload_limit: largest }));
  };

  const total = shown.payload_size ?? shown.size;
  if (total === 0) return <p class="soft">The payload is empty.</p>;
  return (
    <div class="content-box">
      {!binary && (
        <Choice label="Show payload as" name="form" value={form} options={formsOf(pretty)} onChange={setWanted} />
      )}
      {(shown.redacted ?? []).length > 0 && (
        <p class="hint">
          Hidden by the configuration:{" "}
          {shown.redacted!.map((pointer) => (
            <code key={pointer}>
              <Name text={pointer} />{" "}
            </code>
          ))}
        </p>
      )}
      <Long key={form} text={text} limit={4096} block />
      {shown.payload_truncated && (
        <p class="hint">
          The first part of {bytes(total)}.{" "}
          {!whole && (
            <button type="button" class="quiet" onClick={() => void loadMore()}>
              Load up to {bytes(largest)}
            </button>
          )}
        </p>
      )}
    </div>
  );
}

function formsOf(pretty: string | null): [Form, string][] {
  const forms: [Form, string][] = pretty === null ? [] : [["pretty", "Pretty"]];
  return [...forms, ["raw", "Raw"], ["hex", "Hex"]];
}

function textOf(message: MessageDetail, form: Form, pretty: string | null): string {
  if (form === "pretty" && pretty !== null) return pretty;
  if (form === "raw" && message.payload_encoding === "utf-8") return message.payload;
  const data =
    message.payload_encoding === "base64" ? fromBase64(message.payload) : new TextEncoder().encode(message.payload);
  return hexDump(data);
}

export function Headers({ text }: { text: string }) {
  const headers = useMemo(() => parseHeaders(text), [text]);
  if (!headers) return <Long text={text} block limit={4096} />;
  return (
    <dl class="pairs">
      {headers.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Name text={name} />
          </dt>
          <dd>
            <Long text={value} limit={300} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

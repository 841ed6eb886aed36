// Displays untrusted text: without markup, isolated from the text around it, limited in length.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { bytes } from "../format";
import { head, pieces } from "../visible";

function Visible({ text }: { text: string }) {
  return (
    <>
      {pieces(text).map((piece) =>
        "text" in piece ? (
          piece.text
        ) : (
          <span class="mark">{piece.mark}</span>
        ),
      )}
    </>
  );
}

/** A name in a line: topic, id, handler. Truncated; the linked page shows all of it. */
export function Name({ text, limit = 120 }: { text: string; limit?: number }) {
  const shown = head(text, limit);
  return (
    <bdi class="name">
      <Visible text={shown} />
      {shown.length < text.length ? "…" : ""}
    </bdi>
  );
}

interface LongProps {
  text: string;
  /** Characters shown at first; each "show more" shows sixteen times as many. */
  limit?: number;
  block?: boolean;
}

/** A text of any length. */
export function Long({ text, limit = 400, block = false }: LongProps) {
  const [length, setLength] = useState(limit);
  // A short rest is shown without a button.
  const shown = text.length <= length * 1.5 ? text : head(text, length);
  const rest = text.length - shown.length;
  const body: ComponentChildren = <Visible text={shown} />;
  return (
    <>
      {block ? (
        <pre class="content" tabIndex={0} dir="auto">
          {body}
          {rest > 0 ? "…" : ""}
        </pre>
      ) : (
        <bdi class="long">
          {body}
          {rest > 0 ? "…" : ""}
        </bdi>
      )}
      {rest > 0 && (
        <button type="button" class="quiet more" onClick={() => setLength(length * 16)}>
          Show more <span class="soft">({bytes(rest)} left)</span>
        </button>
      )}
    </>
  );
}

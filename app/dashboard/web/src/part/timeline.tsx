// The history of a message in chronological order.
import type { MessageDetail } from "../api/types";
import { Shape } from "./state";
import { Long, Name } from "./text";
import { When } from "./time";

interface Event {
  at: string;
  shape: "seen" | "dead" | "done" | "scheduled" | "discarded" | "leased" | "marked" | "degraded";
  title: string;
  handler: string;
  text: string;
  worker: string | null;
}

function eventsOf(message: MessageDetail): Event[] {
  const plain = { handler: "", text: "", worker: null };
  const events: Event[] = [{ ...plain, at: message.created_at, shape: "seen", title: "Created" }];
  if (message.seen_count > 1) {
    events.push({ ...plain, at: message.last_seen_at, shape: "seen", title: `Received again, ${message.seen_count} times in total` });
  }
  for (const failure of message.timeline) {
    events.push({
      at: failure.failed_at,
      shape: "degraded",
      title: `Attempt ${failure.attempt} failed`,
      handler: failure.handler,
      text: failure.error,
      worker: failure.worker ?? null,
    });
  }
  for (const delivery of message.deliveries) {
    const { handler } = delivery;
    if (delivery.finished_at && (delivery.state === "done" || delivery.state === "dead" || delivery.state === "discarded" || delivery.state === "marked")) {
      const title = { done: "Done", dead: "Dead-lettered", discarded: "Discarded", marked: "Marked" }[delivery.state];
      events.push({ ...plain, at: delivery.finished_at, shape: delivery.state, title, handler, text: delivery.reason });
    } else if (delivery.lease_until) {
      events.push({ ...plain, at: delivery.lease_until, shape: "leased", title: "In delivery; lease ends", handler });
    } else if (delivery.visible_at) {
      events.push({ ...plain, at: delivery.visible_at, shape: "scheduled", title: "Due", handler });
    }
  }
  return events.sort((a, b) => new Date(a.at).getTime() - new Date(b.at).getTime());
}

export function Timeline({ message }: { message: MessageDetail }) {
  return (
    <ol class="timeline">
      {eventsOf(message).map((event, index) => (
        <li key={index} class={event.shape}>
          <Shape of={event.shape} />
          <div>
            <p>
              <strong>{event.title}</strong>
              {event.handler && (
                <span class="soft">
                  {" "}
                  · <Name text={event.handler} />
                </span>
              )}
              {event.worker && (
                <span class="soft">
                  {" "}
                  · by <Name text={event.worker} limit={60} />
                </span>
              )}
            </p>
            <p class="soft">
              <When at={event.at} exact />
            </p>
            {event.text && (
              <p class="error">
                <Long text={event.text} limit={400} />
              </p>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}

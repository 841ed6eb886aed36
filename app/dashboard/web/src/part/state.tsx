// Shows states by word, shape and colour, so that each one suffices.
import type { DeliveryState, Status } from "../api/types";

/** Unknown: no update for a while. */
export type Known = DeliveryState | Status | "unknown";

const shapes: Record<Known, string> = {
  ready: "dot",
  scheduled: "clock",
  leased: "half",
  waiting: "bars",
  done: "check",
  dead: "cross",
  discarded: "dash",
  marked: "check",
  seen: "ring",
  healthy: "check",
  degraded: "triangle",
  unhealthy: "cross",
  unknown: "dash",
};

function drawing(shape: string) {
  switch (shape) {
    case "dot":
      return <circle cx="8" cy="8" r="4" fill="currentColor" />;
    case "ring":
      return <circle cx="8" cy="8" r="4" fill="none" stroke="currentColor" stroke-width="2" />;
    case "half":
      return (
        <>
          <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2" />
          <path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor" />
        </>
      );
    case "clock":
      return (
        <path
          d="M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.6"
          fill="none"
          stroke="currentColor"
          stroke-width="1.8"
        />
      );
    case "bars":
      return <path d="M5.5 4v8M10.5 4v8" stroke="currentColor" stroke-width="2.4" />;
    case "check":
      return <path d="M3.2 8.4l3.2 3.2 6.4-7" fill="none" stroke="currentColor" stroke-width="2.2" />;
    case "cross":
      return <path d="M4 4l8 8M12 4l-8 8" stroke="currentColor" stroke-width="2.2" />;
    case "triangle":
      return (
        <path d="M8 2.6l6 10.8H2zM8 6.6v3.2M8 11v1.2" fill="none" stroke="currentColor" stroke-width="1.7" />
      );
    default:
      return <path d="M3.5 8h9" stroke="currentColor" stroke-width="2.2" />;
  }
}

export function Shape({ of }: { of: Known }) {
  return (
    <svg class="shape" viewBox="0 0 16 16" aria-hidden="true">
      {drawing(shapes[of])}
    </svg>
  );
}

export function State({ of }: { of: Known }) {
  return (
    <span class={`state ${of}`}>
      <Shape of={of} />
      {of}
    </span>
  );
}

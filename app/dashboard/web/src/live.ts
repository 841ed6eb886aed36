// The live overview: by server-sent events, or by polling if a proxy blocks them.
import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "./api/client";
import type { Overview } from "./api/types";

export interface Live {
  overview: Overview | null;
  /** Counts updates; views that show the first page reload. */
  tick: number;
  /** The transport of the updates. */
  by: "events" | "polling" | "none";
  /** The start of the outage; null while updates arrive. */
  staleSince: Date | null;
  problem: Problem | null;
}

/** The browser does not report the comment that the daemon sends every 15 s, so the page polls to detect an outage. */
const askEvery = 10_000;
const askEveryWithoutEvents = 3_000;

class Connection {
  private state: Live = { overview: null, tick: 0, by: "none", staleSince: null, problem: null };
  private source: EventSource | null = null;
  private timer = 0;
  private lastUpdate = new Date();
  private readonly listeners = new Set<(state: Live) => void>();

  current = (): Live => this.state;

  listen(listener: (state: Live) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    this.open();
    void this.ask();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.refreshSoon(0);
    });
  }

  /** Reloads after an operation or a login. */
  refreshSoon(delay: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.ask(), delay);
  }

  restart(): void {
    this.source?.close();
    this.source = null;
    this.open();
    this.refreshSoon(0);
  }

  private open(): void {
    const source = new EventSource("v1/overview/stream");
    this.source = source;
    source.addEventListener("overview", (event) => this.news(JSON.parse(event.data as string) as Overview));
    source.onopen = () => this.change({ by: "events" });
    source.onerror = () => {
      if (this.source !== source) return;
      if (this.state.by === "events") this.change({ by: "none" });
      // The browser reconnects by itself unless the request was refused.
      if (source.readyState === EventSource.CLOSED) this.source = null;
      this.refreshSoon(0);
    };
  }

  private async ask(): Promise<void> {
    clearTimeout(this.timer);
    try {
      this.news(await get<Overview>("v1/overview"));
      if (!this.source) this.open();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, String(error));
      this.change({ problem, staleSince: this.state.staleSince ?? this.lastUpdate });
    }
    this.refreshSoon(this.state.by === "events" ? askEvery : askEveryWithoutEvents);
  }

  private news(overview: Overview): void {
    this.lastUpdate = new Date();
    const by = this.source?.readyState === EventSource.OPEN ? "events" : "polling";
    this.change({ overview, tick: this.state.tick + 1, by, staleSince: null, problem: null });
  }

  private change(part: Partial<Live>): void {
    this.state = { ...this.state, ...part };
    for (const listener of this.listeners) listener(this.state);
  }
}

export const connection = new Connection();

export function useLive(): Live {
  const [state, setState] = useState(connection.current);
  useEffect(() => {
    setState(connection.current());
    return connection.listen(setState);
  }, []);
  return state;
}

// The frame around each view: navigation, overall status, user.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, post } from "./api/client";
import type { Me } from "./api/types";
import { clockTime } from "./format";
import { connection, useLive, type Live } from "./live";
import { ErrorBoundary } from "./part/error_boundary";
import { Shape } from "./part/state";
import { Long, Name } from "./part/text";
import { to, useViewLocation, type ViewLocation, type View } from "./route";
import { SessionContext, useSession } from "./session";
import { useTheme, type Choice } from "./theme";
import { Audit } from "./view/audit";
import { Dead } from "./view/dead";
import { Login } from "./view/login";
import { Message } from "./view/message";
import { Messages } from "./view/messages";
import { Overview } from "./view/overview";
import { Stores } from "./view/stores";
import { Workers } from "./view/workers";

const titles: Record<View, string> = {
  overview: "Overview",
  stores: "Stores",
  messages: "Messages",
  message: "Message",
  dead: "Dead letters",
  workers: "Workers",
  audit: "Audit",
  login: "Log in",
};
const menu: View[] = ["overview", "stores", "messages", "dead", "workers", "audit"];

export function App() {
  const place = useViewLocation();
  const live = useLive();
  const [me, setMe] = useState<Me | null>(null);
  const refresh = useCallback(async () => {
    try {
      setMe(await get<Me>("v1/me"));
    } catch {
      setMe(null);
    }
  }, []);
  useEffect(() => void refresh(), []);
  // After a reconnect the daemon may have a new configuration or other tokens.
  useEffect(() => {
    if (!live.staleSince) void refresh();
  }, [live.staleSince === null]);

  return (
    <SessionContext.Provider value={{ me, refresh }}>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        Skip to content
      </a>
      <Header place={place} live={live} />
      <Stale live={live} />
      <Content place={place} live={live} />
    </SessionContext.Provider>
  );
}

function Header({ place, live }: { place: ViewLocation; live: Live }) {
  const here = place.view === "message" ? "messages" : place.view;
  const list = useRef<HTMLUListElement>(null);
  // Keeps the current view visible if the menu is wider than the page.
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [here]);
  return (
    <header>
      <a class="brand" href={to("overview")}>
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect x="4" y="4" width="16" height="16" rx="3" fill="none" stroke="currentColor" stroke-width="3" />
          <rect x="12" y="12" width="16" height="16" rx="3" fill="currentColor" />
        </svg>
        Twinbox
      </a>
      <nav aria-label="Views">
        <ul ref={list}>
          {menu.map((view) => (
            <li key={view}>
              <a href={to(view)} aria-current={view === here ? "page" : undefined}>
                {titles[view]}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="tools">
        <Verdict live={live} />
        <ThemeSwitch />
        <Account />
      </div>
    </header>
  );
}

/** The element that screen readers announce when the status changes. */
function Verdict({ live }: { live: Live }) {
  const status = live.staleSince ? "unknown" : live.overview?.status;
  return (
    <span role="status" class="chip">
      {status && (
        <a href={to("overview")} class={`state ${status}`}>
          <Shape of={status} />
          {status}
        </a>
      )}
    </span>
  );
}

const choices: [Choice, string, string][] = [
  ["system", "system", "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z"],
  ["light", "light", "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.4 1.4M11.6 11.6L13 13M3 13l1.4-1.4M11.6 4.4L13 3"],
  ["dark", "dark", "M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z"],
];

function ThemeSwitch() {
  const [choice, choose] = useTheme();
  const at = choices.findIndex(([name]) => name === choice);
  const [, text, drawing] = choices[at]!;
  const next = choices[(at + 1) % choices.length]!;
  return (
    <button
      type="button"
      class="quiet icon"
      title={`Colours: ${text}`}
      aria-label={`Colours: ${text}; switch to ${next[1]}`}
      onClick={() => choose(next[0])}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={drawing} fill="none" stroke="currentColor" stroke-width="1.4" />
        {choice === "system" && <path d="M8 2a6 6 0 0 0 0 12z" fill="currentColor" />}
      </svg>
    </button>
  );
}

function Account() {
  const { me, refresh } = useSession();
  if (!me) return null;
  if (!me.actor) {
    return (
      <a class="account" href={to("login")}>
        {me.can.read ? "Read only · Log in" : "Log in"}
      </a>
    );
  }
  const leave = async () => {
    await post("v1/logout");
    await refresh();
    connection.restart();
  };
  return (
    <span class="account">
      <span class="who" title={`Role: ${me.role}`}>
        <Name text={me.actor} limit={24} />
        {me.can.operate ? "" : " · read only"}
      </span>
      <button type="button" class="quiet" onClick={() => void leave()}>
        Log out
      </button>
    </span>
  );
}

function Stale({ live }: { live: Live }) {
  if (!live.staleSince || needsLogin(live)) return null;
  return (
    <div class="stale" role="alert">
      <strong>Stale since {clockTime(live.staleSince)}.</strong>{" "}
      <Long text={live.problem?.message ?? "Connection lost"} limit={200} />. Reconnecting.
    </div>
  );
}

function needsLogin(live: Live): boolean {
  return live.problem?.status === 401 || live.problem?.status === 403;
}

function Content({ place, live }: { place: ViewLocation; live: Live }) {
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${titles[place.view]} · Twinbox`;
    // Screen readers announce the new view; they read the first one anyway.
    if (!first.current) {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [place.view]);
  return (
    <main id="content" ref={main} tabIndex={-1}>
      {needsLogin(live) ? (
        <Login because="This daemon requires a token." />
      ) : (
        <ErrorBoundary viewKey={JSON.stringify(place)}>
          <Viewed place={place} />
        </ErrorBoundary>
      )}
    </main>
  );
}

function Viewed({ place: { view, parameters } }: { place: ViewLocation }) {
  switch (view) {
    case "overview":
      return <Overview parameters={parameters} />;
    case "stores":
      return <Stores parameters={parameters} />;
    case "messages":
      return <Messages parameters={parameters} />;
    case "message":
      return <Message parameters={parameters} />;
    case "dead":
      return <Dead parameters={parameters} />;
    case "workers":
      return <Workers />;
    case "audit":
      return <Audit parameters={parameters} />;
    case "login":
      return <Login />;
  }
}

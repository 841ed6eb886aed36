// The frame: where one is, how things stand, who one is; and the view in it.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, post } from "./api/client";
import type { Me } from "./api/types";
import { clockTime } from "./format";
import { connection, useLive, type Live } from "./live";
import { Shape } from "./part/state";
import { Long, Name } from "./part/text";
import { to, usePlace, type Place, type View } from "./route";
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
  const place = usePlace();
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
  // A daemon that was away may be another one, or know other tokens.
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
        Skip to the content
      </a>
      <Header place={place} live={live} />
      <Stale live={live} />
      <Content place={place} live={live} />
    </SessionContext.Provider>
  );
}

function Header({ place, live }: { place: Place; live: Live }) {
  const here = place.view === "message" ? "messages" : place.view;
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
        <ul>
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

/** The one place that is read aloud when the verdict changes. */
function Verdict({ live }: { live: Live }) {
  const status = live.overview?.status;
  const fresh = live.staleSince === null;
  return (
    <span role="status" class="chip">
      {status && (
        <a href={to("overview")} class={`state ${fresh ? status : "unknown"}`}>
          <Shape of={status} />
          {status}
        </a>
      )}
      <span class="unseen">{!fresh ? "No news" : ""}</span>
    </span>
  );
}

const choices: [Choice, string, string][] = [
  ["system", "◐", "As the system"],
  ["light", "☀", "Light"],
  ["dark", "☾", "Dark"],
];

function ThemeSwitch() {
  const [choice, choose] = useTheme();
  const at = choices.findIndex(([name]) => name === choice);
  const [, symbol, text] = choices[at]!;
  const next = choices[(at + 1) % choices.length]!;
  return (
    <button
      type="button"
      class="quiet icon"
      title={`Colours: ${text.toLowerCase()}`}
      aria-label={`Colours: ${text.toLowerCase()}; switch to ${next[2].toLowerCase()}`}
      onClick={() => choose(next[0])}
    >
      <span aria-hidden="true">{symbol}</span>
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
      <span title={`Role: ${me.role}`}>
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
      <Long text={live.problem?.message ?? "the connection is lost"} limit={200} />. Trying again.
    </div>
  );
}

function needsLogin(live: Live): boolean {
  return live.problem?.status === 401 || live.problem?.status === 403;
}

function Content({ place, live }: { place: Place; live: Live }) {
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${titles[place.view]} · Twinbox`;
    // Readers by ear must hear that the page is another one; the first page is read anyway.
    if (!first.current) {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [place.view]);
  return (
    <main id="content" ref={main} tabIndex={-1}>
      {needsLogin(live) ? (
        <Login because="This daemon shows its boxes to those who have a token." />
      ) : (
        <Viewed place={place} />
      )}
    </main>
  );
}

function Viewed({ place: { view, parameters } }: { place: Place }) {
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

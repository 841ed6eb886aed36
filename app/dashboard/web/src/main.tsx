import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/page.css";
import { post } from "./api/client";
import { App } from "./app";
import { connection } from "./live";
import { startTheme } from "./theme";

/** The login link carries a code after the #, which no server and no log sees. */
async function loginByLink(): Promise<void> {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", "#/");
  try {
    await post("v1/login", { token: decodeURIComponent(token) });
  } catch {
    history.replaceState(null, "", "#/login");
  }
}

startTheme();
await loginByLink();
connection.start();
render(<App />, document.getElementById("app")!);

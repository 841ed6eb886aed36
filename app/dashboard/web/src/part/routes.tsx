// The routes of the daemon and their results since its start.
import { useState } from "preact/hooks";
import { post, Problem } from "../api/client";
import type { Dispatch, Route } from "../api/types";
import { count } from "../format";
import { useCanOperate } from "../session";
import { Dialog, ReasonField } from "./dialog";
import { Empty, ProblemNotice } from "./notice";
import { Table, type Column } from "./table";
import { Long, Name } from "./text";

export function Routes({ dispatch, again }: { dispatch: Dispatch; again: () => void }) {
  const can = useCanOperate();
  const [changing, setChanging] = useState<Route | null>(null);
  if (dispatch.routes.length === 0) {
    return <Empty title="No routes.">This daemon accepts messages but delivers none. Other programs may deliver them.</Empty>;
  }
  const columns: Column<Route>[] = [
    {
      name: "name",
      title: "Route",
      head: true,
      sort: (route) => route.name,
      cell: (route) => (
        <>
          <Name text={route.name} />
          {!route.enabled && (
            <>
              <span class="tag">disabled</span>{" "}
              <span class="soft">
                <Long text={route.reason} limit={100} />
              </span>
            </>
          )}
        </>
      ),
    },
    { name: "box", title: "Box", sort: (route) => route.box, cell: (route) => route.box },
    { name: "topic", title: "Topics", sort: (route) => route.topic, cell: (route) => <Name text={route.topic} /> },
    ...(["done", "retried", "dead", "postponed"] as const).map((name) => ({
      name,
      title: name[0]!.toUpperCase() + name.slice(1),
      number: true,
      sort: (route: Route) => route[name],
      cell: (route: Route) => count(route[name]),
    })),
  ];
  if (can) {
    columns.push({
      name: "action",
      title: "Enable or disable",
      unseen: true,
      cell: (route) => (
        <button
          type="button"
          class="small"
          aria-label={`${route.enabled ? "Disable" : "Enable"} ${route.name}`}
          onClick={() => setChanging(route)}
        >
          {route.enabled ? "Disable" : "Enable"}
        </button>
      ),
    });
  }
  return (
    <>
      <Table caption="Routes" columns={columns} rows={dispatch.routes} rowKey={(route) => route.name} />
      {changing && (
        <RouteDialog
          route={changing}
          onClose={() => {
            setChanging(null);
            again();
          }}
        />
      )}
    </>
  );
}

function RouteDialog({ route, onClose }: { route: Route; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const verb = route.enabled ? "Disable" : "Enable";
  const run = async () => {
    try {
      const path = `v1/routes/${encodeURIComponent(route.name)}/${verb.toLowerCase()}`;
      await post(path, route.enabled ? { reason: reason.trim() } : {});
      onClose();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
    }
  };
  return (
    <Dialog title={`${verb} route`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <p>
          <strong>
            <Name text={route.name} />
          </strong>
          {route.enabled ? ": its messages are postponed until you enable it again." : ": the daemon delivers its messages again."}
        </p>
        {route.enabled && <ReasonField value={reason} onChange={setReason} />}
        {problem && <ProblemNotice problem={problem} />}
        <p class="buttons">
          <button type="submit" class="primary">
            {verb} route
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </p>
      </form>
    </Dialog>
  );
}

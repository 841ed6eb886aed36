import { useState } from "preact/hooks";
import { post, Problem } from "../api/client";
import { connection } from "../live";
import { Dialog } from "./dialog";
import { ProblemNotice } from "./notice";
import { Name } from "./text";

/** Without store and topic: everything. */
export interface PauseRequest {
  pause: boolean;
  store?: string;
  topic?: string;
}

export function PauseDialog({ request, onClose }: { request: PauseRequest; onClose: () => void }) {
  const { pause, store, topic } = request;
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const verb = pause ? "Pause" : "Resume";
  const what = store !== undefined ? "the store" : topic !== undefined ? "the topic" : "everything";
  const run = async () => {
    setBusy(true);
    try {
      await post(`v1/dispatch/${pause ? "pause" : "resume"}`, {
        ...(store !== undefined && { store }),
        ...(topic !== undefined && { topic }),
      });
      connection.refreshSoon(0);
      onClose();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`${verb} ${what}`} onClose={onClose}>
      <p>
        {(store ?? topic) !== undefined && (
          <strong>
            <Name text={store ?? topic ?? ""} />
            {": "}
          </strong>
        )}
        {pause
          ? "the daemon still accepts messages but delivers none until you resume. Calls in flight finish."
          : "the daemon delivers messages again."}
        {topic !== undefined && " This applies to every store of this daemon."}
      </p>
      {problem && <ProblemNotice problem={problem} />}
      <p class="buttons">
        <button type="button" class="primary" disabled={busy} onClick={() => void run()}>
          {verb} {what}
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </p>
    </Dialog>
  );
}

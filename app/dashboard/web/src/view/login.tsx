import { useState } from "preact/hooks";
import { post, Problem } from "../api/client";
import type { Me } from "../api/types";
import { connection } from "../live";
import { Long } from "../part/text";
import { go, to } from "../route";
import { useSession } from "../session";

export function Login({ because }: { because?: string }) {
  const { me, refresh } = useSession();
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async () => {
    setBusy(true);
    try {
      await post<Me>("v1/login", { token: token.trim() });
      await refresh();
      connection.restart();
      if (!because) go(to("overview"));
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
    }
    setBusy(false);
  };

  return (
    <section class="login">
      <h1>Log in</h1>
      {because && <p class="lead">{because}</p>}
      {me?.actor && (
        <p>
          You are <bdi>{me.actor}</bdi>, with the role {me.role}.
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label class="field">
          Token
          <input
            type="password"
            autocomplete="current-password"
            spellcheck={false}
            required
            value={token}
            aria-invalid={problem !== null}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
          <span class="hint">The daemon printed a token at its first start. An administrator can add more.</span>
        </label>
        {problem && (
          <p class="mistake" role="alert">
            {problem.status === 401 ? "Unknown token." : <Long text={problem.message} />}
          </p>
        )}
        <p class="buttons">
          <button type="submit" class="primary" disabled={busy}>
            Log in
          </button>
        </p>
      </form>
    </section>
  );
}

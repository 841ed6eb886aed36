// Keeps the frame usable if a view fails to render.
import { Component, type ComponentChildren } from "preact";
import { Problem } from "../api/client";
import { ProblemNotice } from "./notice";

interface Props {
  /** A change of this key retries rendering. */
  viewKey: string;
  children: ComponentChildren;
}

export class ErrorBoundary extends Component<Props, { error: Error | null }> {
  override state = { error: null as Error | null };

  override componentDidCatch(error: Error): void {
    console.error(error);
    this.setState({ error });
  }

  override componentWillReceiveProps(next: Props): void {
    if (next.viewKey !== this.props.viewKey) this.setState({ error: null });
  }

  render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const problem = new Problem(500, `This page could not display the daemon's response (${error.message}).`);
    return <ProblemNotice problem={problem} again={() => this.setState({ error: null })} />;
  }
}

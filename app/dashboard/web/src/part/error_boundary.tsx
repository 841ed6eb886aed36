// A view that cannot show what it got must not take the frame down with it.
import { Component, type ComponentChildren } from "preact";
import { Problem } from "../api/client";
import { ProblemNotice } from "./notice";

interface Props {
  /** Another view is another chance. */
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
    const problem = new Problem(500, `This page could not show what the daemon answered (${error.message}).`);
    return <ProblemNotice problem={problem} again={() => this.setState({ error: null })} />;
  }
}

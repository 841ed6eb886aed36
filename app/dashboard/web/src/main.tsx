import { render } from "preact";

render(<h1>Twinbox</h1>, document.getElementById("app")!);
